"""A change held against runs that were not changed: difference in differences, with the runs as clusters.

A cluster is a run of its own, or all runs of one name: what they have in common is counted once. Of one changed run
nobody knows how far chance alone would carry it; of those that were not changed it shows.

Source: T. Conley, C. Taber, Inference with "difference in differences" with a small number of policy changes, Review of
Economics and Statistics 93 (2011): with few changed groups the others' residuals say how far chance alone carries one.
"""

from collections.abc import Sequence
from math import sqrt
from random import Random
from statistics import fmean, variance

from analyzer.recommendations.outcome.before_after import DRAWS, SEED, between, by_t
from analyzer.recommendations.outcome.effect import Effect, Interval, Intervals

OTHERS_LEAST = 5  # clusters that were not changed; with fewer their spread is anybody's guess


def difference(changed: Sequence[float], others: Sequence[float], draws: int = DRAWS) -> Effect:
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
