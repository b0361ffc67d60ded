"""A collector that cannot keep up says so; it neither grows nor forgets."""

import http.client
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from collector.config import CollectorConfig
from collector.errors import BatchError
from collector.pipeline.decoding.batch import Batch, decode
from collector.pipeline.writer import BatchQueue, Writer
from tests.collector.batches import NOW, body, gpu_rows
from tests.collector.serving import Answer, Client, running
from tests.waiting import PATIENCE_SECONDS, until


def _batch(sequence: int = 1, rows: int = 2) -> Batch:
    return decode(body(sequence, {"gpu_samples": gpu_rows(rows)}), NOW)


def test_a_full_queue_is_429_and_holds_no_more() -> None:
    """Memory is bounded in batches: what is told to come later is not kept."""
    intake = BatchQueue(max_batches=3, max_bytes=10**9)
    for sequence in range(3):
        intake.put(_batch(sequence))
    for sequence in range(3, 100):
        with pytest.raises(BatchError) as refused:
            intake.put(_batch(sequence))
        assert (refused.value.status, refused.value.reason) == (429, "busy")
    assert intake.batches == 3


def test_the_queue_is_bounded_in_bytes_too() -> None:
    """Few large batches are as heavy as many small ones."""
    batches = [_batch(sequence) for sequence in range(6)]
    bound = sum(batch.byte_count for batch in batches[:5])
    intake = BatchQueue(max_batches=1000, max_bytes=bound)
    for batch in batches[:5]:
        intake.put(batch)
    with pytest.raises(BatchError):
        intake.put(batches[5])
    assert intake.bytes == bound
    assert len(intake.take(0, 10**6)) == 5
    assert intake.bytes == 0


def test_one_batch_always_fits_an_empty_queue() -> None:
    """A batch above the queue's bound but below the body's would otherwise be told to come later for ever."""
    intake = BatchQueue(max_batches=10, max_bytes=1)
    intake.put(_batch())
    assert intake.batches == 1


def test_a_group_is_bounded_in_rows_but_never_empty() -> None:
    """A transaction must end; yet a batch larger than the bound has to go through alone."""
    intake = BatchQueue(max_batches=100, max_bytes=10**9)
    for sequence, rows in enumerate((50, 2, 2, 2)):
        intake.put(_batch(sequence, rows))
    assert [len(intake.take(0, 4)) for _ in range(3)] == [1, 2, 1]


def test_a_closed_queue_drains_and_takes_no_more() -> None:
    """A stop loses nothing that was taken, and answers 503 to what comes after."""
    intake = BatchQueue(max_batches=100, max_bytes=10**9)
    intake.put(_batch())
    intake.close()
    with pytest.raises(BatchError) as refused:
        intake.put(_batch(2))
    assert refused.value.status == 503
    assert len(intake.take(60, 100)) == 1
    assert intake.take(60, 100) == []


class Held(Writer):
    """A writer that begins only when it is let go, as one behind a slow disk."""

    def start(self) -> None:
        """Do not begin yet."""

    def let_go(self) -> None:
        """Begin."""
        super().start()


def test_a_full_queue_is_429_over_http_with_the_time_to_come_again(config: CollectorConfig) -> None:
    """429 without Retry-After makes every agent guess; and what was already taken must still be committed."""
    with running(replace(config, queue_batches=2), Held) as serving, ThreadPoolExecutor(2) as pool:
        assert isinstance(serving.writer, Held)
        taken = [pool.submit(serving.client.post, body(sequence)) for sequence in (1, 2)]
        answer = _first_refusal(serving.client)
        assert (answer.status, answer.json["reason"]) == (429, "busy")
        assert 2 <= int(answer.headers["retry-after"]) <= 4
        assert "gpuledger_collector_queue_depth 2.0" in serving.client.get("/metrics").text
        serving.writer.let_go()
        assert {future.result().status for future in taken} == {200}
        assert serving.count("receipts") == 2


def _first_refusal(client: Client) -> Answer:
    """Wait until both places of the queue are taken, then send one batch more."""
    until(lambda: "queue_depth 2.0" in client.get("/metrics").text, "the queue is full")
    return client.post(body(3))


def test_too_many_batches_arriving_at_once_are_429(config: CollectorConfig) -> None:
    """Bodies that are still arriving take memory too, before any queue sees them."""
    with running(replace(config, arriving_bytes=1, body_seconds=PATIENCE_SECONDS)) as serving:
        answer = _second_of_two_at_once(serving.client)
        assert answer[0] == 429
        assert 2 <= int(answer[1]) <= 4
        assert 'batches_total{result="busy"} 1.0' in serving.client.get("/metrics").text


def _second_of_two_at_once(client: Client) -> tuple[int, str]:
    """Begin one batch without ending it, and send another meanwhile."""
    first = http.client.HTTPConnection("127.0.0.1", client.port, timeout=PATIENCE_SECONDS)
    first.putrequest("POST", "/v1/batches")
    first.putheader("Content-Type", "application/vnd.gpuledger.batch")
    first.putheader("Content-Length", "1000")
    first.endheaders(b"begun")

    def refused() -> Answer | None:
        answer = client.post(body())
        return answer if answer.status != 200 else None  # the first had not been seen yet

    answer = until(refused, "the second is refused")
    first.close()
    return answer.status, answer.headers["retry-after"]


def test_who_dawdles_is_told_and_let_go(config: CollectorConfig) -> None:
    """A batch that never ends would hold one of few places for ever."""
    with running(replace(config, body_seconds=0.2)) as serving:
        slow = http.client.HTTPConnection("127.0.0.1", serving.client.port, timeout=PATIENCE_SECONDS)
        slow.putrequest("POST", "/v1/batches")
        slow.putheader("Content-Type", "application/vnd.gpuledger.batch")
        slow.putheader("Content-Length", "1000")
        slow.endheaders(b"begun")
        answer = slow.getresponse()
        assert (answer.status, answer.getheader("connection")) == (408, "close")
        slow.close()
