"""The page of a serving stack as facts: counters, what holds now, the time to the first token, and which model."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agent.sources.services.exposition import Sample, samples
from agent.sources.services.histogram import Buckets, merged
from agent.wire.serving import ENGINES, Engine, Series

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
