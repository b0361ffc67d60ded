"""Notices of a store with a lake, as its server and another process read it."""

from pathlib import Path

from analyzer.findings.health.all_notices import notices_in
from collector.store.database import Store
from collector.store.lake import default_lake
from tests.analyzer.findings.health_fleets import WELL
from tests.analyzer.ledger.fleet import HOUR, MONDAY, Fleet


def test_a_reader_of_the_lake_is_told_the_same(tmp_path: Path) -> None:
    """Within one snapshot, and where nothing may be written: what is counted lies in the session's own tables."""
    path, until = tmp_path / "store.duckdb", MONDAY + HOUR
    with Store.open(path, lake=default_lake(path)) as store:
        fleet = Fleet(store)
        fleet.own("n1", ["n1-a"])
        fleet.sample("n1", "n1-a", MONDAY, until, **WELL | {"pcie_width": 8})
        fleet.hold("slurm/alpha/1", "n1", ["n1-a"], MONDAY)
        fleet.analyze(now=until)
        with store.session() as session, session.transaction():
            served = notices_in(session, MONDAY, until)
    with Store.open(path, read_only=True) as store, store.session() as session, session.transaction():
        assert notices_in(session, MONDAY, until) == served
    assert [notice.rule for notice in served.notices] == ["hardware/pcie_width"]
