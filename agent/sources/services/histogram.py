"""Percentiles of one interval, from the difference of two readings of a Prometheus histogram."""

import math
from collections.abc import Iterable, Mapping
from itertools import pairwise

from agent.sources.services.exposition import Sample

Buckets = Mapping[float, float]  # upper bound: observations up to it, ever


def merged(samples: Iterable[Sample]) -> Buckets | None:
    """Return the buckets of all series of one histogram as one, or None where there are none or they do not fit.

    Series of different bounds (two versions behind one address) cannot be added up.
    """
    series: dict[frozenset[tuple[str, str]], dict[float, float]] = {}
    for sample in samples:
        bound = _bound(sample.labels.get("le", ""))
        if bound is None:
            return None
        rest = frozenset((name, value) for name, value in sample.labels.items() if name != "le")
        series.setdefault(rest, {})[bound] = sample.value
    bounds = {frozenset(buckets) for buckets in series.values()}
    if len(bounds) != 1 or math.inf not in (found := next(iter(bounds))):
        return None
    return {bound: sum(buckets[bound] for buckets in series.values()) for bound in sorted(found)}


def histogram_delta(before: Buckets, now: Buckets) -> Buckets | None:
    """Return what was observed between two readings, or None where nothing was, or the histogram began anew."""
    if before.keys() != now.keys():
        return None
    buckets = {bound: now[bound] - before[bound] for bound in now}
    counts = [0.0, *buckets.values()]
    return buckets if counts[-1] > 0 and all(low <= high for low, high in pairwise(counts)) else None


def quantile(buckets: Buckets, share: float) -> float:
    """Return the value below which this share of the observations lies, taken as spread evenly within a bucket.

    What lies beyond the last bound is told as that bound: at least so much. Source: as Prometheus's histogram_quantile.
    """
    rank = share * buckets[math.inf]
    low, below = 0.0, 0.0
    for bound, count in buckets.items():
        if count >= rank and count > below:
            return low if bound == math.inf else low + (bound - low) * (rank - below) / (count - below)
        low, below = bound, count
    return low


def _bound(text: str) -> float | None:
    try:
        bound = float(text)
    except ValueError:
        return None
    return None if math.isnan(bound) or bound < 0 else bound
