"""Documents that cannot lie: they are the contract's own words."""

from pathlib import Path

from agent.attribution.providers import Condition
from agent.clock import Clock
from agent.daemon.agent import AgentState, own_families
from agent.delivery.link import Link
from agent.delivery.sender import Sender
from agent.metrics.families import HostCollector, Scraped, registry
from agent.metrics.scrape_server import ScrapeServer
from agent.metrics.snapshot import Snapshot
from agent.sampling.sampler import Sampler
from agent.sampling.stamp import Stamper
from agent.sampling.wiring import HostSources
from agent.sources.services import Followed, Service
from agent.spool.queue import open_spool
from agent.wire.contract import metric_name
from agent.wire.tables import TABLES
from bench.contract_document import OWN_METRICS, ledger_columns_md, metrics_md, privacy_md
from tests.agent.no_gpus import NoGpus
from tests.fake_clock import FakeClock

DOCS = Path(__file__).parent.parent.parent / "docs"
AGAIN = "run make docs"


def test_the_metrics_document_is_the_contract() -> None:
    """A column that is not documented cannot be used; one that is documented and gone misleads."""
    assert (DOCS / "metrics.md").read_text(encoding="utf-8") == metrics_md(), AGAIN


def test_the_privacy_document_is_the_contract() -> None:
    """A security review reads this page instead of the code."""
    assert (DOCS / "privacy.md").read_text(encoding="utf-8") == privacy_md(), AGAIN


def test_the_document_of_the_ledgers_columns_is_their_table() -> None:
    """Who queries the books from elsewhere has nothing else to go by."""
    assert (DOCS / "ledger-columns.md").read_text(encoding="utf-8") == ledger_columns_md(), AGAIN


def test_the_agents_own_metrics_are_documented(tmp_path: Path) -> None:
    """What an operator sees on /metrics must be explained somewhere."""
    spool = open_spool(tmp_path, 10**6, 10**6)
    sender = Sender(spool, Link("http://127.0.0.1:1"), Clock())
    asked = Followed(Service("http", "n", 1, "/metrics"), lambda _: "", lambda _: "")
    conditions = [Condition("kubelet", 1.0, 0, "")]
    host_sources = HostSources([], NoGpus(), lambda: None, providers=lambda: conditions, services=[asked])
    state = AgentState(Sampler(Stamper("n"), [], FakeClock(), 1.0), spool, sender, host_sources)
    snapshot = Snapshot(lambda: 0)
    server = ScrapeServer("127.0.0.1", 0, registry(snapshot))
    own = [*HostCollector(snapshot, Scraped(lambda: own_families(state))).families(), server.family()]
    server.stop()
    spool.close()
    asked.close()
    exported = {f"{family.name}_total" if family.type == "counter" else family.name for family in own}
    assert exported == OWN_METRICS.keys()


def test_metric_names_are_distinct() -> None:
    """Two columns under one name would be one series with two meanings."""
    names = [
        name
        for table in TABLES.values()
        for column in table.columns
        if (name := metric_name(table, column)) is not None
    ]
    assert len(names) == len(set(names))
    assert not set(names) & OWN_METRICS.keys()
