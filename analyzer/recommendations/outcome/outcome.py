"""Whether a change saved what was predicted: proven with an interval, not provable yet, or not provable at all. Pure.

Three things could pass for a saving and are none: other work (so costs are those of a unit of work that the runs told,
and without one nothing is provable), other prices (so both sides have the same), and luck. Runs are looked at because
they were bad, and the next are better by themselves (regression to the mean): where enough runs are known besides those
that the recommendation was made of, those alone are held against the runs after.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from analyzer.recommendations.outcome.effect import (
    LEAST,
    OTHERS_LEAST,
    Effect,
    before_after,
    difference,
    runs_needed,
    spread_of,
)
from analyzer.recommendations.outcome.work import Unit

Standing = Literal["verified", "dearer", "no_effect", "not_yet", "not_provable"]
HALF_LEAST = 3  # runs of each half of the time before, to see whether they were changing anyway


@dataclass(frozen=True, slots=True)
class Cluster:
    """Runs that were not changed and have something in common: means of their logarithms before and after."""

    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of one change: logarithms of costs of a unit, in order of time.

    `picked` are those runs before that the recommendation was made of; `before` are all, `picked` among them. `others`
    are clusters that were not changed, `placebo` the same over the time before, cut in its middle, and
    `own_placebo` the changed runs' own halves.
    """

    unit: Unit | None
    before: Sequence[float]
    held_out: Sequence[float]
    after: Sequence[float]
    others: Sequence[Cluster] = ()
    placebo: Sequence[Cluster] = ()
    own_placebo: Cluster | None = None
    expected: float | None = None  # the share of the cost that was predicted to be saved (P50)
    unlike: str = ""  # why the two sides are not shown to have done equal work, and what would show it


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one change. `why` says it where no effect could be told; `needs` is how many more runs it takes.

    `is_held_out` says that the runs by which it was picked are not among those before.
    """

    standing: Standing
    unit: Unit | None
    before: int
    after: int
    others: int = 0
    is_held_out: bool = False
    effect: Effect | None = None
    needs: int | None = None
    why: str = ""
    is_checked: bool = False  # that the runs were not changing anyway before it was made: a placebo


def outcome(seen: Evidence) -> Outcome:
    """Return what can be said of a change."""
    if seen.unlike:
        return Outcome("not_provable", seen.unit, len(seen.before), len(seen.after), why=seen.unlike)
    if seen.unit is None or not seen.after:
        return _nothing_after(seen)
    is_held_out = len(seen.held_out) >= LEAST
    before = seen.held_out if is_held_out else seen.before
    counts = (seen.unit, len(before), len(seen.after))
    drifts = len(before) >= 2 * HALF_LEAST and _was_changing(before)
    if len(before) >= LEAST and len(seen.after) >= LEAST and not drifts:
        effect = before_after(before, seen.after)
        needs = None if effect.is_shown else _needs(seen, before)
        is_checked = len(before) >= 2 * HALF_LEAST
        return Outcome(_standing(effect), *counts, 0, is_held_out, effect, needs, is_checked=is_checked)
    if before and len(seen.others) >= OTHERS_LEAST:
        return _against_others(seen, before, is_held_out=is_held_out)
    if drifts:
        return Outcome("not_provable", *counts, why="those runs were changing anyway before it was made")
    if len(before) < LEAST:
        why = f"too little to compare with: it takes {LEAST} runs before it, or {OTHERS_LEAST} like it not changed"
        return Outcome("not_provable", *counts, others=len(seen.others), why=why)
    return Outcome("not_yet", *counts, needs=_needs(seen, before))


def _nothing_after(seen: Evidence) -> Outcome:
    if seen.unit is None and seen.after:
        why = "no run says its steps or tokens, and none completed on both sides"
        return Outcome("not_provable", None, len(seen.before), len(seen.after), why=why)
    return Outcome("not_yet", seen.unit, len(seen.before), 0, needs=_needs(seen, seen.before))


def _standing(effect: Effect) -> Standing:
    if not effect.is_shown:
        return "no_effect"
    return "verified" if effect.change < 0 else "dearer"


def _needs(seen: Evidence, before: Sequence[float]) -> int | None:
    """Return how many more runs it takes after the change; None where nobody can say, or the runs vary too much."""
    least = max(1, LEAST - len(seen.after))
    spread = spread_of(before, seen.after)
    if spread is None or not seen.expected:
        return least
    needed = runs_needed(spread, seen.expected)
    return None if needed is None else max(least, needed - len(seen.after))


def _was_changing(before: Sequence[float]) -> bool:
    """Whether the runs' second half differs from their first, before anything was done: a placebo."""
    half = len(before) // 2
    return before_after(before[:half], before[half:]).is_shown


def _against_others(seen: Evidence, before: Sequence[float], *, is_held_out: bool) -> Outcome:
    counts = (seen.unit, len(before), len(seen.after), len(seen.others))
    is_checked = seen.own_placebo is not None and len(seen.placebo) >= OTHERS_LEAST
    if seen.own_placebo is not None and is_checked:
        shifts = [one.after - one.before for one in seen.placebo]
        if difference([seen.own_placebo.after - seen.own_placebo.before], shifts).is_shown:
            why = "those runs were changing anyway, against the others, before it was made"
            return Outcome("not_provable", *counts, why=why)
    effect = difference([fmean(seen.after) - fmean(before)], [one.after - one.before for one in seen.others])
    needs = None if effect.is_shown else _needs(seen, before)
    return Outcome(_standing(effect), *counts, is_held_out, effect, needs, is_checked=is_checked)
