"""The bodies of requests on their way in: so large, so slow and so many at once, and no more.

A body is counted from its first byte until its batch stands in the queue, which has bounds of its own: else a thousand
large ones that wait to be decoded would be in nobody's account. Where senders have keys of their own, none may take
more than its share of what all may hold: a few slow bodies of one host must not keep the others out.
"""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from collector.errors import BatchError

if TYPE_CHECKING:
    from starlette.types import Receive

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

    async def body(self, headers: Mapping[bytes, bytes], receive: "Receive") -> bytes:
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

    async def _read(self, receive: "Receive") -> bytes:
        chunks: list[bytes] = []
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise BatchError(400, "disconnected", "the sender went away before the whole batch had arrived")
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
            raise BatchError(429, "busy", "the collector is reading as much as it may at once; send it later")
        if held > max(self._arriving.all_bytes // _SHARES, self.size):
            raise BatchError(429, "share", "this host sends more at once than is its share; send one after the other")

    def _too_large(self) -> BatchError:
        sentence = f"a batch may have {self._arriving.body_bytes} bytes; send less at once"
        return BatchError(413, "too_large", sentence)
