"""The figures that a fleet should reach, and how it stands against each. Pure.

The bars are those of published articles on running AI clusters, read in November 2026; a site may think otherwise, and
what they are is printed with them. Utilization there is time with any kernel: `useful` is harder to reach, and is read
in its place, since a busy loop reaches the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from agent.wire.units import PERMILLE
from analyzer.text.rounding import nearest
from analyzer.text.words import decimal

Standing = Literal["reached", "missed"]
_USEFUL_LEAST, _IDLE_MOST = 800, 50  # permille of what runs held
_HEADROOM_LEAST = 500  # permille of held time inside 10 to 20 % of memory left: the bar is the range, the half is ours
_LATENCY_LEAST = 990  # permille of the time of services that declare one
_FALLING_LEAST = 500  # permille of kinds of runs: at least as many fell as rose

SOURCE = (
    "These bars are of published articles on running AI clusters, read in November 2026; a site may think otherwise."
)
_NO_RUN = "no run held a GPU that was measured"
_NO_PROMISE = "no service declares one"


@dataclass(frozen=True, slots=True)
class Target:
    """One figure: `permille` of what it is a share of, None where it is not known, and then why."""

    name: str
    bar: str
    permille: int | None
    standing: Standing | None
    told: str


@dataclass(frozen=True, slots=True)
class HeldTime:
    """GPU milliseconds that runs held: all, not measured, useful and idle."""

    milliseconds: int
    unobserved: int
    useful: int
    idle: int


@dataclass(frozen=True, slots=True)
class Headroom:
    """GPU milliseconds by what was left of memory at the highest: of all that was seen, under 10 %, and 10 to 20 %.

    What is not kept any more of a part of the period is told of nothing of it.
    """

    milliseconds: int
    tight: int
    inside: int
    is_kept: bool = True
    unread: int = 0  # GPU milliseconds of which it was not read


def _share_of(part: int, whole: int) -> int | None:
    """Return permille, rounded to the nearest; None of nothing."""
    return nearest(PERMILLE * part, whole) if whole else None


def all_targets(
    held: HeldTime, headroom: Headroom, latency: tuple[int, int], costs: Sequence[tuple[int, int]]
) -> tuple[Target, ...]:
    """Return every target; `latency` is time with a promise, and of it kept, `costs` whole runs' now and before.

    A share of what was measured is reached or missed where it would be so whatever the rest was.
    """
    fell = sum(now <= before for now, before in costs)
    return (
        _of_held("useful", "80 % of what runs hold, or more", held, held.useful, _USEFUL_LEAST),
        _of_held("idle while held", "under 5 % of it", held, held.idle, _IDLE_MOST, under=True),
        _memory(headroom),
        _falling(fell, len(costs)),
        _least(
            "latency promised", "kept 99 % of the time", _share_of(latency[1], latency[0]), _LATENCY_LEAST, _NO_PROMISE
        ),
    )


def _of_held(name: str, bar: str, held: HeldTime, part: int, limit: int, *, under: bool = False) -> Target:
    permille = _share_of(part, held.milliseconds - held.unobserved)
    if permille is None:
        return Target(name, bar, None, None, _NO_RUN)
    standing = _standing(part, held.unobserved, held.milliseconds, limit, under=under)
    silent = _percent(_share_of(held.unobserved, held.milliseconds) or 0)
    told = _percent(permille) + ("" if standing else f" of what was measured; {silent} was not")
    return Target(name, bar, permille, standing, told)


def _standing(part: int, silent: int, whole: int, limit: int, *, under: bool = False) -> Standing | None:
    """Return how a part stands that may be larger by what is not known; None where that decides."""
    least, most, bar = PERMILLE * part, PERMILLE * (part + silent), limit * whole
    if under:
        return "reached" if most < bar else "missed" if least >= bar else None
    return "reached" if least >= bar else "missed" if most < bar else None


def _memory(headroom: Headroom) -> Target:
    inside = _share_of(headroom.inside, headroom.milliseconds)
    told = _memory_words(headroom)
    missing = "memory was not read" if headroom.is_kept else "what memory was in use is no longer kept"
    found = _least("memory left at the peak", "10 to 20 %", inside, _HEADROOM_LEAST, missing, told)
    whole = headroom.milliseconds + headroom.unread
    if inside is None or (standing := _standing(headroom.inside, headroom.unread, whole, _HEADROOM_LEAST)) is not None:
        return found if inside is None else replace(found, standing=standing)
    return replace(found, standing=None, told=f"{told}; of {_percent(_share_of(headroom.unread, whole) or 0)} not read")


def _falling(fell: int, kinds: int) -> Target:
    missing = "no kind of run completed in both times"
    told = f"{fell} of {kinds} kinds fell or stayed"
    return _least("cost of a whole run", "falling", _share_of(fell, kinds), _FALLING_LEAST, missing, told)


def _memory_words(headroom: Headroom) -> str:
    tight = _share_of(headroom.tight, headroom.milliseconds) or 0
    inside = _share_of(headroom.inside, headroom.milliseconds) or 0
    loose = PERMILLE - tight - inside
    return f"{_percent(inside)} of the time inside, {_percent(tight)} with less, {_percent(loose)} with more"


def _least(name: str, bar: str, permille: int | None, limit: int, missing: str, told: str = "") -> Target:
    if permille is None:
        return Target(name, bar, None, None, missing)
    return Target(name, bar, permille, "reached" if permille >= limit else "missed", told or _percent(permille))


def _percent(permille: int) -> str:
    return f"{decimal(permille, 1)} %"
