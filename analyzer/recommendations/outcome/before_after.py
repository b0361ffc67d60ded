"""Runs that recur, before and after a change: Welch's interval, and a bootstrap with a seed beside it.

Source: B. L. Welch, The generalization of Student's problem when several different population variances are involved,
Biometrika 34 (1947), with Satterthwaite's degrees of freedom. Values are logarithms of the cost of a unit of work, so
that an effect is a ratio, and costs of any size and currency give the same.
"""

from collections.abc import Sequence
from math import fsum
from random import Random
from statistics import fmean, variance

from analyzer.recommendations.outcome.effect import LIKELY, SURE, Effect, Interval, Intervals
from analyzer.recommendations.outcome.student import half_width, spread_of_mean

LEAST = 5  # runs on each side; with fewer, one odd run is the answer (algorithms: paired before/after, five runs each)
DRAWS = 2_000
SEED = 20_261_119


def before_after(before: Sequence[float], after: Sequence[float]) -> Effect:
    """Return the change of the mean from before to after; both have two values or more."""
    change = fmean(after) - fmean(before)
    spread, freedom = welch(before, after)
    return Effect(
        "before_after",
        change,
        by_t(change, spread, freedom),
        between(_resampled(before, after)),
    )


def welch(before: Sequence[float], after: Sequence[float]) -> tuple[float, float]:
    """Return the standard error of the difference of two means, and its degrees of freedom (1 where nothing varies)."""
    parts = [spread_of_mean(variance(side), len(side)) ** 2 for side in (before, after)]
    whole = fsum(parts)
    below = fsum(part**2 / (len(side) - 1) for part, side in zip(parts, (before, after), strict=True))
    return whole**0.5, whole**2 / below if below > 0 else 1.0


def by_t(change: float, spread: float, freedom: float) -> Intervals:
    """Return both intervals about an estimate whose error is t-distributed."""

    def at(level: float) -> Interval:
        reach = half_width(spread, freedom, level)
        return Interval(change - reach, change + reach)

    return Intervals(at(LIKELY), at(SURE))


def _resampled(before: Sequence[float], after: Sequence[float], seed: int = SEED) -> list[float]:
    """Return differences of means of both sides drawn anew with replacement, ascending; the same for the same seed."""
    random = Random(seed)  # noqa: S311 - a bootstrap, no secret
    return sorted(
        fmean(random.choices(after, k=len(after))) - fmean(random.choices(before, k=len(before))) for _ in range(DRAWS)
    )


def between(ascending: Sequence[float]) -> Intervals:
    """Return both intervals of drawn values: those that leave as many draws out on either side."""

    def at(level: float) -> Interval:
        out = int(len(ascending) * (1 - level) / 2)
        return Interval(ascending[out], ascending[-1 - out])

    return Intervals(at(LIKELY), at(SURE))
