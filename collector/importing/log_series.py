"""Tables that have a series in each column, or a metric in each row, become rows of one GPU with a column a metric.

Sources: a panel's data of Grafana as CSV; InfluxDB's annotated CSV; MLflow's metrics; pandas.melt().
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from agent.wire.bounded import EXPOSED, exposed_labels
from collector.importing.log_names import FACTS, Record, meaning_of

# How tables call the columns in which the name of a metric stands, the first that means something, and what it read.
_METRICS = (
    "key", "metric", "metric_name", "__name__", "_field", "field", "variable", "measurement", "series", "name"
)  # fmt: skip
_VALUES = ("value", "_value", "val", "reading")
_UNITS = ("unit", "units")


def labelled(labels: Mapping[str, str]) -> dict[str, Any]:
    """Return which GPU the labels of a series name, as the cells of a record."""
    uuid = labels.get("UUID") or labels.get("uuid") or labels.get("gpu_uuid") or ""
    gpu = labels.get("gpu") or labels.get("minor_number") or labels.get("index")
    host = labels.get("Hostname") or labels.get("hostname") or labels.get("node") or labels.get("instance") or ""
    uuid = f"{uuid}/{labels['GPU_I_ID']}" if uuid and labels.get("GPU_I_ID") else uuid  # an instance of a GPU
    facts = {"uuid": uuid, "index": gpu, "name": labels.get("modelName") or labels.get("name"), "hostname": host}
    return {name: value for name, value in facts.items() if value}


def by_series(record: Record) -> Iterator[Record]:
    """Yield a row series by series where columns are such, as in Grafana's CSV: `DCGM_FI_DEV_GPU_UTIL{gpu="0"}`."""
    series = _series_among(tuple(record))
    if not series:
        yield record
        return
    rest = {name: cell for name, cell in record.items() if name not in series}
    for name, (metric, facts) in series.items():
        yield {**rest, metric: record[name], **facts}


@lru_cache(16)
def _series_among(names: tuple[str, ...]) -> dict[str, tuple[str, dict[str, Any]]]:
    told = ((name, EXPOSED.match(f"{name} 0")) for name in names)
    return {name: (found[1], labelled(exposed_labels(found[2]))) for name, found in told if found and found[2]}


def by_metric(record: Record) -> Record:
    """Return a row of one metric, `metric,value` and the unit where it is said, as a table that has it as a column."""
    metrics, values, units = _columns_of_metric(tuple(record))
    if not metrics or not values:
        return record
    named = next((one for one in metrics if _is_reading(str(record[one]))), metrics[0])
    rest = {name: cell for name, cell in record.items() if name not in (named, *values, *units)}
    unit = str(record[units[0]] or "").strip() if units else ""
    return {**rest, f"{record[named]}{f' [{unit}]' if unit else ''}": record[values[0]]}


@lru_cache(16)
def _columns_of_metric(names: tuple[str, ...]) -> tuple[list[str], list[str], list[str]]:
    """Return which columns have the metric's name, its value and its unit; no name without a value."""
    by_word = {name.strip().lower(): name for name in reversed(names)}
    metrics, values, units = (
        [by_word[one] for one in words if one in by_word] for words in (_METRICS, _VALUES, _UNITS)
    )
    return metrics, values, units


def _is_reading(name: str) -> bool:
    return (meaning := meaning_of(name)) is not None and meaning.column not in FACTS


def is_of_metrics(names: tuple[str, ...]) -> bool:
    """Say whether a header is of a table that has a metric in each row."""
    metrics, values, _ = _columns_of_metric(names)
    return bool(metrics and values)
