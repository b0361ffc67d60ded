"""The writer answers everyone: when it commits, when the store refuses, and when it ends."""

from typing import TYPE_CHECKING

import pytest

from collector.config import CollectorConfig
from collector.errors import BatchError
from collector.pipeline.decoding.batch import decode
from collector.pipeline.writer import Writer
from collector.store.database import Store
from collector.store.session import Session
from tests.collector.batches import NOW, body
from tests.collector.serving import running
from tests.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from concurrent.futures import Future

    from collector.pipeline.batch_commit import Receipt


class TornStore(Store):
    """A store one of whose tables is gone, as a full disk or a broken file would have it."""

    def tear(self) -> None:
        """Lose the table host_samples."""
        with self.session() as session:
            session.execute("ALTER TABLE host_samples RENAME TO elsewhere")

    def mend(self) -> None:
        """Get it back."""
        with self.session() as session:
            session.execute("ALTER TABLE elsewhere RENAME TO host_samples")


def _submit(writer: Writer, sequence: int, *tables: str) -> "Future[Receipt]":
    whole = decode(body(sequence), NOW)
    kept = {name: rows for name, rows in whole.tables.items() if name in tables}
    return writer.submit(type(whole)(whole.header, whole.body_hash, NOW, kept, 1))


def test_a_refusing_store_is_503_and_takes_no_others_with_it(config: CollectorConfig) -> None:
    """A group shares one transaction; where it fails each batch is tried alone, and only the guilty hears 503."""
    with TornStore.open(config.store) as store:
        assert isinstance(store, TornStore)
        store.tear()
        writer = Writer(store, config)
        good, bad, also_good = (
            _submit(writer, 1, "gpu_samples"),
            _submit(writer, 2, "host_samples"),
            _submit(writer, 3, "gpu_samples"),
        )
        writer.start()
        assert good.result(PATIENCE_SECONDS).sequence == 1
        with pytest.raises(BatchError) as refused:
            bad.result(PATIENCE_SECONDS)
        assert (refused.value.status, refused.value.reason) == (503, "store")
        assert also_good.result(PATIENCE_SECONDS).sealed_through == 3
        store.mend()
        assert _submit(writer, 2, "host_samples").result(PATIENCE_SECONDS).repeated is False
        assert writer.failing is None
        writer.close()
        with store.session() as session:
            assert session.row("SELECT count(*) FROM receipts") == (3,)
            assert session.row("SELECT count(*) FROM gpu_samples") == (4,)


def test_a_collector_whose_store_refuses_is_not_ready(config: CollectorConfig) -> None:
    """A balancer goes by /readyz; agents meanwhile hear 503 and keep their batches. A restart would mend nothing."""
    with running(config) as serving:
        assert serving.client.get("/readyz").status == 200
        with serving.store.session() as session:
            session.execute("DROP TABLE gpu_samples")
        answer = serving.client.post(body())
        assert (answer.status, answer.json["reason"]) == (503, "store")
        assert 2 <= int(answer.headers["retry-after"]) <= 4
        assert serving.client.get("/readyz").status == 503
        assert serving.client.get("/healthz").status == 200
        assert "gpuledger_collector_commit_failures_total 1.0" in serving.client.get("/metrics").text


def test_a_writer_that_ends_leaves_nobody_waiting(config: CollectorConfig) -> None:
    """Even where its thread cannot begin, whoever submitted gets an answer and not a silence."""

    class Closing(Store):
        is_closed = False

        def hot_session(self) -> Session:
            if self.is_closed:
                raise RuntimeError("no session")
            return super().hot_session()

    with Closing.open(config.store) as store:
        assert isinstance(store, Closing)
        writer = Writer(store, config)
        store.is_closed = True
        waiting = _submit(writer, 1, "gpu_samples")
        _run_quietly(writer)
        with pytest.raises(BatchError, match="stopped writing"):
            waiting.result(PATIENCE_SECONDS)
        assert writer.failing is not None


def _run_quietly(writer: Writer) -> None:
    with pytest.raises(RuntimeError):
        writer._run()


def test_what_waits_is_committed_before_the_writer_ends(config: CollectorConfig) -> None:
    """An orderly stop finishes what it took."""
    with Store.open(config.store) as store:
        writer = Writer(store, config)
        receipts = [_submit(writer, sequence, "gpu_samples") for sequence in range(20)]
        writer.start()
        writer.close()
        assert {receipt.result(0).sequence for receipt in receipts} == set(range(20))
