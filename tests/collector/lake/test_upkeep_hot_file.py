"""The hot file holds what is not sealed yet and the last receipts, and not what has passed through it."""

from pathlib import Path

import pytest

from collector.lake.tidying import forget_receipts
from collector.store.database import Store
from tests.collector.lake.upkeep_sites import DAY, DAY_US, one, site

BODY = b"x" * 100_000
BATCHES = 40  # of a cycle
CYCLES = 15


def _arrive(store: Store, first: int, received_at: int) -> None:
    """Take batches as the writer does: their bodies and their receipts, in one transaction."""
    with store.hot_session() as session, session.transaction():
        for number in range(first, first + BATCHES):
            session.execute("INSERT INTO arrivals (batch, body) VALUES (?, ?)", [number << 8, BODY])
            session.execute(
                "INSERT INTO receipts VALUES (?, 'n1', 's', ?, 'h', ?, ?, 2, 1)",
                [number << 8, number, received_at, received_at],
            )


def _sealed(store: Store, upto: int) -> None:
    with store.hot_session() as session:
        session.execute("DELETE FROM arrivals WHERE batch <= ?", [upto << 8])


def test_many_cycles_leave_the_file_as_large_as_a_few(tmp_path: Path) -> None:
    """4 MB arrive, are sealed and forgotten, again and again: the space must be taken anew, not added."""
    sizes = []
    with site(tmp_path) as store:
        for cycle in range(CYCLES):
            _arrive(store, cycle * BATCHES, DAY + cycle * DAY_US)
            _sealed(store, (cycle + 1) * BATCHES)
            forget_receipts(store, DAY + (cycle - 2) * DAY_US)
            sizes.append(store.size_bytes())
        assert one(store, f"SELECT count(*) FROM {store.hot}.receipts") == (3 * BATCHES,)
    assert sizes[-1] <= 1.25 * max(sizes[:6])
    assert sizes[-1] < CYCLES * BATCHES * len(BODY) / 4  # of 4 MB a cycle


def test_receipts_are_forgotten_with_the_spools_that_could_repeat_them(tmp_path: Path) -> None:
    """A batch that comes again within the life of a spool must be known; later no spool can have it."""
    with site(tmp_path) as store:
        _arrive(store, 0, DAY)
        _sealed(store, BATCHES)
        _arrive(store, BATCHES, DAY + DAY_US)
        _sealed(store, 2 * BATCHES)
        assert forget_receipts(store, DAY + 1).done == BATCHES
        assert one(store, f"SELECT min(sequence) FROM {store.hot}.receipts") == (BATCHES,)


def test_what_is_not_sealed_keeps_its_receipt(tmp_path: Path) -> None:
    """A lake that is away for a month is no reason to count its batches twice."""
    with site(tmp_path) as store:
        _arrive(store, 0, DAY)
        assert forget_receipts(store, DAY + 60 * DAY_US).done == 0


def test_the_newest_of_each_collector_stays(tmp_path: Path) -> None:
    """Batches are numbered on from it, and a number given twice would be two batches."""
    with site(tmp_path) as store:
        for place in (store.hot, "lake.main"):
            with store.session() as session:
                session.execute(
                    f"INSERT INTO {place}.receipts SELECT n * 256 + c, 'n1', 's' || c, n, 'h', 0, 0, 2, 1 "
                    "FROM range(1, 6) a(n), range(3) b(c)"
                )
        assert forget_receipts(store, DAY).done == 2 * 12
        assert one(store, "SELECT list(batch ORDER BY batch) FROM receipts") == ([5 * 256, 5 * 256 + 1, 5 * 256 + 2],)


@pytest.mark.parametrize("agent", ["import:week.parquet", "prometheus:http://prometheus:9090"])
def test_a_file_counts_once_also_next_year(tmp_path: Path, agent: str) -> None:
    """Nobody keeps a spool so long, but people keep files, and import them again."""
    with site(tmp_path, lake=False) as store:
        with store.hot_session() as session:
            for number, who in ((1, agent), (2, "n1"), (3, "n1")):
                session.execute(
                    "INSERT INTO receipts VALUES (?, ?, 's', ?, 'h', 0, 0, 2, 1)", [number * 256, who, number]
                )
        assert forget_receipts(store, DAY).done == 1
        assert one(store, "SELECT list(agent ORDER BY batch) FROM receipts") == ([agent, "n1"],)


def test_a_log_that_cannot_be_folded_in_just_now_is_no_failure(tmp_path: Path) -> None:
    """A fleet sends all day: an operator was told that the upkeep failed, for a log that DuckDB folds in by itself."""
    with site(tmp_path) as store:
        _arrive(store, 0, DAY)
        _sealed(store, BATCHES)
        with store.hot_session() as session:
            session.execute("INSERT INTO arrivals (batch, body) VALUES (?, ?)", [1 << 20, BODY])
        with store.hot_session() as session, session.transaction():
            session.execute("UPDATE arrivals SET batch = batch + 1")  # an insertion alone DuckDB lets pass
            assert not store.checkpoint()
            outcome = forget_receipts(store, DAY + 1)
        assert (outcome.done, "checkpointed later" in outcome.said) == (BATCHES - 1, True)  # the newest stays
        assert forget_receipts(store, DAY + 1).said == "0 receipts removed"
        assert store.checkpoint()
