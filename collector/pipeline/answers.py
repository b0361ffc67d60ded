"""From the writer's thread to the requests that wait for it: one wake-up of the event loop for a whole commit."""

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from collector.errors import BatchError

if TYPE_CHECKING:
    from concurrent.futures import Future

    from collector.pipeline.batch_commit import Receipt


class Answers:
    """Receipts on their way to one event loop. Made within it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._done: deque[tuple[asyncio.Future[Receipt], Future[Receipt]]] = deque()
        self._is_woken = False

    async def of(self, receipt: "Future[Receipt]", seconds: float) -> "Receipt":
        """Wait for the writer's word on one batch.

        Raises:
            BatchError: the batch is refused.
            TimeoutError: nobody knows yet; the writer goes on with it.
        """
        promise: asyncio.Future[Receipt] = self._loop.create_future()
        receipt.add_done_callback(lambda done: self._put(promise, done))
        async with asyncio.timeout(seconds):
            return await promise

    def _put(self, promise: "asyncio.Future[Receipt]", done: "Future[Receipt]") -> None:
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
