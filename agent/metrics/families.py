"""The families of one scrape: the contract's columns, what a GPU is, which run holds it, and what can be measured."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.registry import Collector

from agent.child import installed_version
from agent.config import DcgmNames
from agent.metrics.dcgm import dcgm_families
from agent.metrics.snapshot import IDENTITY, MOST_SERIES, Labels, Snapshot, TableSnapshot, View, family, label
from agent.source import Supported, Value
from agent.wire.contract import Column, Table, metric_name
from agent.wire.tables import TABLES

# Our own families: the contract's columns, what a GPU is, and which run holds it.
_INFO_LABELS = ("gpu_uuid", "gpu_index", "sku", "parent_uuid", "pci_bus_id", "driver_version")


def _contract_families(view: View) -> Iterator[Metric]:
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
    return family("gpuledger_gpu_info", "Identity of a GPU; join by gpu_uuid. Always 1.", "gauge", series)


def _run_info(view: View) -> Metric:
    series = [
        ({"gpu_uuid": label(one.gpu_uuid), "run_id": label(one.run_id)}
         | {name: label(one.identity.get(name)) for name in IDENTITY}, 1.0)
        for one in view.holders
    ]  # fmt: skip
    words = "A run that holds the GPU, and its owner; join by gpu_uuid. Always 1."
    return family("gpuledger_gpu_run_info", words, "gauge", series)


def _left_out(view: View) -> Metric:
    words = "Rows not exposed because their table has too many."
    series = [({"table": table}, float(count)) for table, count in view.left_out.items() if count]
    return family("gpuledger_agent_series_left_out_total", words, "counter", series)


def _supported_family(supported: Iterable[Supported]) -> Metric:
    """Return the family of what can be measured; 0 with the reason where it cannot."""
    series = [
        ({"gpu_uuid": label(one.gpu_uuid), "subject": label(one.subject), "reason": label(one.reason)}, float(one.ok))
        for one in supported
    ]
    words = "1 if this can be measured on the GPU, else 0, with the reason."
    return family("gpuledger_gpu_supported", words, "gauge", series[:MOST_SERIES])


def _xid_family(counts: Mapping[str, Mapping[str, int]]) -> Metric:
    """Return the family; each GPU that is heard has every class from its first scrape on, so that one error counts."""
    series = [
        ({"gpu_uuid": label(uuid), "class": label(name)}, float(count))
        for uuid, by_class in counts.items()
        for name, count in by_class.items()
    ]
    words = "XID errors since the agent started, by origin: hardware, application, other."
    return family("gpuledger_gpu_xid_class_events_total", words, "counter", series[:MOST_SERIES])


def _build_family(version: str | None, node: str) -> Metric:
    """Return the family that names an agent's version, "unknown" in a checkout that is not installed, and its host."""
    series = [({"version": label(version or "unknown"), "node": label(node)}, 1.0)]
    return family("gpuledger_agent_build_info", "Version of the agent and name of its host. Always 1.", "gauge", series)


@dataclass(frozen=True, slots=True)
class Scraped:
    """What a scrape shows beside the snapshot.

    `own` are the agent's families about itself; `supported` is what can be measured, and `xids` which errors were
    heard, by GPU and class, both answered from memory; `dcgm` chooses whose names are served as well.
    """

    own: Callable[[], Iterable[Metric]] = tuple
    supported: Callable[[], Iterable[Supported]] = tuple
    xids: Callable[[], Mapping[str, Mapping[str, int]]] = dict
    dcgm: DcgmNames = "off"
    version: str | None = field(default_factory=installed_version)
    node: str = ""  # the host, by the name that the ledger knows it by


class HostCollector(Collector):
    """Gives prometheus_client everything that this host shows."""

    def __init__(self, snapshot: Snapshot, scraped: Scraped) -> None:
        self._snapshot = snapshot
        self._scraped = scraped

    def collect(self) -> Iterable[Metric]:
        """Make the families anew, so that what has vanished has vanished; a family without series is not told."""
        return (made for made in self.families() if made.samples)

    def families(self) -> Iterator[Metric]:
        """Yield every family there can be now, those without series too."""
        view = self._snapshot.view()
        yield from _contract_families(view)
        yield _supported_family(self._scraped.supported())
        yield _xid_family(self._scraped.xids())
        yield _build_family(self._scraped.version, self._scraped.node)
        yield from self._scraped.own()
        yield from dcgm_families(view, self._scraped.dcgm)


def registry(snapshot: Snapshot, scraped: Scraped | None = None) -> CollectorRegistry:
    """Return a registry of this host's families alone: no default collectors, no process-wide state."""
    made = CollectorRegistry(auto_describe=False)
    made.register(HostCollector(snapshot, scraped or Scraped()))
    return made
