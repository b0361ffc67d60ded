"""Forward from every released schema: a store that earlier code made opens, and nothing of it is lost or changed."""

import lzma
from pathlib import Path

import pytest

from analyzer.interfaces.doctor.invariants import examine
from analyzer.settings.settings import Settings
from collector.lake.sealing import seal
from collector.store.database import Store
from collector.store.lake import default_lake
from collector.store.schemas import available
from collector.store.seal_mark import Mark
from tests.operations.site import Site

STORES = sorted((Path(__file__).parents[1] / "data" / "stores").glob("*.duckdb.xz"))
# What make.py put into each of them: rows by table, and the ledger's sums.
ROWS = {"receipts": 8, "gpu_samples": 192, "allocations": 3, "ownership": 4, "ledger": 16, "runs": 3}
MILLISECONDS, MICROS = 57_600_000, 41_600_000

released = pytest.mark.parametrize("packed", STORES, ids=lambda path: path.name.removesuffix(".duckdb.xz"))


def unpacked(packed: Path, folder: Path) -> Path:
    """Return a released store, ready to be opened."""
    path = folder / "store.duckdb"
    path.write_bytes(lzma.decompress(packed.read_bytes()))
    return path


def counted(store: Store) -> dict[str, int]:
    """Return the rows that every reader counts."""
    with store.session() as session:
        return {table: session.row(f"SELECT count(*) FROM {table}")[0] for table in ROWS}


def sums(store: Store) -> tuple[int, int]:
    """Return the ledger's time and money."""
    with store.session() as session:
        milliseconds, micros = session.row("SELECT sum(milliseconds)::BIGINT, sum(cost_micros)::BIGINT FROM ledger")
    return milliseconds, micros


def test_every_release_is_among_the_fixtures() -> None:
    """Whoever releases a migration adds the store that it left (tests/data/stores/make.py)."""
    assert [path.name for path in STORES] == ["0.1.0-schema-2.duckdb.xz", "0.1.0-schema-3.duckdb.xz"]


@released
def test_it_opens_as_one_file(packed: Path, tmp_path: Path) -> None:
    """Without a lake: the tables gain columns, and rows stay."""
    path = unpacked(packed, tmp_path)
    with Store.open(path) as store:
        assert (counted(store), sums(store)) == (ROWS, (MILLISECONDS, MICROS))
        with store.session() as session:
            assert session.row("SELECT max(number) FROM migrations") == (available()[-1][0],)
    with Store.open(path, read_only=True) as store:
        assert counted(store) == ROWS


@released
def test_its_rows_are_adopted_by_a_lake(packed: Path, tmp_path: Path) -> None:
    """`serve` makes a lake beside it: the first sealing takes along what the file has, once, and forgets it there."""
    path = unpacked(packed, tmp_path)
    with Store.open(path, lake=default_lake(path)) as store:
        mark = Mark.of(store)
        for _ in range(2):
            seal(store, mark)
            assert (counted(store), sums(store)) == (ROWS, (MILLISECONDS, MICROS))
        with store.hot_session() as session:
            assert session.row("SELECT count(*) FROM gpu_samples") == (0,)


@released
def test_its_ledger_holds_every_invariant(packed: Path, tmp_path: Path) -> None:
    """Also after its rows have moved, and by the prices that it was made with."""
    path = unpacked(packed, tmp_path)
    with Store.open(path, lake=default_lake(path)) as store:
        seal(store, Mark.of(store))
        with store.session() as session:
            checks = examine(session, Settings())
    assert [check for check in checks if not check.is_right] == []
    assert {check.name: check.checked for check in checks}["conservation"] > 0


@released
def test_a_batch_of_then_is_known_today(packed: Path, tmp_path: Path) -> None:
    """An agent whose answer was lost in the upgrade sends again, and it counts once."""
    path = unpacked(packed, tmp_path)
    with Store.open(path) as store, store.session() as session:
        stream, sequence = session.row("SELECT stream, max(sequence) FROM receipts GROUP BY stream LIMIT 1")
    with Site(path) as site:
        site.seal()
        with site.store.hot_session() as hot:
            known = hot.rows("SELECT 1 FROM receipts WHERE stream = ? AND sequence = ?", [stream, sequence])
        assert known
        assert site.take([1]) == [False]  # of another stream: it numbers on from what was there
        with site.store.hot_session() as hot:
            assert hot.row("SELECT count(DISTINCT batch) = count(*) FROM receipts") == (True,)
