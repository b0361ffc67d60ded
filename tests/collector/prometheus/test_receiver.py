"""What is held between request and answer survives a store that says no, and a sender that comes back."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agent.wire.tables import TABLES
from collector.config import CollectorConfig
from collector.errors import BatchError, ServerError, StoreError
from collector.pipeline.decoding.validation import Clock, faults
from collector.pipeline.writer import Writer
from collector.prometheus.client import exported_samples, matrix
from collector.prometheus.labels import Clusters
from collector.prometheus.receiver import Limits, Receiver
from collector.prometheus.request import V1, Written
from collector.store.database import Store
from tests.collector.prometheus.hostile import answers, requests
from tests.collector.prometheus.writes import STEP, Series, content, labels
from tests.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collector.pipeline.batch_commit import Receipt


class Refusing(Writer):
    """A writer that refuses what is submitted while it is told to."""

    refusing = False

    def submit(self, batch: Any, epoch: int | None = None) -> "Future[Receipt]":
        """Refuse, at once or when it is too late to say no."""
        if not self.refusing:
            return super().submit(batch, epoch)
        if batch.header.sequence % 2:
            raise BatchError(429, "busy", "full")
        future: Future[Receipt] = Future()
        future.set_exception(StoreError("no room on the disk"))
        return future


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Refusing]:
    """A writer on a store in memory."""
    with Store.open(None) as store:
        writer = Refusing(store, CollectorConfig(store=tmp_path / "none", lake="none", gather_seconds=0))
        writer.start()
        yield writer
        writer.close()


@pytest.fixture
def receiver(writer: Refusing) -> Iterator[Receiver]:
    """A receiver that lets no scrape wait for long."""
    receiver = Receiver(writer, Limits(1000, 0.05), Clusters())
    receiver.start()
    yield receiver
    receiver.stop()


def began() -> int:
    """Return an hour ago, milliseconds UTC."""
    return time.time_ns() // 1_000_000 - 3_600_000


def told(receiver: Receiver, series: Sequence[Series], proto: str = V1) -> Written:
    """Send samples and wait for the answer."""
    return receiver.take(content(proto, series), proto).result(PATIENCE_SECONDS)


def stored(writer: Refusing) -> list[tuple[Any, ...]]:
    """Return what is stored."""
    with writer._store.session() as session:
        return session.rows("SELECT utilization_ratio FROM gpu_samples ORDER BY started_at")


@pytest.mark.parametrize("odd", [0, 1])
def test_what_the_store_refused_is_stored_when_it_is_sent_again(receiver: Receiver, writer: Refusing, odd: int) -> None:
    """The scrape was put together and forgotten by then: it must not pass for one that is stored."""
    at = began() // 2 * 2 + odd
    told(receiver, [(labels("DCGM_FI_DEV_GPU_UTIL"), [(at, 10.0)])])
    second: list[Series] = [(labels("DCGM_FI_DEV_GPU_UTIL"), [(at + STEP, 20.0)])]
    writer.refusing = True
    for _ in range(3):
        with pytest.raises(BatchError) as refusal:
            told(receiver, second)
        assert refusal.value.status == 503  # Prometheus drops what is answered with 429
    assert stored(writer) == []
    writer.refusing = False
    assert told(receiver, second).samples == 1
    told(receiver, [(labels("DCGM_FI_DEV_GPU_UTIL"), [(at + 2 * STEP, 30.0)])])
    assert stored(writer) == [(0.2,), (0.3,)]


def test_what_was_refused_is_stored_with_what_comes_after_it(receiver: Receiver, writer: Refusing) -> None:
    """A sender may give up on a request; we need not."""
    at = began()
    series = labels("DCGM_FI_DEV_GPU_UTIL")
    told(receiver, [(series, [(at, 10.0)])])
    writer.refusing = True
    with pytest.raises(BatchError):
        told(receiver, [(series, [(at + STEP, 20.0)])])
    writer.refusing = False
    told(receiver, [(series, [(at + 2 * STEP, 30.0)])])
    assert sorted(stored(writer)) == [(0.2,), (0.3,)]


def test_a_part_that_comes_too_late_is_said_to_be_lost(receiver: Receiver, writer: Refusing) -> None:
    """Its row is stored without it; to answer that it was written would be a lie."""
    at = began()
    for number in range(2):
        told(receiver, [(labels("DCGM_FI_DEV_GPU_UTIL"), [(at + number * STEP, 10.0)])])
    late = told(receiver, [(labels("DCGM_FI_DEV_GPU_TEMP"), [(at + STEP, 60.0)])])
    assert (late.samples, late.refused) == (0, 1)
    assert receiver.counts.late == 1


def test_stopping_leaves_nobody_waiting(writer: Refusing) -> None:
    """What came is put together, and its senders are answered."""
    receiver = Receiver(writer, Limits(1000, 3600.0), Clusters())
    receiver.start()
    at = began()
    answers = [
        receiver.take(content(V1, [(labels("DCGM_FI_DEV_GPU_UTIL"), [(at + number * STEP, 1.0)])]), V1)
        for number in range(2)
    ]
    threading.Timer(0.2, receiver.stop).start()
    assert [answer.result(PATIENCE_SECONDS).samples for answer in answers] == [1, 1]
    with pytest.raises(BatchError):
        receiver.take(b"", V1)


def test_a_silent_target_is_forgotten(writer: Refusing) -> None:
    """Pods come and go: their last values are not kept for ever."""
    now = [0.0]
    receiver = Receiver(writer, Limits(2, 0.0), Clusters(), clock=lambda: now[0])
    receiver.start()
    at = began()
    try:
        for host in range(5):
            series = labels("DCGM_FI_DEV_GPU_UTIL", node=f"n{host}")
            assert told(receiver, [(series, [(at, 1.0)]), (series | {"UUID": "GPU-9"}, [(at, 1.0)])]).refused == 0
            assert receiver.series <= 2
            now[0] += 601.0
    finally:
        receiver.stop()


@pytest.mark.parametrize("wait", [0.0, 5.0])
def test_a_whole_scrape_does_not_wait(writer: Refusing, wait: float) -> None:
    """Senders are answered when all has come that came the last time, not when patience ends."""
    clock: Callable[[], float] = lambda: 0.0  # noqa: E731 - a clock that stands still
    receiver = Receiver(writer, Limits(1000, wait), Clusters(), clock=clock)
    receiver.start()
    at = began()
    series = labels("DCGM_FI_DEV_GPU_UTIL")
    first = receiver.take(content(V1, [(series, [(at, 1.0)])]), V1)
    if wait:
        for _ in range(2):  # each is answered while it reads: between the two all was put together that is whole
            assert told(receiver, []).samples == 0
        assert not first.done()  # what comes of a new target nobody knows, so it waits
        receiver.stop()
        return
    assert first.result(PATIENCE_SECONDS).samples == 1
    assert told(receiver, [(series, [(at + STEP, 2.0)])]).samples == 1
    receiver.stop()


@pytest.mark.parametrize("seed", range(4))
def test_no_request_ends_the_receiver(receiver: Receiver, writer: Refusing, seed: int) -> None:
    """A daemon does not die of bad input, and stores nothing that cannot be true."""
    now = began()
    waiting = [receiver.take(sent, proto) for proto, sent in requests(seed, now, 300)]
    for answer in waiting:
        assert isinstance(answer.exception(PATIENCE_SECONDS), BatchError | None)
    assert told(receiver, []).samples == 0
    with writer._store.session() as session:
        for name, table in TABLES.items():
            for batch in session.arrow(f"SELECT * EXCLUDE (batch) FROM {name}").to_batches():
                broken = [(rule.column, rule.says) for rule, _ in faults(table, batch, Clock(now * 2000, now * 2000))]
                assert broken == [], name


@pytest.mark.parametrize("seed", range(2))
def test_no_answer_is_misunderstood(seed: int) -> None:
    """What answers at an address may be anything; it is read, or refused in a sentence."""
    for said in answers(seed, 500):
        for read in (matrix, exported_samples):
            try:
                found = read(said)
            except ServerError:
                continue
            assert sum(found.lengths) == len(found.times) == len(found.values)
