"""Documents that cannot lie: they are the contract's own words."""

from pathlib import Path

from agent.about import AgentSource, own_families
from agent.clock import FakeClock, SystemClock
from agent.exporter import Snapshot
from agent.post import Link
from agent.sampler import Beats, Sampler
from agent.sender import Sender
from agent.shelf import Shelf
from agent.spool import Spool
from agent.stamp import Stamper
from agent.wire.contract import metric_name
from agent.wire.document import OWN_METRICS, metrics_md, privacy_md
from agent.wire.tables import TABLES

DOCS = Path(__file__).parent.parent.parent / "docs"
AGAIN = "run python -m agent.wire.document docs"


def test_the_metrics_document_is_the_contract() -> None:
    """A column that is not documented cannot be used; one that is documented and gone misleads."""
    assert (DOCS / "metrics.md").read_text(encoding="utf-8") == metrics_md(), AGAIN


def test_the_privacy_document_is_the_contract() -> None:
    """A security review reads this page instead of the code."""
    assert (DOCS / "privacy.md").read_text(encoding="utf-8") == privacy_md(), AGAIN


def test_the_agents_own_metrics_are_documented(tmp_path: Path) -> None:
    """What an operator sees on /metrics must be explained somewhere."""
    spool = Spool(Shelf(tmp_path), 10**6, 10**6)
    sampler = Sampler(Stamper("n"), [AgentSource(Beats(), spool, lambda: None, Path("/proc"))], FakeClock(), 1.0)
    sender = Sender(spool, Link("http://127.0.0.1:1"), SystemClock())
    own = [*own_families(sampler, spool, sender), Snapshot(lambda: 0).families()[-1]]
    spool.close()
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
