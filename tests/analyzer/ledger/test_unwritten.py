"""A pass over a lake does not ask for tables that nobody has ever written to, and misses nothing that is written."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.wire.tables import TABLES
from analyzer.analysis import analyze
from analyzer.ledger.believed import believing
from analyzer.ledger.pending import hide_unwritten, know_empty
from analyzer.settings.settings import Settings
from collector.store.books import AMOUNTS, DATED, mirror
from collector.store.database import Store
from collector.store.lake import default_lake
from collector.store.session import Session
from tests.analyzer.ledger.fleet import DAY, HOUR, MONDAY, Fleet

RUN = "slurm/alpha/1"
VIEWS = "SELECT view_name FROM duckdb_views() WHERE temporary AND NOT internal"
SERVED = "SELECT hour, run_id, node, requests FROM served_amounts ORDER BY ALL"


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """A fleet of one GPU that a service holds, in a lake that nobody has analysed."""
    path = tmp_path / "store.duckdb"
    with Store.open(path, lake=default_lake(path)) as store:
        yield _with_a_service(Fleet(store))


def _with_a_service(fleet: Fleet) -> Fleet:
    with fleet.together():
        fleet.own("n0", ["g0"])
        fleet.hold(RUN, "n0", ["g0"], MONDAY, MONDAY + HOUR)
        fleet.sample("n0", "g0", MONDAY, MONDAY + HOUR)
    return fleet


def _serve(fleet: Fleet) -> None:
    told = {"node": "n0", "run_id": RUN, "started_at": MONDAY, "ended_at": MONDAY + HOUR, "requests": 7}
    fleet.add("service_samples", [told])


def _hidden(session: Session) -> set[str]:
    with session.transaction():
        session.rows("FROM receipts")
        hide_unwritten(session)
    return {view for (view,) in session.rows(VIEWS)}


def test_what_nobody_has_written_is_hidden_and_has_the_columns_of_its_table(fleet: Fleet) -> None:
    """The lake has all tables of the contract; three have rows."""
    with fleet.store.session() as session:
        before = session.rows("DESCRIBE service_samples")
        assert _hidden(session) == TABLES.keys() - {"ownership", "allocations", "gpu_samples"}
        after = session.rows("DESCRIBE service_samples")
    assert [(name, kind) for name, kind, *_ in after] == [(name, kind) for name, kind, *_ in before]


def test_a_table_that_was_emptied_is_not_hidden(fleet: Fleet) -> None:
    """Of it the catalogue may have rows that an older reader still sees."""
    _serve(fleet)
    with fleet.store.session() as session:
        session.execute("DELETE FROM service_samples")
        assert "service_samples" not in _hidden(session)


def test_what_is_written_first_while_a_pass_goes_on_is_booked_by_the_next(fleet: Fleet) -> None:
    """The pass has looked before; what it did not see it does not count as done."""
    with Store.open(None) as store:
        told = _with_a_service(Fleet(store))
        _serve(told)
        told.analyze()
        with store.session() as session:
            at_once = session.rows(SERVED)
    analyze(fleet.store, Settings(), now_us=MONDAY + DAY, progress=lambda *_: _serve(fleet))
    fleet.analyze()
    with fleet.store.session() as session:
        assert session.rows(SERVED) == at_once
    assert [requests for *_, requests in at_once] == [7]


def test_of_a_ledger_beside_a_lake_what_has_rows_is_not_known_to_be_empty(fleet: Fleet) -> None:
    """Nor is what the lake has by the name of a table of the hot file; before the first pass all of a ledger is."""
    with fleet.store.session() as session:
        know_empty(session)
        assert session.without_rows == {*DATED, *AMOUNTS}
        session.execute("INSERT INTO lake.main.services_seen VALUES ('slurm/alpha/1', 1, 2, 'm', 'm')")
    fleet.analyze()
    mirror(fleet.store)
    path = fleet.store.path
    assert path is not None
    filled = {"ledger", "ledger_hours", "runs", "run_gpus", "analysis", "analysed_until"}
    with Store.open(None, lake=default_lake(path), read_only=True) as lake_alone:
        for store in (fleet.store, lake_alone):
            with store.session() as session:
                know_empty(session)
                assert filled & session.without_rows == set()
                assert {"checkpoints", "served_amounts"} <= session.without_rows <= {*DATED, *AMOUNTS}


def test_functions_over_own_tables_do_not_look_at_the_lake(fleet: Fleet) -> None:
    """Its state is that of the first look: a statement that asks it waits for a network in a fleet."""
    with fleet.store.session() as reading, fleet.store.session() as writing:
        assert reading.search_path == fleet.store.search_path
        reading.execute("CREATE TEMP TABLE own AS SELECT 1 AS a")
        with reading.transaction():
            assert reading.row("SELECT sum(a + 1), max(upper(a::VARCHAR)) FROM own WHERE a > 0") == (2, "1")
            writing.execute("INSERT INTO lake.main.services_seen VALUES ('slurm/alpha/1', 1, 2, 'm', 'm')")
            assert reading.row("SELECT count(*) FROM services_seen") == (1,)


def test_nothing_is_hidden_in_a_store_without_a_lake() -> None:
    """What is planned there is planned faster than views are made."""
    with Store.open(None) as store, store.session() as session:
        hide_unwritten(session)
        assert session.rows(VIEWS) == []


def test_readers_see_what_is_written_first_after_others_have_looked(tmp_path: Path) -> None:
    """Empty views stand in the place of what nobody has written; they go when somebody has, hosts' word or not."""
    path = tmp_path / "store.duckdb"
    with Store.open(path, lake=default_lake(path)) as store:
        fleet = _with_a_service(Fleet(store))
        with believing(store) as session:
            assert session.rows("FROM service_samples") == session.rows("FROM inventory") == []
            before = [
                row[:2] for table in ("service_samples", "inventory") for row in session.rows(f"DESCRIBE {table}")
            ]
        _serve(fleet)
        fleet.add("inventory", [{"node": "n0", "gpu_uuid": "g0", "started_at": MONDAY, "ended_at": MONDAY + 1}])
        with believing(store) as session:
            assert session.rows("SELECT requests FROM service_samples") == [(7,)]
            assert session.rows("SELECT gpu_uuid FROM inventory") == [("g0",)]
            after = [row[:2] for table in ("service_samples", "inventory") for row in session.rows(f"DESCRIBE {table}")]
            assert after == before
    with Store.open(path, read_only=True) as store:
        for _ in range(2):
            with believing(store) as session:
                assert session.rows("SELECT requests FROM service_samples") == [(7,)]
                assert session.rows("FROM run_aliases") == []
                assert session.search_path == "written.main,lake.main,hot.main"
