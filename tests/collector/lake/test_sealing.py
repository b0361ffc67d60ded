"""From answered to sealed: nothing lost, nothing twice, whoever dies when; and readers see whole seals."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.errors import StoreError
from collector.lake import sealing
from collector.lake.sealing import seal
from collector.pipeline.batch_commit import BatchCommit, Receipt
from collector.pipeline.decoding.batch import Batch, decode
from collector.store.database import Store
from collector.store.lake import default_lake
from collector.store.seal_mark import Mark
from tests.collector.batches import NOW, body, gpu_rows


def batch(sequence: int, rows: int = 2, stream: str = "stream") -> Batch:
    """Return a validated batch."""
    return decode(body(sequence=sequence, stream=stream, tables={"gpu_samples": gpu_rows(rows)}), NOW)


def lake_store(folder: Path) -> Store:
    """Open a store with a lake beside it."""
    return Store.open(folder / "hot.duckdb", lake=default_lake(folder / "hot.duckdb"))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Return such a store."""
    with lake_store(tmp_path) as opened:
        yield opened


def count(store: Store, sql: str) -> tuple[int, ...]:
    """Return a row of numbers."""
    with store.session() as session:
        return session.row(sql)


def test_what_is_answered_is_kept_as_it_came_until_it_is_sealed(store: Store) -> None:
    """Bodies are small; their rows are written once, where readers look for them."""
    mark = Mark.of(store)
    with BatchCommit(store, mark) as batch_commit:
        batch_commit.land([batch(0), batch(1)])
        assert count(store, f"SELECT count(*) FROM {store.hot}.arrivals") == (2,)
        assert count(store, "SELECT count(*) FROM gpu_samples") == (0,)
        assert seal(store, mark).rows == 4
        assert count(store, f"SELECT count(*) FROM {store.hot}.arrivals") == (0,)
        assert count(store, "SELECT count(*), count(DISTINCT batch) FROM gpu_samples") == (4, 2)
        assert count(store, "SELECT count(*) FROM receipts") == (2,)


def test_an_agent_may_forget_what_the_lake_has(store: Store) -> None:
    """And nothing earlier: this machine's disk may be the one that is lost."""
    mark = Mark.of(store)
    with BatchCommit(store, mark) as batch_commit:
        assert batch_commit.land([batch(0), batch(1)])[1] == Receipt(1, sealed_through=-1, repeated=False)
        seal(store, mark)
        assert batch_commit.land([batch(2)]) == [Receipt(2, sealed_through=1, repeated=False)]
        assert batch_commit.land([batch(0)]) == [Receipt(0, sealed_through=1, repeated=True)]


def test_what_is_safe_is_remembered_over_a_restart(tmp_path: Path) -> None:
    """The marker lies in the lake, the receipts in the hot file; both are read again."""
    with lake_store(tmp_path) as store, BatchCommit(store, mark := Mark.of(store)) as batch_commit:
        batch_commit.land([batch(0)])
        seal(store, mark)
        batch_commit.land([batch(1)])
    with lake_store(tmp_path) as store, BatchCommit(store, again := Mark.of(store)) as batch_commit:
        assert again.upto == mark.upto
        assert batch_commit.land([batch(1)]) == [Receipt(1, sealed_through=0, repeated=True)]
        assert seal(store, again).batches == 1
        assert batch_commit.land([batch(2)]) == [Receipt(2, sealed_through=1, repeated=False)]


def test_a_store_that_had_no_lake_brings_its_rows_along(tmp_path: Path) -> None:
    """What a development version kept in one file is sealed with the next batch, and counted once."""
    path = tmp_path / "hot.duckdb"
    with Store.open(path) as store, BatchCommit(store) as batch_commit:
        batch_commit.land([batch(0), batch(1)])
    with lake_store(tmp_path) as store:
        mark = Mark.of(store)
        assert seal(store, mark).rows == 4
        assert count(store, "SELECT count(*) FROM gpu_samples") == (4,)
        assert count(store, f"SELECT count(*) FROM {store.hot}.gpu_samples") == (0,)


def test_a_store_that_was_moved_is_the_same_store(tmp_path: Path) -> None:
    """All of it lies side by side, and may be copied, or put on a larger disk, without a word to anybody."""
    with lake_store(tmp_path) as store:
        BatchCommit(store).land([batch(1, rows=3)])
        seal(store, Mark.of(store))
    moved = tmp_path.rename(tmp_path.with_name("elsewhere"))
    with Store.open(next(moved.glob("*.duckdb"))) as store:
        assert count(store, "SELECT count(*) FROM gpu_samples") == (3,)


def test_much_is_sealed_in_several_passes(store: Store) -> None:
    """A lake that was away for a day must not need one transaction as large as the day, nor a stop wait for it."""
    mark = Mark.of(store)
    with BatchCommit(store, mark) as batch_commit:
        batch_commit.land([batch(sequence, rows) for sequence, rows in enumerate((2, 3, 50, 2, 2))])
        passes = [seal(store, mark, most_rows=4) for _ in range(4)]
        assert [(sealed.batches, sealed.rows, sealed.more) for sealed in passes] == [
            (2, 5, True),
            (1, 50, True),
            (2, 4, False),
            (0, 0, False),
        ]
        assert batch_commit.land([batch(5)])[0] == Receipt(5, sealed_through=4, repeated=False)
    assert count(store, "SELECT count(*), count(DISTINCT batch) FROM gpu_samples") == (59, 5)


def test_a_seal_that_fails_takes_nothing_and_loses_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lake's transaction is all or nothing, and only its end moves the mark."""
    mark = Mark.of(store)
    with BatchCommit(store, mark) as batch_commit:
        batch_commit.land([batch(0)])

    def broken(_: Path | None) -> None:
        raise StoreError("the disk says no")

    monkeypatch.setattr(sealing, "sync", broken)
    with pytest.raises(StoreError, match="the disk says no"):
        seal(store, mark)
    assert mark.upto == 0
    assert count(store, "SELECT count(*) FROM gpu_samples") == (0,)
    monkeypatch.undo()
    assert seal(store, mark).rows == 2


def test_a_body_that_the_disk_did_not_keep_stops_no_other(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    """Its checksum tells; all that came later would otherwise wait behind it for ever."""
    mark = Mark.of(store)
    with BatchCommit(store, mark) as batch_commit:
        batch_commit.land([batch(0), batch(1)])
    with store.hot_session() as session:
        session.execute("UPDATE arrivals SET body = 'rotten'::BLOB WHERE batch = (SELECT min(batch) FROM arrivals)")
    sealed = seal(store, mark)
    assert (sealed.rows, sealed.broken) == (2, 1)
    assert "can no longer be read" in caplog.text


def test_another_process_reads_the_lake_while_the_store_is_open(store: Store) -> None:
    """DuckDB lets one process into a file; reports must not wait for a server to stop."""
    mark = Mark.of(store)
    with BatchCommit(store, mark) as batch_commit:
        batch_commit.land([batch(0)])
    seal(store, mark)
    script = (
        "import sys; from pathlib import Path; from collector.store.database import Store\n"
        "with Store.open(Path(sys.argv[1]), read_only=True) as store, store.session() as session:\n"
        "    print(store.hot, *session.row('SELECT count(*), (SELECT count(*) FROM ledger) FROM gpu_samples'))"
    )
    found = subprocess.run([sys.executable, "-c", script, str(store.path)], capture_output=True, text=True, check=True)
    assert found.stdout == "None 2 0\n"


# It begins as our processes do, and without pytest: what it is killed in is sealing, and not importing.
SEALING = """
import sys
from pathlib import Path
from agent import child
child.load("collector.lake.sealing")
from collector.pipeline.batch_commit import BatchCommit
from collector.pipeline.decoding.batch import decode
from collector.store.database import Store
from collector.store.lake import default_lake
from collector.store.seal_mark import Mark
from collector.lake.sealing import seal
from tests.collector.batches import NOW, body, gpu_rows
def batch(sequence, rows):
    return decode(body(sequence=sequence, stream="stream", tables={"gpu_samples": gpu_rows(rows)}), NOW)
hot = Path(sys.argv[1]) / "hot.duckdb"
with Store.open(hot, lake=default_lake(hot)) as store:
    mark = Mark.of(store)
    with BatchCommit(store, mark) as landing:
        while True:
            for sequence in range(int(sys.argv[2]), 10**6):
                landing.land([batch(sequence, rows=1 + sequence % 5)])
                print(sequence, flush=True)
                if sequence % 3 == 0:
                    seal(store, mark)
"""


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.soak)])
def test_killed_at_any_moment_it_counts_everything_once(tmp_path: Path, kills: int) -> None:
    """Between two files no transaction holds: the marker decides, and what was answered is found exactly once."""
    answered = -1
    for kill in range(kills):
        with subprocess.Popen(
            [sys.executable, "-c", SEALING, str(tmp_path), str(answered + 1)], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                answered = int(line)
                if answered % 7 == kill % 7 and answered >= 2 * kill:
                    break
            time.sleep(0.01 * kill)
            process.kill()
            answered = max([answered, *map(int, process.stdout.read().split())])
        with lake_store(tmp_path) as store:
            seal(store, Mark.of(store))
            (last,) = count(store, "SELECT max(sequence) FROM receipts")
            assert last in (answered, answered + 1), "the last may be committed and not yet told"
            answered = last
            rows = sum(1 + sequence % 5 for sequence in range(last + 1))
            found = count(store, "SELECT count(*), count(DISTINCT (batch, started_at, gpu_uuid)) FROM gpu_samples")
            assert found == (rows, rows)
