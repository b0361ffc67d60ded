"""One thread that writes: it commits what has gathered, and only then are the senders answered."""

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING

from collector.errors import BatchError, RegistryError, StoreError
from collector.metrics.metrics import Metrics
from collector.pipeline.batch_commit import BatchCommit, Receipt
from collector.pipeline.batch_queue import BatchQueue, Delivery
from collector.pipeline.decoding.batch import Batch
from collector.store.seal_mark import Mark

if TYPE_CHECKING:
    from collector.config import CollectorConfig
    from collector.store.database import Store
    from collector.tenancy.tenant import Tenant

log = logging.getLogger(__name__)


class Writer:
    """Group commit: durable before the answer, and one sync to disk for all that wait."""

    def __init__(
        self,
        store: "Store",
        config: "CollectorConfig",
        metrics: Metrics | None = None,
        tenant: "Tenant | None" = None,
    ) -> None:
        self.metrics = metrics or Metrics()
        self.tenant = tenant
        self.mark = Mark.of(store, tenant.number) if tenant is not None else Mark.of(store)
        self._store = store
        self._config = config
        self._batch_queue = BatchQueue(config.queue_batches, config.queue_bytes)
        self.keeps_bodies = store.lake is not None  # and reads their rows again when it seals
        self._failing: str | None = None
        self._ended = False
        self.committed: Callable[[int], None] = lambda _: None  # told how many rows each commit had
        self._thread = threading.Thread(target=self._run, name="collector-writer", daemon=True)
        self.metrics.watch("queue_depth", "Batches that wait to be committed.", lambda: self._batch_queue.batches)
        self.metrics.watch("queue_bytes", "Bytes that they hold.", lambda: self._batch_queue.bytes)
        self.metrics.watch("store_bytes", "Size of the store's file and its log.", store.size_bytes)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def close(self) -> None:
        """Commit what waits, then stop."""
        self._batch_queue.close()
        if self._thread.ident is not None:
            self._thread.join()

    def submit(self, batch: Batch, epoch: int | None = None) -> Future[Receipt]:
        """Queue a batch, under the epoch that its sender says.

        The future holds its receipt once it is durable, or the BatchError of its refusal.

        Raises:
            BatchError: 429, the queue is full; 503, the writer is stopping.
        """
        return self._batch_queue.put(batch, epoch).receipt

    @property
    def failing(self) -> str | None:
        """The sentence of the last commit's failure; None where it went well."""
        return self._failing

    @property
    def has_ended(self) -> bool:
        """Whether nothing will be written any more: it was closed, or has come to grief."""
        return self._ended

    @property
    def waiting(self) -> tuple[int, int]:
        """Batches that wait to be committed, and the bytes that they hold."""
        return self._batch_queue.batches, self._batch_queue.bytes

    def _run(self) -> None:
        try:
            with BatchCommit(self._store, self.mark, shared=self.tenant is not None) as batch_commit:
                while group := self._batch_queue.take(self._config.gather_seconds, self._config.group_rows):
                    if ours := self._ours(batch_commit, group):
                        self._commit(batch_commit, ours)
        finally:
            self._end()

    def _end(self) -> None:
        """Leave nobody waiting, even where this thread ends by a mistake of ours; /healthz then says so."""
        self._batch_queue.close()
        self._ended = True
        self._failing = "the writer has stopped"
        while group := self._batch_queue.take(0, 1):
            for delivery in group:
                delivery.receipt.set_exception(
                    BatchError(503, "stopping", "the collector has stopped writing; send it later")
                )

    def _ours(self, batch_commit: BatchCommit, group: list[Delivery]) -> list[Delivery]:
        """Return those whose streams are ours, and tell the senders of the others where theirs belong."""
        if self.tenant is None:
            return group
        try:
            judged = self.tenant.judge([(delivery.batch.header.stream, delivery.epoch) for delivery in group])
            batch_commit.take_over(judged.acquired)
        except (RegistryError, StoreError) as error:
            for delivery in group:
                delivery.receipt.set_exception(BatchError(503, "registry", f"nobody can say whose it is: {error}"))
            return []
        for delivery, answer in zip(group, judged.answers, strict=True):
            if answer is not None:
                delivery.receipt.set_exception(answer)
        return [delivery for delivery, answer in zip(group, judged.answers, strict=True) if answer is None]

    def _commit(self, batch_commit: BatchCommit, group: list[Delivery]) -> None:
        """Commit a group; where the store refuses it, one by one, so that one batch cannot take others with it."""
        try:
            self._land(batch_commit, group)
        except StoreError as error:
            self._failed(error)
            if len(group) == 1:
                answer = BatchError(503, "store", "the store did not take the batch; it is safe to send it again")
                group[0].receipt.set_exception(answer)
                return
            for delivery in group:
                self._commit(batch_commit, [delivery])

    def _land(self, batch_commit: BatchCommit, group: list[Delivery]) -> None:
        began = time.monotonic()
        answers = batch_commit.land([delivery.batch for delivery in group])
        if any(isinstance(answer, Receipt) and not answer.repeated for answer in answers):
            self.metrics.commit_seconds.observe(time.monotonic() - began)
            self.metrics.last_commit.set_to_current_time()
            self.committed(sum(delivery.batch.row_count for delivery in group))
        self.metrics.quarantine_dropped.inc(batch_commit.dropped())
        if self._failing:
            log.warning("the store takes batches again")
        self._failing = None
        for delivery, answer in zip(group, answers, strict=True):
            self._answer(delivery, answer)

    def _answer(self, delivery: Delivery, answer: Receipt | BatchError) -> None:
        if isinstance(answer, BatchError):
            delivery.receipt.set_exception(answer)
            return
        self.metrics.agents.heard(delivery.batch.header.agent, delivery.batch.received_at)
        if not answer.repeated:
            for name, rows in delivery.batch.row_counts.items():
                self.metrics.rows.labels(name).inc(rows)
            for name, rows in delivery.batch.quarantined.items():
                self.metrics.quarantined.labels(name).inc(rows)
        delivery.receipt.set_result(answer)

    def _failed(self, error: StoreError) -> None:
        self.metrics.commit_failures.inc()
        if self._failing is None:
            log.error("the store refuses batches: %s", error)
        self._failing = str(error)
