"""From a beat to the spool: drafts, and the thread that writes them while no beat waits."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.delivery.batch import Batcher, Draft, Scribe
from agent.errors import EnvelopeError
from agent.sampling.sampler import Stamped
from agent.source import Value
from agent.spool.queue import Spool, open_spool
from agent.spool.segment_store import SegmentStore
from agent.spool.segment_store import rows_of as rows_in
from agent.wire.envelope import header_of, open_envelope
from tests.agent.batches import batch, identity, rows_of
from tests.fake_clock import FakeClock
from tests.waiting import PATIENCE_SECONDS

LARGE = 10**7


def row(**values: Value) -> dict[str, Value]:
    """Return a row of agent_samples."""
    return {"node": "n14", "started_at": 1, "ended_at": 2, **values}


def draft(**values: Value) -> Draft:
    """Return a draft of one row."""
    return Draft("n14", FakeClock(), {"agent_samples": [row(**values)], "host_samples": []})


class Hanging(SegmentStore):
    """A disk that answers only when it is let go."""

    go = threading.Event()
    asked = threading.Event()

    def write(self, sequence: int, body: bytes) -> None:
        """Wait, then write."""
        self.asked.set()
        self.go.wait(PATIENCE_SECONDS)
        super().write(sequence, body)


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    """Return a spool on a disk that hangs."""
    Hanging.go.clear()
    Hanging.asked.clear()
    queue = Spool(Hanging(tmp_path / "spool"), LARGE, LARGE)
    yield queue
    Hanging.go.set()
    queue.close()


def test_a_draft_knows_its_rows_and_what_it_tells() -> None:
    """The range that a row speaks of is told as soon as the batch with the row has arrived."""
    assert draft().rows == {"agent_samples": 1}
    assert draft().tells == []
    assert draft(dropped_from=3, dropped_until=9).tells == [(3, 9)]
    header, _ = open_envelope(draft()("stream", 5))
    assert (header.stream, header.sequence, header.agent) == ("stream", 5, "n14")


def test_no_beat_waits_for_a_disk(spool: Spool) -> None:
    """While a checkpoint floods the disk a sync takes seconds: what is asked at every beat must not hang on it."""
    scribe = Scribe(spool)
    scribe.start()
    assert all(scribe.append(draft(gaps=number)) for number in range(5))
    assert (spool.waiting, spool.waiting_bytes, spool.dropped, spool.untold_loss) == (0, 0, 0, None)
    Hanging.go.set()
    scribe.close(PATIENCE_SECONDS)
    found = []
    while (one := spool.oldest(0)) is not None:
        spool.acknowledge(one[0], one[0])
        found.append((identity(one[1])[1], rows_of(one[1], "agent_samples")[0]["gaps"]))
    assert found == [(number, number) for number in range(5)], "in order"


def test_a_disk_that_hangs_for_long_costs_rows_that_are_counted(spool: Spool, caplog: pytest.LogCaptureFixture) -> None:
    """A queue without a bound would take the host's memory in the end; and one line says it, not one a beat."""
    scribe = Scribe(spool, most_waiting=2)
    scribe.start()
    assert scribe.append(draft())
    assert Hanging.asked.wait(PATIENCE_SECONDS), "that one is in the writer's hand"
    assert [scribe.append(draft()) for _ in range(9)] == [True] * 2 + [False] * 7
    assert (spool.dropped, spool.dropped_rows) == (7, {"agent_samples": 7})
    assert sum("is not responding" in record.message for record in caplog.records) == 1
    scribe.close(0.01)
    assert spool.waiting == 0, "and the end of the agent does not wait for it either"
    Hanging.go.set()
    scribe.close(PATIENCE_SECONDS)


def test_rows_that_cannot_be_encoded_stop_no_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """They are our mistake; the next batch is none."""
    queue = open_spool(tmp_path / "spool", LARGE, LARGE, sync=False)
    scribe = Scribe(queue)
    scribe.start()
    scribe.append(draft(colour="red"))
    scribe.append(draft())
    scribe.close(PATIENCE_SECONDS)
    assert (queue.waiting, queue.dropped_rows) == (1, {"agent_samples": 1})
    assert "BUG" in caplog.text
    queue.close()


def test_a_batch_holds_as_much_time_as_it_should() -> None:
    """And nothing at all is no batch."""
    clock, drafts = FakeClock(), list[Draft]()

    def append(one: Draft) -> bool:
        drafts.append(one)
        return True

    batcher = Batcher("n14", clock, 10.0, append)
    for beat in range(25):
        clock.advance(1_000_000)
        tables: dict[str, list[dict[str, Value]]] = {"agent_samples": [row()]} if beat < 20 else {}
        batcher.add([Stamped("agent", 1, 1, 2, tables)])
    batcher.seal()
    assert [one.rows["agent_samples"] for one in drafts] == [10, 10]


def test_the_rows_of_a_batch_are_counted_by_its_header_alone() -> None:
    """A batch that is dropped is not unpacked, and one with a damaged tail still says what it held."""
    body = batch("stream", 7, rows=500)
    assert rows_in(body) == {"host_samples": 500}
    assert header_of(body[:-4] + b"\0\0\0\0").sequence == 7, "its checksum is wrong"
    assert rows_in(b"junk") == {}


@given(st.binary(max_size=300), st.integers(0, 300))
def test_no_bytes_break_the_reading_of_a_header(noise: bytes, at: int) -> None:
    """Whatever lies in the spool: a header, or a sentence."""
    body = batch("stream", 7)
    for content in (noise, body[:at], body[:at] + noise):
        try:
            header = header_of(content)
        except EnvelopeError:
            continue
        assert header.stream
