"""How much may come in: bodies on their way, and what one agent may send.

Bodies are so large, so slow and so many at once, and no more. A body is counted from its first byte until its batch
stands in the queue, which has bounds of its own: else a thousand large ones that wait to be decoded would be in
nobody's account. Where senders have keys of their own, none may take more than its share of what all may hold: a few
slow bodies of one host must not keep the others out.

An agent may send so many batches and bytes a second, with room for the rush after an outage. It sends its next batch
when the last was answered, so an honest one stays far below. What the limit is for is the one that does not: a loop
that went wrong, a host cloned a hundred times, a spool replayed by hand. It is told to come later before its rows cost
anything, and the others notice nothing.
"""

import asyncio
import math
import random
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from starlette.types import Receive

from collector.errors import BatchError

_SHARES = 4  # so many hosts together may hold all


class Arriving:
    """What all bodies on their way in hold: `held` bytes. Use it in one event loop."""

    def __init__(self, body_bytes: int, all_bytes: int, seconds: float) -> None:
        self.body_bytes = body_bytes
        self.all_bytes = all_bytes
        self.seconds = seconds
        self.held = 0
        self._held_by: dict[str, int] = {}

    @contextmanager
    def place(self, sender: str | None = None) -> Iterator["IncomingBody"]:
        """Give a place to one body, until the end of the context. `sender` is known where it has a key of its own."""
        place = IncomingBody(self, sender)
        try:
            yield place
        finally:
            self.take(sender, -place.size)

    def take(self, sender: str | None, size: int) -> int:
        """Note that a sender holds so much more, and return how much it holds now; 0 where it is not known."""
        self.held += size
        if sender is None:
            return 0
        held = self._held_by.pop(sender, 0) + size
        if held:
            self._held_by[sender] = held
        return held


class IncomingBody:
    """One body on its way in."""

    def __init__(self, arriving: Arriving, sender: str | None) -> None:
        self._arriving = arriving
        self._sender = sender
        self.size = 0

    async def body(self, headers: Mapping[bytes, bytes], receive: Receive) -> bytes:
        """Return the body, never holding more of it than is allowed.

        Raises:
            BatchError: 413 it is too large, 408 too slow, 429 too much is on its way, 400 its sender has gone.
        """
        declared = headers.get(b"content-length", b"")
        if declared.isdigit() and int(declared[:20]) > self._arriving.body_bytes:
            raise self._too_large()
        try:
            async with asyncio.timeout(self._arriving.seconds):
                return await self._read(receive)
        except TimeoutError as error:
            sentence = f"the batch took more than {self._arriving.seconds:g} s to arrive"
            raise BatchError(408, "slow", sentence) from error

    async def _read(self, receive: Receive) -> bytes:
        chunks: list[bytes] = []
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise BatchError(400, "disconnected", "the sender disconnected before the whole batch had arrived")
            chunks.append(message.get("body", b""))
            self._take(len(chunks[-1]))
            if not message.get("more_body", False):
                return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def _take(self, size: int) -> None:
        self.size += size
        held = self._arriving.take(self._sender, size)
        if self.size > self._arriving.body_bytes:
            raise self._too_large()
        if self._arriving.held > max(self._arriving.all_bytes, self.size):  # one alone always fits
            raise BatchError(429, "busy", "the collector is receiving too many batches at once; retry in a few seconds")
        if held > max(self._arriving.all_bytes // _SHARES, self.size):
            raise BatchError(429, "share", "too many concurrent batches from this host; send them one after the other")

    def _too_large(self) -> BatchError:
        sentence = f"a batch must not exceed {self._arriving.body_bytes} bytes; send less at once"
        return BatchError(413, "too_large", sentence)


_MAX_SENDERS = 100_000  # remembered; who is forgotten may rush once more


@dataclass(slots=True)
class _Spent:
    """Until when the batches and the bytes of a sender would take at the rates that are allowed, in seconds."""

    batches_until: float = 0.0
    bytes_until: float = 0.0


class SenderLimits:
    """The rates of every sender. A sender may be ahead of its rate by `burst_seconds`."""

    def __init__(
        self,
        batches_per_second: float,
        bytes_per_second: float,
        burst_seconds: float,
        *,
        max_senders: int = _MAX_SENDERS,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._batch_seconds = 1 / batches_per_second
        self._byte_seconds = 1 / bytes_per_second
        self._burst = burst_seconds
        self._max_senders = max_senders
        self._now = now
        self._lock = threading.Lock()
        self._senders: OrderedDict[str, _Spent] = OrderedDict()

    def __len__(self) -> int:
        return len(self._senders)

    def spend(self, sender: str, size: int) -> None:
        """Take one batch of `size` bytes off what the sender may send.

        Raises:
            BatchError: 429, it has sent too much; nothing was taken off.
        """
        with self._lock:
            self._spend(sender, size, self._now())

    def _spend(self, sender: str, size: int, now: float) -> None:
        spent = self._of(sender)
        batches = max(spent.batches_until, now) + self._batch_seconds
        size_until = max(spent.bytes_until, now) + size * self._byte_seconds
        # A single batch always fits who has been quiet, or one above the burst would be refused for ever.
        over_batches = batches - now - self._burst if spent.batches_until > now else 0.0
        over_bytes = size_until - now - self._burst if spent.bytes_until > now else 0.0
        if (wait := max(over_batches, over_bytes)) > 0:
            what = "batches" if over_batches >= over_bytes else "bytes"
            sentence = f"{sender} sends more {what} per second than one agent may; retry in a few seconds"
            raise BatchError(429, "rate", sentence, retry_after=spread_seconds(wait))
        spent.batches_until, spent.bytes_until = batches, size_until

    def _of(self, sender: str) -> _Spent:
        spent = self._senders.setdefault(sender, _Spent())
        self._senders.move_to_end(sender)
        if len(self._senders) > self._max_senders:
            self._senders.popitem(last=False)
        return spent


def spread_seconds(seconds: float) -> int:
    """Return the seconds of a Retry-After: at least as long, up to as long again, so that not all return at once."""
    least = max(1, math.ceil(seconds))
    return least + random.randint(0, least)  # noqa: S311 - nothing to guess here
