"""What was acknowledged survives kill -9, and is there exactly once."""

import re
import threading
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path

import pytest

from collector.errors import StoreError
from collector.store.database import Store
from tests.collector.batches import body, gpu_rows
from tests.collector.serving import Client, CollectorProcess
from tests.waiting import until

ROWS = 3


@dataclass
class Sender:
    """An agent in small: sends one batch after the other, each again until it is acknowledged."""

    client: Client
    stream: str
    acknowledged: set[int] = field(default_factory=set)
    sent: int = 0
    repeats: int = 0
    stopping: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Send until told to stop."""
        sequence = 0
        while not self.stopping.is_set():
            batch = body(sequence, {"gpu_samples": gpu_rows(ROWS)}, self.stream)
            while not self._accepted(batch) and not self.stopping.wait(0.02):
                self.repeats += 1
            sequence += 1

    def _accepted(self, batch: bytes) -> bool:
        try:
            answer = self.client.post(batch)
        except (OSError, HTTPException):  # the kill may cut an answer short
            return False
        assert answer.status in (200, 503), answer.text
        if answer.status == 200:
            self.acknowledged.add(answer.json["sequence"])
        return answer.status == 200


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.soak)])
def test_every_acknowledged_batch_is_there_once_after_kills(tmp_path: Path, kills: int) -> None:
    """The agent's promise to forget what was acknowledged rests on this alone."""
    collector = CollectorProcess(tmp_path / "store.duckdb")
    senders = [Sender(collector.client, f"stream-{number}") for number in range(4)]
    threads = [threading.Thread(target=sender.run) for sender in senders]
    collector.start()
    for thread in threads:
        thread.start()
    for kill in range(kills):
        _until_more_are_acknowledged(senders, 4 + kill % 5)
        collector.kill()
        collector.start()
    for sender in senders:
        sender.stopping.set()
    for thread in threads:
        thread.join()
    assert collector.stop() == 0
    with Store.open(collector.store, read_only=True) as store, store.session() as session:
        for sender in senders:
            stored = [n for (n,) in session.rows("SELECT sequence FROM receipts WHERE stream = ?", [sender.stream])]
            assert len(stored) == len(set(stored))
            assert sender.acknowledged <= set(stored)
        batches, receipts = session.row(
            "SELECT (SELECT count(DISTINCT batch) FROM gpu_samples), count(*) FROM receipts"
        )
        assert batches == receipts
        counts = session.rows("SELECT count(*) FROM gpu_samples GROUP BY batch")
        assert set(counts) == {(ROWS,)}
    assert sum(sender.repeats for sender in senders) > 0, "no kill hit a batch on its way; the test shows nothing"


@dataclass(frozen=True)
class Stopped:
    """A collector that took a batch and was stopped in order; `said` is what met who opened its store meanwhile."""

    store: Path
    code: int
    said: str


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Stopped:
    """Start one, and stop it."""
    collector = CollectorProcess(tmp_path_factory.mktemp("stopped") / "store.duckdb")
    collector.start()
    try:
        assert collector.client.post(body()).status == 200
        with pytest.raises(StoreError) as refused:
            Store.open(collector.store)
    finally:
        code = collector.stop()
    return Stopped(collector.store, code, str(refused.value))


def test_a_stopped_collector_has_folded_its_log_in(stopped: Stopped) -> None:
    """After an orderly stop the hot file is one file, and all that came is sealed: it can be copied as it is."""
    assert stopped.code == 0
    assert not stopped.store.with_name("store.duckdb.wal").exists()
    with Store.open(stopped.store, read_only=True) as store, store.hot_session() as hot:
        assert hot.row("SELECT count(*), (SELECT count(*) FROM receipts) FROM arrivals") == (0, 1)


def test_a_store_in_use_says_by_whom_and_what_to_do(stopped: Stopped) -> None:
    """DuckDB lets one process write; whoever meets the lock wants to know whose it is and the way round it."""
    assert re.search(r"is in use by process \d+; stop it first, or use", stopped.said)


def _until_more_are_acknowledged(senders: list[Sender], count: int) -> None:
    """Wait until some more batches got through, so that every kill meets a collector at work."""
    target = sum(len(sender.acknowledged) for sender in senders) + count
    until(lambda: sum(len(sender.acknowledged) for sender in senders) >= target, f"{count} more batches are taken")
