"""The queue between many requests and one writer: bounded in batches and in bytes."""

import threading
import time
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from collector.errors import BatchError
from collector.pipeline.decoding.batch import Batch

if TYPE_CHECKING:
    from collector.pipeline.batch_commit import Receipt


@dataclass(frozen=True, slots=True, eq=False)
class Delivery:
    """A batch on its way into the store, and the promise of its receipt."""

    batch: Batch
    size: int  # bytes that it holds in memory
    epoch: int | None = None  # of its stream, as the sender says
    receipt: "Future[Receipt]" = field(default_factory=Future)


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
                raise BatchError(503, "stopping", "the collector is stopping; send the batch again in a moment")
            # One batch always fits an empty queue, or a bound below its size would refuse it for ever.
            over = self._bytes + delivery.size > self._max_bytes and self._waiting
            if over or len(self._waiting) >= self._max_batches:
                raise BatchError(429, "busy", "the collector has more batches waiting than it may hold; send it later")
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
