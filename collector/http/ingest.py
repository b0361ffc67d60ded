"""POST /v1/batches: a body becomes rows that are durable before the answer, or one sentence that says why not.

A raw ASGI route: a framework's request object costs as much as the whole decoding (components.md, 3).

Rows that cannot be true do not cost the batch its others: it is answered with 200, since it is here and counts once,
and the answer says how many rows were put aside, and why (validation.py). What is refused stays refused as a whole.
"""

import asyncio
import json
import time
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import Any

from starlette.types import Receive, Scope, Send

from agent.wire.envelope import CONTENT_TYPE, EPOCH_HEADER
from collector.access.enrol import HostBook
from collector.config import CollectorConfig
from collector.errors import BatchError, RegistryError
from collector.limits import Arriving, SenderLimits, spread_seconds
from collector.pipeline.batch_commit import Receipt
from collector.pipeline.decoding.batch import Batch, opened_batch, read
from collector.pipeline.decoding.decoder import Question
from collector.pipeline.decoding.decoders import Decoders, command
from collector.pipeline.decoding.own_word import check_host, foreign_part, gpus_named, own_part
from collector.pipeline.writer import Answers, Writer, unknown_yet
from collector.problem import PROBLEM_TYPE, problem
from collector.registry.keys import Homes
from collector.registry.roles import Principal

_RETRY_AFTER_SECONDS = 2  # a queue that is full now is written in about a second
_COMMIT_PATIENCE_SECONDS = 60  # after which the sender hears that nobody knows; sending again is always safe
_OFF_THE_LOOP_BYTES = 256 * 2**10  # larger bodies take milliseconds to decode, which others would have to wait for
_LARGE_AT_ONCE = 2  # such bodies that are unpacked at the same time, each into some `unpacked_bytes`
MANY = 32  # requests at the same time, from which on another process decodes
STILL_MANY_SECONDS = (
    30.0  # for which it goes on: a rate that waits for nobody is many at one moment and few at the next
)
_TOLD_REASONS = 3
_EPOCH = EPOCH_HEADER.lower().encode()


class Ingest:
    """The ASGI application behind /v1/batches."""

    def __init__(self, config: CollectorConfig, writer: Writer, homes: Homes) -> None:
        self._config = config
        self._hosts = HostBook(homes)
        self._writer = writer
        self._metrics = writer.metrics
        self._arriving = Arriving(config.body_bytes, config.arriving_bytes, config.body_seconds)
        self._limits = SenderLimits(
            config.agent_batches_per_second, config.agent_bytes_per_second, config.agent_burst_seconds
        )
        self._keeps_bodies = writer.keeps_bodies
        self._large = ThreadPoolExecutor(_LARGE_AT_ONCE, "decode")
        self._decoders = Decoders(
            config.decoders if self._keeps_bodies else 0,
            command(config.unpacked_bytes, config.rows),
            self._metrics.decoder_ends.inc,
        )
        self._open = 0  # requests
        self._many_until = 0.0
        self._answers: Answers | None = None
        self._metrics.watch("arriving_bytes", "Bytes of batches on their way in.", lambda: self._arriving.held)
        self._metrics.watch("limited_senders", "Agents whose rate is remembered.", lambda: len(self._limits))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        self._open += 1
        try:
            batch, receipt = await self._taken(scope, receive)
        except BatchError as refusal:
            self._metrics.batches.labels(refusal.reason).inc()
            await _refuse(send, refusal)
        else:
            self._metrics.batches.labels("repeated" if receipt.repeated else "accepted").inc()
            await _answer(send, 200, b"application/json", _told(batch, receipt))
        finally:
            self._open -= 1

    async def stop(self) -> None:
        """End the processes that help; who is waiting for one has been answered."""
        await self._decoders.stop()
        await asyncio.to_thread(self._large.shutdown)

    async def _taken(self, scope: Scope, receive: Receive) -> tuple[Batch, Receipt]:
        headers = dict(scope["headers"])
        # A browser may post any text to loopback from any page, but not this type without asking first (CORS).
        if headers.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip() != CONTENT_TYPE:
            raise BatchError(415, "content_type", f"a batch needs Content-Type: {CONTENT_TYPE}")
        if headers.get(b"content-encoding", b"identity") != b"identity":
            raise BatchError(415, "encoding", "a batch is already compressed; send it without Content-Encoding")
        principal: Principal | None = scope.get("principal")
        sender = principal.node if principal is not None else None
        with self._arriving.place(sender) as place:
            body = await place.body(headers, receive)
            self._metrics.received_bytes.inc(len(body))
            batch = await self._decoded(body, principal)
            promise = self._writer.submit(batch, _epoch(headers))
        if self._answers is None:
            self._answers = Answers()
        try:
            return batch, await self._answers.of(promise, _COMMIT_PATIENCE_SECONDS)
        except TimeoutError as error:
            raise unknown_yet(_COMMIT_PATIENCE_SECONDS) from error

    async def _decoded(self, body: bytes, principal: Principal | None) -> Batch:
        """Return the batch, once it is known that its sender may send it, and so much."""
        if len(body) < _OFF_THE_LOOP_BYTES:
            batch = await self._found_fine(body, principal) or self._opened(body, principal)
        else:
            batch = await asyncio.get_running_loop().run_in_executor(self._large, self._opened, body, principal)
        batch = await self._believed(batch, principal)
        if batch.ignored_columns or batch.ignored_tables:
            self._metrics.ignored.labels("column").inc(batch.ignored_columns)
            self._metrics.ignored.labels("table").inc(batch.ignored_tables)
        return batch.without_tables() if self._keeps_bodies else batch

    async def _believed(self, batch: Batch, principal: Principal | None) -> Batch:
        """Return the batch without the rows that are not its sender's to tell (own_word.py).

        Raises:
            BatchError: 503, the registry does not say whose the GPUs are.
        """
        if batch.told_by is not None or not batch.tables:  # another process has looked at it, or there is nothing in it
            return batch
        agent, gpus = batch.header.agent, gpus_named(batch)
        is_key_of_host = principal is not None and principal.node is not None
        if not is_key_of_host and foreign_part(agent, batch) is not None:  # a Prometheus, a scheduler: of many hosts
            return batch
        host = self._hosts.settled(agent, gpus)
        if host is None:
            try:
                host = await asyncio.to_thread(self._hosts.learn, agent, batch.header.sent_at, gpus)
            except RegistryError as error:
                raise BatchError(503, "registry", f"which host its GPUs belong to is not known: {error}") from error
        return own_part(host, batch) if is_key_of_host else batch

    async def _found_fine(self, body: bytes, principal: Principal | None) -> Batch | None:
        """Return the batch if many come, and another process finds nothing wrong with it."""
        now = asyncio.get_running_loop().time()
        if self._open >= MANY:
            self._many_until = now + STILL_MANY_SECONDS
        if now >= self._many_until or not self._decoders.can_help:
            return None
        node = principal.node if principal else None
        host = self._hosts.known(node) if node else None
        if node and host is None:
            return None
        batch = await self._decoders.decoded(Question(body, time.time_ns() // 1000, host))
        if batch is not None:
            self._limits.spend(node or batch.header.agent, len(body))
        return batch

    def _opened(self, body: bytes, principal: Principal | None) -> Batch:
        sealed = opened_batch(body, self._config.unpacked_bytes)
        self._limits.spend((principal and principal.node) or sealed.header.agent, len(body))
        batch = read(sealed, time.time_ns() // 1000, self._config.rows)
        check_host(principal, batch)
        return batch


def _epoch(headers: dict[bytes, bytes]) -> int | None:
    """Return the epoch that the sender names, None where it names none: it is for who owns the stream to judge."""
    said = headers.get(_EPOCH, b"")
    return int(said) if said.isdigit() and len(said) < 19 else None


def _told(batch: Batch, receipt: Receipt) -> dict[str, Any]:
    told: dict[str, Any] = {
        "sequence": receipt.sequence,
        "sealed_through": receipt.sealed_through,
        "server_time": time.time_ns() // 1000,
    }
    if batch.quarantined:
        told["quarantined"] = sum(batch.quarantined.values())
        told["reasons"] = [aside.reason for aside in batch.asides[:_TOLD_REASONS]]
    return told


async def _refuse(send: Send, refusal: BatchError) -> None:
    """Answer with a problem (RFC 9457), of which agents read `error` and `reason`."""
    more: dict[str, object] = {"error": str(refusal), "reason": refusal.reason}
    if refusal.epoch is not None:
        more["epoch"] = refusal.epoch
    headers: list[tuple[bytes, bytes]] = []
    if refusal.status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
        seconds = refusal.retry_after or spread_seconds(_RETRY_AFTER_SECONDS)
        headers.append((b"retry-after", str(seconds).encode()))
    if refusal.status in (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.REQUEST_ENTITY_TOO_LARGE):
        headers.append((b"connection", b"close"))  # the rest of the body is not waited for
    if refusal.location is not None:
        headers.append((b"location", refusal.location.encode("latin-1", "replace")))
    content = problem(refusal.status, str(refusal), **more)
    await _answer(send, refusal.status, PROBLEM_TYPE.encode(), content, headers)


async def _answer(
    send: Send,
    status: int,
    content_type: bytes,
    content: dict[str, Any],
    headers: list[tuple[bytes, bytes]] | None = None,
) -> None:
    text = json.dumps(content).encode()
    common = [(b"content-type", content_type), (b"content-length", str(len(text)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": common + (headers or [])})
    await send({"type": "http.response.body", "body": text})
