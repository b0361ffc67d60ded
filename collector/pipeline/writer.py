"""One thread that writes: it commits what has gathered, and only then are the senders answered.

The queue between many requests and it is bounded in batches and in bytes. Its answers wake the event loop once for a
whole commit.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from collector.background import IS_OWN_SENDER, ProvenClock
from collector.config import CollectorConfig
from collector.errors import BatchError, RegistryError, StoreError
from collector.pipeline.batch_commit import BatchCommit, Receipt
from collector.pipeline.decoding.batch import Batch
from collector.pipeline.metrics import Metrics
from collector.store.database import Store
from collector.store.seal_mark import Mark

if TYPE_CHECKING:
    from collector.registry.tenant import Tenant


@dataclass(frozen=True, slots=True, eq=False)
class Delivery:
    """A batch on its way into the store, and the promise of its receipt."""

    batch: Batch
    size: int  # bytes that it holds in memory
    epoch: int | None = None  # of its stream, as the sender says
    receipt: Future[Receipt] = field(default_factory=Future)


class BatchQueue:
    """Deliveries that wait for the writer."""

    def __init__(self, max_batches: int, max_bytes: int) -> None:
        self._max_batches = max_batches
        self._max_bytes = max_bytes
        self._waiting: deque[Delivery] = deque()
        self._bytes = 0
        self._closed = False
        self._expected = 1  # deliveries in the next group: as many as there were in the last
        self._taken_at = 0.0  # the last group
        self._changed = threading.Condition()

    def put(self, batch: Batch, epoch: int | None = None) -> Delivery:
        """Add a batch.

        Raises:
            BatchError: 429, too much is waiting already; 503, the collector is stopping.
        """
        delivery = Delivery(batch, batch.byte_count, epoch)
        with self._changed:
            if self._closed:
                raise BatchError(503, "stopping", "the collector is stopping; retry in a few seconds")
            # One batch always fits an empty queue, or a bound below its size would refuse it for ever.
            over = self._bytes + delivery.size > self._max_bytes and self._waiting
            if over or len(self._waiting) >= self._max_batches:
                raise BatchError(429, "busy", "the collector's queue of batches is full; retry in a few seconds")
            self._waiting.append(delivery)
            self._bytes += delivery.size
            self._changed.notify()
        return delivery

    def take(self, gather_seconds: float, max_rows: int) -> list[Delivery]:
        """Wait for deliveries and return a group of them, so long after the last; empty when closed and drained."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            self._gather(gather_seconds)
            group: list[Delivery] = []
            rows = 0
            while self._waiting and (not group or rows + self._waiting[0].batch.row_count <= max_rows):
                delivery = self._waiting.popleft()
                rows += delivery.batch.row_count
                self._bytes -= delivery.size
                group.append(delivery)
            self._expected, self._taken_at = len(group), time.monotonic()
            return group

    def close(self) -> None:
        """Take no more; what waits will still be taken."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @property
    def batches(self) -> int:
        """How many deliveries wait."""
        return len(self._waiting)

    @property
    def bytes(self) -> int:
        """How much memory they hold, in bytes."""
        return self._bytes

    def _gather(self, seconds: float) -> None:
        """Let a group grow to the size of the last: a commit costs nearly the same for one batch as for a hundred.

        Senders answer an answer with their next batch, so as many are on their way as were answered last, and who waits
        for more waits for nothing. Waited is only until so long after the last group was taken: if all were waited for,
        all would be answered together, and either the decoding or the commits would always rest.
        """
        until = self._taken_at + seconds
        wanted = min(self._expected, self._max_batches)
        while not self._closed and len(self._waiting) < wanted and (left := until - time.monotonic()) > 0:
            self._changed.wait(left)


class Answers:
    """Receipts on their way to one event loop. Made within it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._done: deque[tuple[asyncio.Future[Receipt], Future[Receipt]]] = deque()
        self._is_woken = False

    async def of(self, receipt: Future[Receipt], seconds: float) -> Receipt:
        """Wait for the writer's word on one batch.

        Raises:
            BatchError: the batch is refused.
            TimeoutError: nobody knows yet; the writer goes on with it.
        """
        promise: asyncio.Future[Receipt] = self._loop.create_future()
        receipt.add_done_callback(lambda done: self._put(promise, done))
        async with asyncio.timeout(seconds):
            return await promise

    def _put(self, promise: asyncio.Future[Receipt], done: Future[Receipt]) -> None:
        """Called by the writer. What is put before the loop has begun to hand out needs no wake-up of its own."""
        self._done.append((promise, done))
        if not self._is_woken and not self._loop.is_closed():
            self._is_woken = True
            self._loop.call_soon_threadsafe(self._hand_out)

    def _hand_out(self) -> None:
        self._is_woken = False  # first, so that whatever is put from here on wakes us again
        while self._done:
            promise, done = self._done.popleft()
            if promise.done():  # whoever waited has gone
                continue
            error = done.exception()
            if error is None:
                promise.set_result(done.result())
            else:
                promise.set_exception(error)


def unknown_yet(seconds: float) -> BatchError:
    """Return the answer to a batch of which the writer has not spoken within `seconds`."""
    return BatchError(
        503, "slow_commit", f"the batch was not committed within {seconds:g} s; send it again, it counts once"
    )


log = logging.getLogger(__name__)
# One agent whose clock is ahead is not believed alone, where there are others.
_NEWEST = f"""
SELECT agent, max(sent_at) AS sent_at FROM receipts WHERE batch > ? AND sent_at > 0 AND NOT {IS_OWN_SENDER}
GROUP BY agent ORDER BY sent_at DESC
"""


def clock_of(store: Store) -> ProvenClock:
    """Return a clock that begins with the newest batch that agents have sent."""
    with store.session() if store.hot is None else store.hot_session() as session:
        newest = [sent_at for (_, sent_at) in session.rows(f"{_NEWEST} LIMIT 3", [0])]
    return ProvenClock(newest[1 if len(newest) > 2 else 0] if newest else None)


def following(store: Store) -> Callable[[], int]:
    """Return the time of a clock that hears what others have sealed, for who takes no batches itself."""
    clock, last = clock_of(store), 0

    def now() -> int:
        nonlocal last
        with store.session() as session:
            (newest,) = session.row("SELECT coalesce(max(batch), 0) FROM receipts")
            for agent, sent_at in session.rows(_NEWEST, [last]) if last else ():
                clock.heard(agent, sent_at)
        last = newest
        return clock.now()

    return now


class Writer:
    """Group commit: durable before the answer, and one sync to disk for all that wait."""

    def __init__(
        self,
        store: Store,
        config: CollectorConfig,
        metrics: Metrics | None = None,
        tenant: "Tenant | None" = None,
    ) -> None:
        self.metrics = metrics or Metrics()
        self.tenant = tenant
        self.mark = Mark.of(store, tenant.number) if tenant is not None else Mark.of(store)
        self.clock = clock_of(store)
        self._store = store
        self._config = config
        self._batch_queue = BatchQueue(config.queue_batches, config.queue_bytes)
        self.keeps_bodies = store.lake is not None  # and reads their rows again when it seals
        self._failing: str | None = None
        self._ended = False
        self.committed: Callable[[int], None] = lambda _: None  # told how many rows each commit had
        self._thread = threading.Thread(target=self._run, name="collector-writer", daemon=True)
        self.metrics.watch("queue_depth", "Batches waiting to be committed.", lambda: self._batch_queue.batches)
        self.metrics.watch("queue_bytes", "Bytes of batches waiting to be committed.", lambda: self._batch_queue.bytes)
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
                    BatchError(503, "stopping", "the collector has stopped writing; retry later")
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
                delivery.receipt.set_exception(
                    BatchError(503, "registry", f"which collector it belongs to is not known: {error}")
                )
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
                answer = BatchError(503, "store", "the store did not accept the batch; it is safe to send it again")
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
            log.warning("the store accepts batches again")
        self._failing = None
        for delivery, answer in zip(group, answers, strict=True):
            self._answer(delivery, answer)

    def _answer(self, delivery: Delivery, answer: Receipt | BatchError) -> None:
        if isinstance(answer, BatchError):
            delivery.receipt.set_exception(answer)
            return
        self.metrics.agents.heard(delivery.batch.header.agent, delivery.batch.received_at)
        self.clock.heard(delivery.batch.header.agent, delivery.batch.header.sent_at)
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
