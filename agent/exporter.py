"""The host's /metrics: the contract's columns over what was last read. A scrape reads nothing from the hardware.

Amounts are added up into counters, gauges stand only while they are fresh, and a series that its source no longer
reports vanishes, so that a stale value never passes for a live one.
"""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

from agent.sampler import Stamped
from agent.source import Value
from agent.wire.contract import Column, Table, metric_name
from agent.wire.tables import TABLES

FRESH_PERIODS = 3  # of its source, after which a reading is no longer shown
INFO_LABELS = ("gpu_uuid", "gpu_index", "sku", "parent_uuid", "pci_bus_id", "driver_version")

Labels = tuple[str, ...]


@dataclass(slots=True)
class Shown:
    """What is shown of one source's table: the last row of each series, and the amounts of it so far."""

    until: int = 0  # of freshness, microseconds on the clock of the rows
    rows: dict[Labels, Mapping[str, Value]] = field(default_factory=dict)
    totals: dict[Labels, dict[str, float]] = field(default_factory=dict)


class Snapshot:
    """The latest reading of every table, added up; written by the beat, read by scrapes.

    Its size is that of one reading: what is not in the latest one is forgotten, its totals too.
    """

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._shown: dict[str, Shown] = {}
        self._gpus: dict[str, Labels] = {}

    def observe(self, stamped: Sequence[Stamped]) -> None:
        """Take what the sources said at one beat."""
        with self._lock:
            for said in stamped:
                for name, rows in said.tables.items():
                    if TABLES[name].family is not None:
                        self._take(TABLES[name], rows, said.ended_at + FRESH_PERIODS * said.period)
                self._gpus |= {
                    str(row["gpu_uuid"]): tuple(_label(row.get(label)) for label in INFO_LABELS)
                    for row in said.tables.get("inventory", [])
                    if row.get("gpu_uuid")
                }

    def _take(self, table: Table, rows: Iterable[Mapping[str, Value]], until: int) -> None:
        before = self._shown.get(table.name, Shown())
        now = self._shown[table.name] = Shown(until)
        for row in rows:
            labels = tuple(_label(row.get(label)) for label in table.labels)
            totals = now.totals[labels] = before.totals.get(labels, {})
            now.rows[labels] = row
            for column in table.columns:
                amount = row.get(column.name)
                if column.kind == "amount" and isinstance(amount, int | float):
                    totals[column.name] = totals.get(column.name, 0) + amount

    def families(self) -> list[Metric]:
        """Return every family of the contract with its fresh series, in the contract's order."""
        with self._lock:
            fresh = {name: shown for name, shown in self._shown.items() if self._now() <= shown.until}
            families = [
                family
                for table in TABLES.values()
                for column in table.columns
                if (family := _family(table, column, fresh.get(table.name, Shown()))) is not None
            ]
            return [*families, self._info(fresh.get("gpu_samples", Shown()))]

    def _info(self, gpus: Shown) -> Metric:
        info = GaugeMetricFamily(
            "gpuledger_gpu_info", "What a GPU is: join it by gpu_uuid. Always 1.", labels=INFO_LABELS
        )
        self._gpus = {uuid: labels for uuid, labels in self._gpus.items() if (uuid,) in gpus.rows or not gpus.rows}
        for (uuid,) in gpus.rows:
            if uuid in self._gpus:
                info.add_metric(self._gpus[uuid], 1)
        return info


class ContractCollector(Collector):
    """Gives prometheus_client the families of a snapshot, and whatever the agent adds about itself."""

    def __init__(self, snapshot: Snapshot, own: Callable[[], Iterable[Metric]]) -> None:
        self._snapshot = snapshot
        self._own = own

    def collect(self) -> Iterable[Metric]:
        """Make the families anew, so that what has vanished has vanished."""
        return [*self._snapshot.families(), *self._own()]


def registry(snapshot: Snapshot, own: Callable[[], Iterable[Metric]]) -> CollectorRegistry:
    """Return a registry of this host's families alone: no default collectors, no process-wide state."""
    made = CollectorRegistry(auto_describe=False)
    made.register(ContractCollector(snapshot, own))
    return made


def _family(table: Table, column: Column, shown: Shown) -> Metric | None:
    name = metric_name(table, column)
    if name is None:
        return None
    words = f"{column.help} Source: {column.source}." if column.source else column.help
    if column.kind == "gauge":
        family: Metric = GaugeMetricFamily(name, words, labels=table.labels)
    else:
        family = CounterMetricFamily(name, words, labels=table.labels)
    for labels, row in shown.rows.items():
        value = shown.totals[labels].get(column.name) if column.kind == "amount" else row.get(column.name)
        if isinstance(value, int | float):
            family.add_metric(labels, value)  # type: ignore[attr-defined]
    return family


def _label(value: Value) -> str:
    return "" if value is None else str(value)
