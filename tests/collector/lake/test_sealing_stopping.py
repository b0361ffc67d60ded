"""An orderly stop leaves nothing unsealed, whenever it comes."""

import threading
from pathlib import Path

import pytest

from collector.lake import sealing
from collector.lake.sealing import Sealed, Sealer
from collector.pipeline.batch_commit import BatchCommit
from collector.pipeline.decoding.batch import decode
from collector.pipeline.metrics import Metrics
from collector.store.database import Store
from collector.store.lake import default_lake
from collector.store.seal_mark import Mark
from tests.collector.batches import NOW, body
from tests.waiting import PATIENCE_SECONDS, until


class Held(Sealer):
    """A sealer that rests at the end of its first sealing until it is let go."""

    def __init__(self, store: Store, mark: Mark) -> None:
        super().__init__(store, mark, Metrics(), every_seconds=0.01, rows=1)
        self.sealed, self.let_go = threading.Event(), threading.Event()

    def once(self) -> Sealed | None:
        """Seal, and rest."""
        found = super().once()
        self.sealed.set()
        self.let_go.wait(PATIENCE_SECONDS)
        return found


def test_what_came_during_the_last_sealing_is_sealed_too(tmp_path: Path) -> None:
    """A collector is stopped for an upgrade of its host: what lies in its hot file then nobody can read meanwhile."""
    path = tmp_path / "store.duckdb"
    with Store.open(path, lake=default_lake(path)) as store:
        mark = Mark.of(store)
        sealer = Held(store, mark)
        sealer.start()
        assert sealer.sealed.wait(PATIENCE_SECONDS)
        with BatchCommit(store, mark) as batch_commit:
            batch_commit.land([decode(body(), NOW)])
        stopping = threading.Thread(target=sealer.stop)
        stopping.start()
        until(lambda: sealer._ending, "the stop comes, while the first sealing is still under way")
        sealer.let_go.set()
        stopping.join(PATIENCE_SECONDS)
        with store.session() as session:
            assert session.row("SELECT count(*) FROM lake.main.receipts") == (1,)


@pytest.mark.parametrize(("seconds", "sealed"), [(60.0, 20), (-1.0, 1)])
def test_a_stop_seals_in_passes_while_there_is_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, sealed: int
) -> None:
    """What is not sealed lies safely in the hot file; a supervisor that waits in vain would kill."""
    monkeypatch.setattr(sealing, "MOST_ROWS", 1)
    monkeypatch.setattr(sealing, "STOPPING_SECONDS", seconds)
    path = tmp_path / "store.duckdb"
    with Store.open(path, lake=default_lake(path)) as store:
        mark = Mark.of(store)
        sealer = Sealer(store, mark, Metrics(), every_seconds=600, rows=10**9)
        sealer.start()
        with BatchCommit(store, mark) as batch_commit:
            batch_commit.land([decode(body(sequence), NOW) for sequence in range(20)])
        sealer.stop()
        with store.session() as session:
            assert session.row("SELECT count(*) FROM lake.main.receipts") == (sealed,)


def test_a_store_that_had_no_lake_is_whole_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers look at the lake alone: pages made of its first half called hosts silent that had sent all along."""
    monkeypatch.setattr(sealing, "MOST_ROWS", 1)
    path = tmp_path / "store.duckdb"
    with Store.open(path) as store, BatchCommit(store, Mark.of(store)) as batch_commit:
        batch_commit.land([decode(body(sequence), NOW) for sequence in range(3)])
    with Store.open(path, lake=default_lake(path)) as store:
        sealer = Sealer(store, Mark.of(store), Metrics(), every_seconds=600, rows=10**9)
        sealer.start()
        with store.session() as session:
            assert session.row("SELECT count(*) FROM lake.main.receipts") == (3,)
        sealer.stop()
