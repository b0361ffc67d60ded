"""Our own families: the contract's columns, what a GPU is, and which run holds it."""

from collections.abc import Iterator, Mapping

from prometheus_client import Metric

from agent.metrics.holders import IDENTITY
from agent.metrics.series import Labels, family, label
from agent.metrics.snapshot import TableSnapshot, View
from agent.source import Value
from agent.wire.contract import Column, Table, metric_name
from agent.wire.tables import TABLES

_INFO_LABELS = ("gpu_uuid", "gpu_index", "sku", "parent_uuid", "pci_bus_id", "driver_version")


def contract_families(view: View) -> Iterator[Metric]:
    """Yield a family for each column of what is fresh, in the contract's order, and the two to join them by."""
    for table in TABLES.values():
        shown = view.shown(table.name)
        for column in table.columns if shown.rows else ():
            if (name := metric_name(table, column)) is not None:
                yield _family(name, table, column, shown)
    yield _gpu_info(view)
    yield _run_info(view)
    yield _left_out(view)


def _family(name: str, table: Table, column: Column, shown: TableSnapshot) -> Metric:
    words = f"{column.help} Source: {column.source}." if column.source else column.help
    read = shown.carried if column.kind == "amount" else shown.rows
    kind = "gauge" if column.kind == "gauge" else "counter"
    return family(name, words, kind, _series(table.labels, {of: read[of].get(column.name) for of in shown.rows}))


def _series(names: Labels, values: Mapping[Labels, Value]) -> Iterator[tuple[Mapping[str, str], float]]:
    for labels, value in values.items():
        if isinstance(value, int | float):
            yield dict(zip(names, labels, strict=True)), float(value)


def _gpu_info(view: View) -> Metric:
    series = [({name: label(row.get(name)) for name in _INFO_LABELS}, 1.0) for row in view.gpus.values()]
    return family("gpuledger_gpu_info", "What a GPU is: join it by gpu_uuid. Always 1.", "gauge", series)


def _run_info(view: View) -> Metric:
    series = [
        ({"gpu_uuid": label(one.gpu_uuid), "run_id": label(one.run_id)}
         | {name: label(one.identity.get(name)) for name in IDENTITY}, 1.0)
        for one in view.holders
    ]  # fmt: skip
    words = "A run that holds the GPU, and whose it is: join it by gpu_uuid. Always 1."
    return family("gpuledger_gpu_run_info", words, "gauge", series)


def _left_out(view: View) -> Metric:
    words = "Rows that are not shown, since their table has too many."
    series = [({"table": table}, float(count)) for table, count in view.left_out.items() if count]
    return family("gpuledger_agent_series_left_out_total", words, "counter", series)
