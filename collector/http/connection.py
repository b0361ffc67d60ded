"""One connection of the server: what comes before a body is bounded in bytes and in time.

uvicorn keeps whatever a header holds, and waits for its end as long as it takes: one sender could fill the memory with
a single endless header, and a few thousand could hold all connections by sending a byte a minute.
"""

import asyncio
from typing import ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class BoundedHttp(HttpToolsProtocol):
    """uvicorn's protocol, which closes the connection of whoever sends an endless head, or none."""

    head_bytes: ClassVar[int] = 64 * 2**10  # of a request's line, headers and trailers
    head_seconds: ClassVar[float] = 20.0  # for them to arrive, from the connection or the first byte on

    _timer: asyncio.TimerHandle | None = None
    _in_head = False
    _unfinished = 0  # bytes of a head whose end is not in sight
    _headers = 0  # bytes of headers and trailers

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._forget()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came; a head of which the end is not in sight counts whole."""
        super().data_received(data)
        if self._in_head:
            self._unfinished += len(data)
            if self._unfinished > self.head_bytes:
                self._end("The head of the request is too long.")

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._in_head, self._unfinished, self._headers = True, 0, 0
        if self._timer is None:
            self._expect()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header or, behind a body, a trailer."""
        self._headers += len(name) + len(value)
        if self._headers > self.head_bytes:
            raise ValueError("the head of the request is too long")  # the parser's caller answers 400 and closes
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head is there; a body has limits of its own."""
        self._in_head = False
        self._forget()
        super().on_headers_complete()

    def _expect(self) -> None:
        self._timer = self.loop.call_later(self.head_seconds, self._end, "The head of the request took too long.")

    def _forget(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end(self, why: str) -> None:
        self._forget()
        if self.transport.is_closing():
            return
        if self._in_head:
            self.send_400_response(why)
        else:
            self.transport.close()  # nothing was asked
        self._in_head = False
