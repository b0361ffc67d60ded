"""A batch counts once, however often, from wherever and however simultaneously it is delivered."""

from concurrent.futures import ThreadPoolExecutor

from collector.config import CollectorConfig
from collector.errors import BatchError
from collector.pipeline.batch_commit import BatchCommit, Receipt
from collector.pipeline.decoding.batch import decode
from collector.store.database import Store
from tests.collector.batches import NOW, STREAM, body, gpu_rows
from tests.collector.serving import Running, running


def test_a_batch_is_there_when_it_is_acknowledged(collector: Running) -> None:
    """The agent may forget what was acknowledged, so it must be in the store by then, under its own numbers."""
    answer = collector.client.post(body(sequence=7))
    assert answer.status == 200
    assert {"sequence": 7, "sealed_through": 7}.items() <= answer.json.items()
    assert answer.json["server_time"] > NOW
    assert (collector.count("gpu_samples"), collector.count("host_samples"), collector.count("receipts")) == (2, 1, 1)


def test_the_same_batch_again_counts_once(collector: Running) -> None:
    """An answer that was lost on the way makes the agent send again; nothing may be added then."""
    answers = [collector.client.post(body()) for _ in range(3)]
    assert [answer.status for answer in answers] == [200, 200, 200]
    assert {answer.json["sequence"] for answer in answers} == {1}
    assert collector.count("gpu_samples") == 2


def test_a_number_used_for_another_batch_is_a_conflict(collector: Running) -> None:
    """A host restored from an image counts on from an old number; its batches must be neither lost nor mixed up."""
    collector.client.post(body())
    answer = collector.client.post(body(tables={"gpu_samples": gpu_rows(5)}))
    assert (answer.status, answer.json["reason"]) == (409, "conflict")
    assert collector.count("gpu_samples") == 2


def test_many_threads_sending_the_same_batch_at_once_count_once(collector: Running) -> None:
    """An agent whose request timed out sends again while the first is still on its way."""
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: collector.client.post(body()), range(16)))
    assert {answer.status for answer in answers} == {200}
    assert (collector.count("gpu_samples"), collector.count("receipts")) == (2, 1)


def test_two_batches_with_one_number_at_once_leave_one_and_a_conflict(collector: Running) -> None:
    """Two hosts cloned from one image race; whichever comes first wins, and the other is told."""
    bodies = [body(tables={"gpu_samples": gpu_rows(count)}) for count in (1, 3)]
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(collector.client.post, bodies))
    assert sorted(answer.status for answer in answers) == [200, 409]
    assert collector.count("gpu_samples") == (1 if answers[0].status == 200 else 3)


def test_a_restarted_collector_remembers(config: CollectorConfig) -> None:
    """What makes a batch count once lies in the store and not in memory."""
    with running(config) as first:
        first.client.post(body(sequence=3))
    with running(config) as second:
        assert second.client.post(body(sequence=3)).json["sealed_through"] == 3
        assert second.client.post(body(sequence=3, tables={"host_samples": []})).status == 409
        assert second.client.post(body(sequence=2)).json["sealed_through"] == 3
        assert second.count("gpu_samples") == 4


def test_sealed_through_passes_over_gaps() -> None:
    """What a full spool dropped never comes, so waiting for it would fill the spool again with what is safe here."""
    with Store.open(None) as store, BatchCommit(store) as batch_commit:
        (receipt,) = batch_commit.land([decode(body(sequence=9), NOW)])
        assert receipt == Receipt(sequence=9, sealed_through=9, repeated=False)


def test_one_group_may_hold_a_batch_twice_and_a_conflict() -> None:
    """A group is whatever gathered while the last one was committed: nothing says that its batches differ."""
    with Store.open(None) as store, store.session() as session:
        batches = [decode(body(), NOW), decode(body(), NOW), decode(body(tables={"gpu_samples": gpu_rows(9)}), NOW)]
        with BatchCommit(store) as batch_commit:
            first, second, third = batch_commit.land(batches)
        assert isinstance(first, Receipt)
        assert not first.repeated
        assert isinstance(second, Receipt)
        assert second.repeated
        assert isinstance(third, BatchError)
        assert third.status == 409
        assert session.row("SELECT count(*) FROM gpu_samples") == (2,)


def test_every_row_carries_the_number_of_its_batch() -> None:
    """Readers ask for what came after a batch, so the numbers rise and every row has the one of its receipt."""
    with Store.open(None) as store, store.session() as session, BatchCommit(store) as batch_commit:
        batch_commit.land([decode(body(sequence=1), NOW), decode(body(sequence=2), NOW)])
        batch_commit.land([decode(body(sequence=1, stream="another"), NOW)])
        taken = session.rows("SELECT batch, stream, sequence FROM receipts ORDER BY batch")
        assert [(stream, sequence) for _, stream, sequence in taken] == [(STREAM, 1), (STREAM, 2), ("another", 1)]
        assert session.rows("SELECT batch, count(*) FROM gpu_samples GROUP BY batch ORDER BY batch") == [
            (batch, 2) for batch, _, _ in taken
        ]


def test_more_streams_than_are_remembered_still_count_once() -> None:
    """Memory is bounded against senders that make up streams; what is forgotten is looked up again."""
    with Store.open(None) as store, store.session() as session, BatchCommit(store, max_streams=3) as batch_commit:
        for _ in range(2):
            for stream in range(10):
                batch_commit.land([decode(body(stream=f"stream-{stream}"), NOW)])
        assert session.row("SELECT count(*) FROM receipts") == (10,)
