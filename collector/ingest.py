"""POST /v1/batches: a body becomes rows that are durable before the answer, or one sentence that says why not.

A raw ASGI route: a framework's request object costs as much as the whole decoding (components.md, 3).
"""

import asyncio
import json
import time
from typing import TYPE_CHECKING

from agent.wire.envelope import CONTENT_TYPE
from collector.decode import Batch, decode
from collector.errors import BatchError
from collector.landing import Receipt
from collector.writer import Writer

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from collector.config import CollectorConfig

RETRY_AFTER_SECONDS = 2  # a queue that is full now is written in about a second
COMMIT_PATIENCE_SECONDS = 60  # after which the sender hears that nobody knows; sending again is always safe
OFF_THE_LOOP_BYTES = 256 * 2**10  # larger bodies take milliseconds to decode, which others would have to wait for


class Ingest:
    """The ASGI application behind /v1/batches."""

    def __init__(self, config: "CollectorConfig", writer: Writer) -> None:
        self._config = config
        self._writer = writer
        self._metrics = writer.metrics
        self._arriving_bytes = 0

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Answer one request."""
        try:
            receipt = await self._taken(scope, receive)
            self._count("repeated" if receipt.repeated else "accepted")
            await _answer(send, 200, _told(receipt))
        except BatchError as refusal:
            self._count(refusal.reason)
            await _answer(send, refusal.status, {"error": str(refusal), "reason": refusal.reason})

    async def _taken(self, scope: "Scope", receive: "Receive") -> Receipt:
        headers = dict(scope["headers"])
        # A browser may post any text to loopback from any page, but not this type without asking first (CORS).
        if headers.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip() != CONTENT_TYPE:
            raise BatchError(415, "content_type", f"a batch comes with Content-Type: {CONTENT_TYPE}")
        body = await self._body(headers, receive)
        self._metrics.received_bytes.inc(len(body))
        batch = await self._decoded(body)
        self._metrics.ignored.labels("column").inc(batch.ignored_columns)
        self._metrics.ignored.labels("table").inc(batch.ignored_tables)
        return await self._committed(batch)

    async def _body(self, headers: dict[bytes, bytes], receive: "Receive") -> bytes:
        """Return the body, never holding more of it than the limit."""
        declared = headers.get(b"content-length", b"0")
        if declared.isdigit() and int(declared[:20]) > self._config.body_bytes:
            raise self._too_large()
        try:
            async with asyncio.timeout(self._config.body_seconds):
                return await self._read(receive)
        except TimeoutError as error:
            raise BatchError(
                408, "slow", f"the batch took more than {self._config.body_seconds:g} s to arrive"
            ) from error

    async def _read(self, receive: "Receive") -> bytes:
        body = bytearray()
        try:
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise BatchError(400, "disconnected", "the sender went away before the whole batch had arrived")
                body += message.get("body", b"")
                self._arriving_bytes += len(message.get("body", b""))
                if len(body) > self._config.body_bytes:
                    raise self._too_large()
                if self._arriving_bytes > max(self._config.arriving_bytes, len(body)):  # one alone always fits
                    raise BatchError(429, "busy", "the collector is reading as much as it may at once; send it later")
                if not message.get("more_body", False):
                    return bytes(body)
        finally:
            self._arriving_bytes -= len(body)

    async def _decoded(self, body: bytes) -> Batch:
        arguments = (body, time.time_ns() // 1000, self._config.unpacked_bytes, self._config.rows)
        if len(body) < OFF_THE_LOOP_BYTES:
            return decode(*arguments)
        return await asyncio.to_thread(decode, *arguments)

    async def _committed(self, batch: Batch) -> Receipt:
        promise = asyncio.wrap_future(self._writer.submit(batch))
        try:
            # Shielded: the writer answers all the same, and a promise that was cancelled would stop it.
            return await asyncio.wait_for(asyncio.shield(promise), COMMIT_PATIENCE_SECONDS)
        except TimeoutError as error:
            sentence = f"the batch was not committed within {COMMIT_PATIENCE_SECONDS} s; send it again, it counts once"
            raise BatchError(503, "slow_commit", sentence) from error

    def _too_large(self) -> BatchError:
        return BatchError(413, "too_large", f"a batch may have {self._config.body_bytes} bytes; send less at once")

    def _count(self, result: str) -> None:
        self._metrics.batches.labels(result).inc()


def _told(receipt: Receipt) -> dict[str, int]:
    return {
        "sequence": receipt.sequence,
        "sealed_through": receipt.sealed_through,
        "server_time": time.time_ns() // 1000,
    }


async def _answer(send: "Send", status: int, content: dict[str, int] | dict[str, str]) -> None:
    text = json.dumps(content).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(text)).encode())]
    if status in (429, 503):
        headers.append((b"retry-after", str(RETRY_AFTER_SECONDS).encode()))
    if status == 408:
        headers.append((b"connection", b"close"))  # whoever dawdles does not keep the line
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text})
