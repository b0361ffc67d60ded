"""The page of a serving stack as facts: counters, what holds now, the time to the first token, and which model."""

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from agent.wire.serving import ENGINES, Engine, Series

# Samples out of Prometheus's text format: those of a few names, from a page that may have thousands of others.
#
# Every line that is not wanted is passed over by its first characters, which makes a page of 2,000 lines cost what its
# 50 wanted ones do. Source: Prometheus's exposition format 0.0.4, and OpenMetrics where it reads the same.
SAMPLES_MAX = 20_000
LINE_CHARACTERS_MAX = 8192

_LINE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\})?[ \t]+(\S+)')
_LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of one series."""

    labels: Mapping[str, str]
    value: float


def samples(text: str, wanted: Collection[str]) -> dict[str, list[Sample]]:
    """Return the samples of these names, each name's in order; what cannot be read, and NaN, is left out.

    Pure, and safe on any text: what it keeps and what a line may cost are bounded.
    """
    found: dict[str, list[Sample]] = {}
    starts = tuple(wanted)
    kept = 0
    for line in text.split("\n"):
        if not line.startswith(starts) or len(line) > LINE_CHARACTERS_MAX:
            continue
        match = _LINE.match(line)
        if match is None or match[1] not in wanted or (value := _number(match[3])) is None:
            continue
        found.setdefault(match[1], []).append(Sample(dict(_LABEL.findall(match[2] or "")), value))
        kept += 1
        if kept >= SAMPLES_MAX:
            break
    return found


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return None if math.isnan(value) else value


# Percentiles of one interval, from the difference of two readings of a Prometheus histogram.
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


_MODEL_CHARACTERS_MAX = 200
_Samples = Mapping[str, list[Sample]]


@dataclass(frozen=True, slots=True)
class Page:
    """What one page says: ever-growing counters, what holds now, and the histogram of the time to the first token."""

    engine: str
    counters: Mapping[str, float]
    now: Mapping[str, int | float]
    first_token: Buckets | None
    model: str | None = None  # None where it serves several, or does not say


def read_page(text: str) -> Page | None:
    """Return what a page of /metrics says, or None where it is of no engine that is known. Pure."""
    found = samples(text, frozenset[str]().union(*(engine.names() for engine in ENGINES)))
    for engine in ENGINES:
        if any(mark in found for mark in engine.marks):
            return _page(engine, found)
    return None


def _page(engine: Engine, found: _Samples) -> Page:
    counters = _columns(engine.counters, found, sum)
    queues = {column: round(value) for column, value in _columns(engine.gauges, found, sum).items()}
    ratios = _columns(engine.ratios, found, lambda values: sum(values) / len(values))
    first_token = merged(found.get(f"{engine.first_response}_bucket", ()))
    return Page(engine.name, counters, {**queues, **ratios}, first_token, _model(engine, found))


def _model(engine: Engine, found: _Samples) -> str | None:
    """Return the one model that all series are of, or None: which of several a GPU's time went to, no page says."""
    label = engine.model_label or ""
    said = {sample.labels[label] for series in found.values() for sample in series if sample.labels.get(label)}
    return said.pop()[:_MODEL_CHARACTERS_MAX] if len(said) == 1 else None


def _columns(
    columns: Mapping[str, tuple[Series, ...]], found: _Samples, combined: Callable[[list[float]], float]
) -> dict[str, float]:
    """Return each column that has a series; of several names for it the first one counts."""
    values: dict[str, float] = {}
    for column, names in columns.items():
        for series in names:
            said = [sample.value for sample in found.get(series.name, ()) if series.counts(sample.labels)]
            if said and all(0 <= value < float("inf") for value in said):
                values[column] = combined(said)
                break
    return values
