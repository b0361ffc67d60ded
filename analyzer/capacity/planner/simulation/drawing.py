"""Draw how long a task takes: one of its real runs, or a curve through its P10, P50 and P90.

The curve is a split log-normal: each side of the median has its own width, so that all three quantiles are hit, no
duration is negative, and the long tail of real runs is there (two-piece distributions: Wallis, "The two-piece normal,
binormal, or double Gaussian distribution", 2014; here on the logarithm, split at the median). Where the P10 is 0 it
has no logarithm, and the curve is a split normal that ends at 0. Tasks are drawn independently: a cause that slows
several at once, as a hot rack does, makes the true spread wider.
"""

from collections.abc import Callable, Sequence
from math import exp, log
from random import Random

from analyzer.capacity.planner.problem import Duration

_Z90 = 1.2815515655446004  # the standard normal's 90th percentile

Draw = Callable[[Random], int]


def drawn_from(duration: Duration, samples: Sequence[int] = ()) -> Draw:
    """Return what draws the task's seconds."""
    if samples:
        runs = tuple(samples)
        return lambda random: random.choice(runs)
    p10, p50, p90 = duration.p10_seconds, duration.p50_seconds, duration.p90_seconds
    if p10 == p90:
        return lambda _: p50
    if p10 == 0:
        below, above = p50 / _Z90, (p90 - p50) / _Z90
        return lambda random: _split_normal(random.gauss(0.0, 1.0), p50, below, above)
    below, above = log(p50 / p10) / _Z90, log(p90 / p50) / _Z90
    return lambda random: _split_log_normal(random.gauss(0.0, 1.0), p50, below, above)


def has_spread(duration: Duration, samples: Sequence[int] = ()) -> bool:
    """Say whether it is known how the task's duration varies."""
    return len(set(samples)) > 1 if samples else duration.p10_seconds < duration.p90_seconds


def _split_log_normal(z: float, median: int, below: float, above: float) -> int:
    return round(median * exp((below if z < 0 else above) * z))


def _split_normal(z: float, median: int, below: float, above: float) -> int:
    return max(0, round(median + (below if z < 0 else above) * z))
