"""When it is sealed, and what others are told of it: upkeep lets it go first, and a failure is soon tried again."""

import threading
from pathlib import Path

import pytest

from collector.errors import StoreError
from collector.lake import sealing
from collector.lake.sealing import Sealed, Sealer, seal
from collector.pipeline.batch_commit import BatchCommit
from collector.pipeline.decoding.batch import decode
from collector.pipeline.metrics import Metrics
from collector.store.database import Store
from collector.store.lake import default_lake
from collector.store.seal_mark import Mark
from tests.collector.batches import NOW, body
from tests.waiting import PATIENCE_SECONDS, until


def test_sealing_is_behind_while_it_works_and_while_as_much_again_waits(tmp_path: Path) -> None:
    """A sealer that waits for its turn at the lake must not look as if it had nothing to do: nobody would let it in."""
    path = tmp_path / "store.duckdb"
    with Store.open(path, lake=default_lake(path)) as store:
        sealer = Sealer(store, Mark.of(store), Metrics(), every_seconds=600, rows=100)
        found = []
        for rows in (99, 1):
            sealer.committed(rows)
            found.append(sealer.is_behind)
        with store.turn:
            working = threading.Thread(target=sealer.once)
            working.start()
            until(lambda: not sealer._waiting_rows, "the sealer has begun")
            found.append(sealer.is_behind)
        working.join(PATIENCE_SECONDS)
        found.append(sealer.is_behind)
        assert found == [False, True, True, False]


def test_what_could_not_be_sealed_is_soon_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lake's catalogue may be locked for a moment; under load minutes of waiting are millions of rows."""
    path = tmp_path / "store.duckdb"
    tries = []

    def locked_at_first(*given: object) -> Sealed:
        tries.append(given)
        if len(tries) < 3:
            raise StoreError("database is locked")
        return seal(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(sealing, "seal", locked_at_first)
    monkeypatch.setattr(sealing, "RETRY_SECONDS", 0.01)
    with Store.open(path, lake=default_lake(path)) as store:
        mark = Mark.of(store)
        with BatchCommit(store, mark) as batch_commit:
            batch_commit.land([decode(body(), NOW)])
        sealer = Sealer(store, mark, Metrics(), every_seconds=600, rows=1)
        sealer.start()
        sealer.committed(1)
        until(lambda: sealer.last_at is not None, "it is sealed")
        assert len(tries) == 3
        assert not sealer.failing
        sealer.stop()
        with store.session() as session:
            assert session.row("SELECT count(*) FROM lake.main.receipts") == (1,)
