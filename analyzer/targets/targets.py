"""The figures that a fleet should reach, and how it stands against each. Pure.

The bars are those of published articles on running AI clusters, read in November 2026; a site may think otherwise, and
what they are is printed with them. Utilization there is time with any kernel: `useful` is harder to reach, and is read
in its place, since a busy loop reaches the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from analyzer.report.rounding import nearest
from analyzer.report.words import decimal

Standing = Literal["reached", "missed"]
PERMILLE = 1000
USEFUL_LEAST, IDLE_MOST = 800, 50  # permille of what runs held
HEADROOM_LEAST = 500  # permille of held time inside 10 to 20 % of memory left: the bar is the range, the half is ours
LATENCY_LEAST = 990  # permille of the time of services that declare one
FALLING_LEAST = 500  # permille of kinds of runs: at least as many fell as rose

SOURCE = (
    "These bars are of published articles on running AI clusters, read in November 2026; a site may think otherwise."
)
NO_RUN = "no run held a GPU that was measured"
NO_PROMISE = "no service declares one"


@dataclass(frozen=True, slots=True)
class Target:
    """One figure: `permille` of what it is a share of, None where it is not known, and then why."""

    name: str
    bar: str
    permille: int | None
    standing: Standing | None
    told: str


@dataclass(frozen=True, slots=True)
class Held:
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


def share_of(part: int, whole: int) -> int | None:
    """Return permille, rounded to the nearest; None of nothing."""
    return nearest(PERMILLE * part, whole) if whole else None


def judged(
    held: Held, headroom: Headroom, latency: tuple[int, int], costs: Sequence[tuple[int, int]]
) -> tuple[Target, ...]:
    """Return every target; `latency` is time with a promise, and of it kept, `costs` whole runs' now and before."""
    measured = held.milliseconds - held.unobserved
    fell = sum(now <= before for now, before in costs)
    return (
        _least("useful", "80 % of what runs hold, or more", share_of(held.useful, measured), USEFUL_LEAST, NO_RUN),
        _idle(share_of(held.idle, measured)),
        _memory(headroom),
        _falling(fell, len(costs)),
        _least(
            "latency promised", "kept 99 % of the time", share_of(latency[1], latency[0]), LATENCY_LEAST, NO_PROMISE
        ),
    )


def _idle(permille: int | None) -> Target:
    bar = "under 5 % of it"
    if permille is None:
        return Target("idle while held", bar, None, None, NO_RUN)
    return Target("idle while held", bar, permille, "reached" if permille < IDLE_MOST else "missed", _percent(permille))


def _memory(headroom: Headroom) -> Target:
    inside = share_of(headroom.inside, headroom.milliseconds)
    told = _memory_words(headroom)
    missing = "memory was not read" if headroom.is_kept else "what memory was in use is no longer kept"
    return _least("memory left at the peak", "10 to 20 %", inside, HEADROOM_LEAST, missing, told)


def _falling(fell: int, kinds: int) -> Target:
    missing = "no kind of run completed in both times"
    told = f"{fell} of {kinds} kinds fell or stayed"
    return _least("cost of a whole run", "falling", share_of(fell, kinds), FALLING_LEAST, missing, told)


def _memory_words(headroom: Headroom) -> str:
    tight = share_of(headroom.tight, headroom.milliseconds) or 0
    inside = share_of(headroom.inside, headroom.milliseconds) or 0
    loose = PERMILLE - tight - inside
    return f"{_percent(inside)} of the time inside, {_percent(tight)} with less, {_percent(loose)} with more"


def _least(name: str, bar: str, permille: int | None, limit: int, missing: str, told: str = "") -> Target:
    if permille is None:
        return Target(name, bar, None, None, missing)
    return Target(name, bar, permille, "reached" if permille >= limit else "missed", told or _percent(permille))


def _percent(permille: int) -> str:
    return f"{decimal(permille, 1)} %"
