"""When a finding was opened, closed and opened again: pure, from the hours in which the ledger has it, no clock.

It stays open through a gap of up to a day. The ledger judges a UTC day whole, because a habit needs a day to show; what
comes back within a day is the same loss, and a sweep of forty runs of one name is one finding, not forty.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field

from agent.wire.units import DAY_US, HOUR_US
from analyzer.states import Confidence
from analyzer.text.json_fields import WHOLE, Micros

QUIET_US = DAY_US  # so many whole hours without it close it; at least 23, so that no day is cut in two

State = Literal["open", "closed", "reopened"]


@dataclass(frozen=True, slots=True)
class SeenDay:
    """One finding in one UTC day. `hours` has a bit for each hour in which it was seen."""

    day: int
    hours: int
    milliseconds: int
    cost_micros: int | None
    high_ms: int
    medium_ms: int


@dataclass(frozen=True, slots=True)
class Spell:
    """One time from opening to closing. Times are microseconds UTC; `closed_at` is None while it is open."""

    opened_at: int  # the first hour in which it was seen
    updated_at: int  # the end of the last
    closed_at: int | None
    hours: int
    milliseconds: int
    cost_micros: int | None
    confidence: Confidence


@dataclass(frozen=True, slots=True)
class Life:
    """When a finding was opened and closed, as of a moment: its present or last spell, and how many came before."""

    __pydantic_config__: ClassVar[ConfigDict] = WHOLE

    finding_id: str
    first_at: Annotated[Micros, Field(description="When it was first opened at all.")]
    opened_at: Micros
    updated_at: Annotated[Micros, Field(description="The end of the last hour in which it was seen.")]
    closed_at: Micros | None  # of one that goes on beyond the moment, `updated_at` is the moment itself
    reopened: int
    state: State = field(default="open", compare=False)

    def __post_init__(self) -> None:
        state = "closed" if self.closed_at is not None else "reopened" if self.reopened else "open"
        object.__setattr__(self, "state", state)


def spells(days: Sequence[SeenDay], known_until_us: int, ended_at: int | None) -> list[Spell]:
    """Return the spells of one finding, in order of time.

    `days` are ascending; `known_until_us` is the end of the newest complete hour. `ended_at` is when the last of its
    runs ended, None where one still runs or where it is a host's: then only silence closes it.
    """
    groups: list[list[SeenDay]] = []
    for day in days:
        if groups and _first_hour(day) - _last_hour_end(groups[-1][-1]) <= QUIET_US:
            groups[-1].append(day)
        else:
            groups.append([day])
    return [
        _spell(group, known_until_us, ended_at if place == len(groups) - 1 else None)
        for place, group in enumerate(groups)
    ]


def as_of(life: Sequence[Spell], finding_id: str, moment_us: int) -> Life | None:
    """Return what was known at a moment; None before it was first opened."""
    begun = [spell for spell in life if spell.opened_at < moment_us]
    if not begun:
        return None
    last = begun[-1]
    if last.closed_at is not None and last.closed_at > moment_us:
        last = replace(last, closed_at=None)
    updated = min(last.updated_at, moment_us)
    return Life(finding_id, begun[0].opened_at, last.opened_at, updated, last.closed_at, len(begun) - 1)


def _first_hour(day: SeenDay) -> int:
    return day.day + ((day.hours & -day.hours).bit_length() - 1) * HOUR_US


def _last_hour_end(day: SeenDay) -> int:
    return day.day + day.hours.bit_length() * HOUR_US


def _spell(group: Sequence[SeenDay], known_until_us: int, ended_at: int | None) -> Spell:
    updated = _last_hour_end(group[-1])
    closes = updated + QUIET_US
    if ended_at is not None:
        closes = min(closes, max(updated, -(-ended_at // HOUR_US) * HOUR_US))
    costs = [day.cost_micros for day in group if day.cost_micros is not None]
    milliseconds = sum(day.milliseconds for day in group)
    high, medium = sum(day.high_ms for day in group), sum(day.medium_ms for day in group)
    return Spell(
        _first_hour(group[0]),
        updated,
        closes if closes <= known_until_us else None,
        sum(day.hours.bit_count() for day in group),
        milliseconds,
        sum(costs) if costs else None,
        _confidence_of(high, medium, milliseconds - high - medium),
    )


def _confidence_of(high_ms: int, medium_ms: int, low_ms: int) -> Confidence:
    """Return the confidence of most of the time; of equals the higher."""
    if high_ms >= max(medium_ms, low_ms):
        return "high"
    return "medium" if medium_ms >= low_ms else "low"
