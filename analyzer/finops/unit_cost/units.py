"""What work is counted in, what the runs of each name did and cost by hour, and what a unit cost week by week."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.wire.units import HOUR_US
from analyzer.period import Calendar, Period
from analyzer.queries.statements import statements

if TYPE_CHECKING:
    from collector.store.session import Session


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit of work: the column that counts it, and how many of them a price is told for."""

    column: str
    per: int
    words: str  # after "per": "1,000 requests"
    noun: str
    short: str  # the same in a narrow column


REQUESTS = Unit("requests", 1_000, "1,000 requests", "requests", "1k requests")
TOKENS_SERVED = Unit("tokens_out", 1_000_000, "million tokens served", "tokens served", "1M tokens served")
TOKENS_READ = Unit("tokens_in", 1_000_000, "million prompt tokens", "prompt tokens", "1M prompt tokens")
TOKENS = Unit("tokens", 1_000_000_000, "billion tokens", "tokens", "1bn tokens")
_SAMPLES = Unit("samples", 1_000_000, "million samples", "samples", "1M samples")
_STEPS = Unit("steps", 1_000, "1,000 steps", "steps", "1k steps")

# In the order in which they are preferred: a request of more tokens is more work, and so is a step of a larger batch;
# but what a service is asked for, and what a budget is made of, are requests and tokens.
# What embeds answers no tokens: its price is that of those that it reads.
UNITS = (REQUESTS, TOKENS_SERVED, TOKENS_READ, TOKENS, _SAMPLES, _STEPS)


Whose = tuple[str, str | None]  # name of runs, team


@dataclass(frozen=True, slots=True)
class Hour:
    """One hour of all runs of one name: GPU time, its cost (None: some has no price), and what they say they did."""

    start: int
    milliseconds: int
    micros: int | None
    did: Mapping[str, int | None]

    def units(self, unit: Unit) -> int | None:
        """Return how many of a unit were done; None where nobody said."""
        return self.did[unit.column]


def counted(session: "Session", start: int, end: int) -> dict[Whose, list[Hour]]:
    """Return the hours of each name that says what it does, oldest first."""
    (query,) = statements("finops/unit_cost/counted.sql")
    found: dict[Whose, list[Hour]] = {}
    for name, team, hour, milliseconds, micros, *did in session.rows(query, {"start": start, "end": end}):
        told = dict(zip((unit.column for unit in UNITS), did, strict=True))
        found.setdefault((name, team), []).append(Hour(hour, milliseconds, micros, told))
    return found


_TOLD_LEAST = 0.5  # of the GPU time of a name must lie in hours in which it said what it did


@dataclass(frozen=True, slots=True)
class Week:
    """One week of one unit, as far as it is over: what its runs took and did. None is not known."""

    label: str
    start: int
    end: int
    units: int | None
    milliseconds: int
    micros: int | None


def weeks_between(start: int, end: int, calendar: Calendar) -> tuple[Period, ...]:
    """Return the weeks that begin in [start, end), oldest first; a change of the clock may move one an hour out."""
    found = []
    week = calendar.week_of(end - 1)
    while week.start >= start - HOUR_US:
        found.append(week)
        week = calendar.before(week)
    return tuple(reversed(found))


def by_week(hours: Sequence[Hour], unit: Unit, weeks: Sequence[Period]) -> tuple[Week, ...]:
    """Return a name's weeks from the first in which it ran; where it said too little of what it did, units are None."""
    found: list[Week] = []
    for week in weeks:
        own = [hour for hour in hours if week.start <= hour.start < week.end]
        if not own and not found:
            continue
        units = sum(hour.units(unit) or 0 for hour in own) if said_enough(own, unit) else None
        took = sum(hour.milliseconds for hour in own)
        found.append(Week(week.label, week.start, week.end, units or None, took, hours_cost(own)))
    return tuple(found)


def prices(weeks: Sequence[Week]) -> list[float | None]:
    """Return what a unit cost each week, in money where all of them are priced, else in GPU time."""
    told = [week for week in weeks if week.units]
    is_priced = all(week.micros is not None for week in told)
    return [
        ((week.micros or 0) if is_priced else week.milliseconds) / week.units if week.units else None for week in weeks
    ]


def said_enough(hours: Sequence[Hour], unit: Unit) -> bool:
    """Say whether what was done is told of enough of the GPU time to have a price."""
    whole = sum(hour.milliseconds for hour in hours)
    return bool(whole) and sum(hour.milliseconds for hour in hours if hour.units(unit)) >= _TOLD_LEAST * whole


def hours_cost(hours: Sequence[Hour]) -> int | None:
    """Return what hours cost; None where one of them has no price."""
    costs = [hour.micros for hour in hours]
    return None if None in costs else sum(cost or 0 for cost in costs)
