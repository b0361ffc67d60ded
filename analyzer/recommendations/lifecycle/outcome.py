"""Whether a change saved what was predicted: proven with an interval, not provable yet, or not provable at all. Pure.

Three things could pass for a saving and are none: other work (so costs are those of a unit of work that the runs told,
and without one nothing is provable), other prices (so both sides have the same), and luck. Runs are looked at because
they were bad, and the next are better by themselves (regression to the mean): where enough runs are known besides
those that the recommendation was made of, those alone are held against the runs after.

How much cheaper a unit of work became: a change of its logarithm, with two intervals made in two ways. Runs that recur
are held against themselves, before and after: Welch's interval, and a bootstrap with a seed beside it. Source: B. L.
Welch, The generalization of Student's problem when several different population variances are involved, Biometrika 34
(1947), with Satterthwaite's degrees of freedom. Values are logarithms of the cost of a unit of work, so that an effect
is a ratio, and costs of any size and currency give the same.

Else a change is held against runs that were not changed: difference in differences, with the runs as clusters. A
cluster is a run of its own, or all runs of one name: what they have in common is counted once. Of one changed run
nobody knows how far chance alone would carry it; of those that were not changed it shows. Source: T. Conley, C. Taber,
Inference with "difference in differences" with a small number of policy changes, Review of Economics and Statistics 93
(2011): with few changed groups the others' residuals say how far chance alone carries one.

Quantiles of Student's t are by its distribution as an incomplete beta function, and bisection. Source: Abramowitz and
Stegun, Handbook of Mathematical Functions, 26.7.1 (the distribution) and 26.5.8 (the continued fraction), evaluated as
Lentz does. Checked against the published table (26.10).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, exp, fsum, inf, isfinite, lgamma, log, sqrt
from random import Random
from statistics import NormalDist, fmean, stdev, variance
from typing import Literal

from analyzer.recommendations.lifecycle.work import Unit

_TINY = 1e-300
_ENOUGH = 1e-14
_STEPS = 300
_NORMAL_FROM = 1e6  # degrees of freedom from which t is the normal distribution to six digits


def quantile(probability: float, freedom: float) -> float:
    """Return the t below which a share `probability` lies, for `freedom` degrees, which need not be whole.

    Raises:
        ValueError: the probability is not between 0 and 1, or there is no freedom.
    """
    if not 0 < probability < 1 or freedom <= 0:
        raise ValueError(f"no quantile of t for {probability} and {freedom} degrees of freedom")
    if not isfinite(freedom) or freedom > _NORMAL_FROM:
        return NormalDist().inv_cdf(probability)
    if probability < 0.5:
        return -quantile(1 - probability, freedom)
    low, high = 0.0, 1.0
    while below(high, freedom) < probability:
        low, high = high, 2 * high
        if high == inf:
            raise ValueError(f"no quantile of t for {probability} and {freedom} degrees of freedom")
    while high - low > 1e-12 * max(1.0, high):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if below(middle, freedom) < probability else (low, middle)
    return (low + high) / 2


def below(t: float, freedom: float) -> float:
    """Return the share of the distribution below t, which is not negative."""
    return 1 - _incomplete_beta(freedom / (freedom + t * t), freedom / 2, 0.5) / 2


def _incomplete_beta(x: float, a: float, b: float) -> float:
    if x <= 0 or x >= 1:
        return max(0.0, min(1.0, x))
    if x > (a + 1) / (a + b + 2):  # the fraction converges quickly on one side alone
        return 1 - _incomplete_beta(1 - x, b, a)
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log(1 - x))
    return front * _fraction(x, a, b) / a


def _fraction(x: float, a: float, b: float) -> float:
    c, d = 1.0, 1 / _not_zero(1 - (a + b) * x / (a + 1))
    found = d
    for step in range(1, _STEPS):
        even = step * (b - step) * x / ((a + 2 * step - 1) * (a + 2 * step))
        d, c = 1 / _not_zero(1 + even * d), _not_zero(1 + even / c)
        found *= d * c
        odd = -(a + step) * (a + b + step) * x / ((a + 2 * step) * (a + 2 * step + 1))
        d, c = 1 / _not_zero(1 + odd * d), _not_zero(1 + odd / c)
        found *= d * c
        if abs(d * c - 1) < _ENOUGH:
            break
    return found


def _not_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def _half_width(spread: float, freedom: float, level: float) -> float:
    """Return how far an interval of this level reaches to each side of an estimate whose error has this spread."""
    return 0.0 if spread == 0 else quantile((1 + level) / 2, freedom) * spread


def _spread_of_mean(variance: float, count: int) -> float:
    """Return the standard error of a mean of `count` values."""
    return sqrt(variance / count)


_Method = Literal["before_after", "difference"]
LIKELY, SURE = 0.8, 0.95  # the levels of the two intervals; the first is as wide as P10 to P90


@dataclass(frozen=True, slots=True)
class Interval:
    """From where to where, in natural logarithms of after/before; below 0 is cheaper."""

    low: float
    high: float

    @property
    def holds_zero(self) -> bool:
        """Whether no change at all lies in it; its ends belong to it."""
        return self.low <= 0 <= self.high

    def saved(self) -> tuple[float, float]:
        """Return the shares of the cost that are saved at its ends, the smaller first; negative is dearer."""
        return 1 - exp(self.high), 1 - exp(self.low)


@dataclass(frozen=True, slots=True)
class Intervals:
    """One estimate's 80% and 95% intervals."""

    likely: Interval
    sure: Interval


@dataclass(frozen=True, slots=True)
class Effect:
    """One estimate. `by_t` is what is told and decided by; `by_draws`, a bootstrap with a seed, stands beside it."""

    method: _Method
    change: float  # ln(after / before) of the cost of a unit of work
    by_t: Intervals
    by_draws: Intervals

    @property
    def saved(self) -> float:
        """The share of the cost of a unit of work that was saved: 0.2 is a fifth; negative is dearer."""
        return 1 - exp(self.change)

    @property
    def is_shown(self) -> bool:
        """Whether the 95% interval leaves no change at all outside."""
        return not self.by_t.sure.holds_zero


LEAST = 5  # runs on each side; with fewer, one odd run is the answer (algorithms: paired before/after, five runs each)
_DRAWS = 2_000
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
    parts = [_spread_of_mean(variance(side), len(side)) ** 2 for side in (before, after)]
    whole = fsum(parts)
    below = fsum(part**2 / (len(side) - 1) for part, side in zip(parts, (before, after), strict=True))
    return whole**0.5, whole**2 / below if below > 0 else 1.0


def by_t(change: float, spread: float, freedom: float) -> Intervals:
    """Return both intervals about an estimate whose error is t-distributed."""

    def at(level: float) -> Interval:
        reach = _half_width(spread, freedom, level)
        return Interval(change - reach, change + reach)

    return Intervals(at(LIKELY), at(SURE))


def _resampled(before: Sequence[float], after: Sequence[float]) -> list[float]:
    """Return differences of means of both sides drawn anew with replacement, ascending; the same for the same seed."""
    random = Random(SEED)  # noqa: S311 - a bootstrap, no secret
    return sorted(
        fmean(random.choices(after, k=len(after))) - fmean(random.choices(before, k=len(before))) for _ in range(_DRAWS)
    )


def between(ascending: Sequence[float]) -> Intervals:
    """Return both intervals of drawn values: those that leave as many draws out on either side."""

    def at(level: float) -> Interval:
        out = int(len(ascending) * (1 - level) / 2)
        return Interval(ascending[out], ascending[-1 - out])

    return Intervals(at(LIKELY), at(SURE))


_OTHERS_LEAST = 5  # clusters that were not changed; with fewer their spread is anybody's guess


def difference(changed: Sequence[float], others: Sequence[float], draws: int = _DRAWS) -> Effect:
    """Return how much more the changed clusters changed than the others.

    Each value is one cluster's mean after less its mean before, in logarithms; there are one changed or more, and at
    least two others.
    """
    change = fmean(changed) - fmean(others)
    spread = sqrt(variance(others) * (1 / len(changed) + 1 / len(others)))
    return Effect(
        "difference", change, by_t(change, spread, len(others) - 1), _drawn(change, len(changed), others, draws)
    )


def _drawn(change: float, changed: int, others: Sequence[float], draws: int) -> Intervals:
    """Return intervals from clusters drawn anew: residuals of the others stand for the chance of either side."""
    random = Random(SEED)  # noqa: S311 - a bootstrap, no secret
    middle, widened = fmean(others), sqrt(len(others) / (len(others) - 1))
    residuals = [(value - middle) * widened for value in others]
    noise = sorted(
        fmean(random.choices(residuals, k=changed)) - fmean(random.choices(residuals, k=len(others)))
        for _ in range(draws)
    )
    spans = between(noise)
    return Intervals(*(Interval(change - span.high, change - span.low) for span in (spans.likely, spans.sure)))


_POWER = 16  # n = 16 CV^2 / delta^2 an arm: 80% power at 5% (van Belle, Statistical Rules of Thumb, 2.1)
_MOST = 10_000  # beyond that nobody waits


def runs_needed(spread: float, effect: float) -> int | None:
    """Return the runs that each side needs, or None where more than ten thousand would not do.

    `spread` is the standard deviation of the logarithms of the costs, which is their coefficient of variation where it
    is small; `effect` the share of the cost that is expected to be saved.
    """
    if effect == 0:
        return None
    needed = max(2, ceil(_POWER * spread**2 / effect**2))
    return needed if needed <= _MOST else None


def spread_of(*sides: Sequence[float]) -> float | None:
    """Return the standard deviation within the sides; None where none has two values."""
    known = [side for side in sides if len(side) > 1]
    freedom = sum(len(side) - 1 for side in known)
    if not freedom:
        return None
    return float((sum(stdev(side) ** 2 * (len(side) - 1) for side in known) / freedom) ** 0.5)


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
    if before and len(seen.others) >= _OTHERS_LEAST:
        return _against_others(seen, before, is_held_out=is_held_out)
    if drifts:
        return Outcome("not_provable", *counts, why="those runs were already changing before it was made")
    if len(before) < LEAST:
        why = f"too little to compare with: it takes {LEAST} runs before it, or {_OTHERS_LEAST} similar unchanged runs"
        return Outcome("not_provable", *counts, others=len(seen.others), why=why)
    return Outcome("not_yet", *counts, needs=_needs(seen, before))


def _nothing_after(seen: Evidence) -> Outcome:
    if seen.unit is None and seen.after:
        why = "no run reports its steps or tokens, and none completed on both sides"
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
    is_checked = seen.own_placebo is not None and len(seen.placebo) >= _OTHERS_LEAST
    if seen.own_placebo is not None and is_checked:
        shifts = [one.after - one.before for one in seen.placebo]
        if difference([seen.own_placebo.after - seen.own_placebo.before], shifts).is_shown:
            why = "those runs were already changing, relative to the others, before it was made"
            return Outcome("not_provable", *counts, why=why)
    effect = difference([fmean(seen.after) - fmean(before)], [one.after - one.before for one in seen.others])
    needs = None if effect.is_shown else _needs(seen, before)
    return Outcome(_standing(effect), *counts, is_held_out, effect, needs, is_checked=is_checked)
