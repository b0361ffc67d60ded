"""A keep-alive connection to a collector that costs the sender little: one request at a time, and its answer."""

import asyncio
import re
from dataclasses import dataclass
from typing import cast

from agent.wire.envelope import CONTENT_TYPE

PATIENCE_SECONDS = 65.0  # a collector answers within 60, if only that nobody knows
NO_CONTENT = b"204"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_RETRY = re.compile(rb"\r\nretry-after: *(\d+)", re.IGNORECASE)
_LOCATION = re.compile(rb"\r\nlocation: *([^\r]+)", re.IGNORECASE)
_SEALED = re.compile(rb'"sealed_through": *(-?\d+)')


@dataclass(frozen=True, slots=True)
class Reply:
    """What was answered. `sealed_through` is -2 where the answer does not say."""

    status: int
    sealed_through: int
    retry_after: float
    location: str
    text: bytes


class Line(asyncio.Protocol):
    """One connection. It raises OSError where none comes about, or it breaks before the answer."""

    def __init__(self, port: int, path: str = "/v1/batches", content_type: str = CONTENT_TYPE, more: str = "") -> None:
        self._port = port
        self._head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: {content_type}\r\n{more}Content-Length: "
        ).encode()
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[Reply] | None = None
        self._got = b""
        self._sent = 0

    async def post(self, body: bytes) -> Reply:
        """Send a body and return what is answered."""
        loop = asyncio.get_running_loop()
        if self._transport is None:
            await loop.create_connection(lambda: self, "127.0.0.1", self._port)
        assert self._transport is not None
        self._answer = loop.create_future()
        self._sent += 1
        self._transport.write(b"%b%d\r\n\r\n%b" % (self._head, len(body), body))
        try:
            return await asyncio.wait_for(self._answer, PATIENCE_SECONDS)
        except TimeoutError as error:
            self.close()
            raise ConnectionError("no answer in time") from error

    def close_when_idle(self, seconds: float) -> None:
        """Close it when nothing is sent for so long."""
        sent = self._sent

        def close() -> None:
            if self._sent == sent:
                self.close()

        asyncio.get_running_loop().call_later(seconds, close)

    def close(self) -> None:
        """Close it; the next post opens another."""
        if self._transport is not None:
            self._transport.close()
            self._transport = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note the transport."""
        self._transport, self._got = cast("asyncio.Transport", transport), b""  # uvloop's derives from nothing

    def data_received(self, data: bytes) -> None:
        """Take what comes, until the answer is whole."""
        self._got += data
        end = self._got.find(b"\r\n\r\n")
        if end < 0 or self._answer is None or self._answer.done():
            return
        head = self._got[: end + 2]
        length = _LENGTH.search(head)
        text = self._got[end + 4 :]
        if head[9:12] != NO_CONTENT and (length is None or len(text) < int(length[1])):
            return
        self._got = b""
        self._answer.set_result(_reply(head, text))
        if b"connection: close" in head.lower():
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Tell who waits."""
        self._transport = None
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionError("the connection broke before the answer"))


def _reply(head: bytes, text: bytes) -> Reply:
    sealed, retry, location = _SEALED.search(text), _RETRY.search(head), _LOCATION.search(head)
    return Reply(
        status=int(head[9:12]),
        sealed_through=int(sealed[1]) if sealed else -2,
        retry_after=float(retry[1]) if retry else 1.0,
        location=location[1].decode() if location else "",
        text=text,
    )
