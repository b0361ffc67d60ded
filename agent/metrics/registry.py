"""The families of one scrape, in the form that prometheus_client asks for."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.registry import Collector

from agent.metrics.build import build_family
from agent.metrics.contract import contract_families
from agent.metrics.dcgm import dcgm_families
from agent.metrics.snapshot import Snapshot
from agent.metrics.supported import supported_family
from agent.metrics.xids import xid_family
from agent.settings.config import DcgmNames
from agent.source import Supported
from agent.version import installed_version


def _nothing() -> tuple[()]:
    return ()


@dataclass(frozen=True, slots=True)
class Scraped:
    """What a scrape shows beside the snapshot.

    `own` are the agent's families about itself; `supported` is what can be measured, and `xids` which errors were
    heard, by GPU and class, both answered from memory; `dcgm` chooses whose names are served as well.
    """

    own: Callable[[], Iterable[Metric]] = _nothing
    supported: Callable[[], Iterable[Supported]] = _nothing
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
        yield from contract_families(view)
        yield supported_family(self._scraped.supported())
        yield xid_family(self._scraped.xids())
        yield build_family(self._scraped.version, self._scraped.node)
        yield from self._scraped.own()
        yield from dcgm_families(view, self._scraped.dcgm)


def registry(snapshot: Snapshot, scraped: Scraped | None = None) -> CollectorRegistry:
    """Return a registry of this host's families alone: no default collectors, no process-wide state."""
    made = CollectorRegistry(auto_describe=False)
    made.register(HostCollector(snapshot, scraped or Scraped()))
    return made
