"""POST /api/v1/write: Prometheus' remote write, 1.0 and 2.0, for fleets that already run dcgm-exporter.

204 says that all of a request is durable; 400 that some of it never can be, while the rest is; 503 that it should be
sent again. Samples of metrics that the contract has no word for are accepted and left out: a sender that is told
otherwise complains with every request, and to send fewer is its own setting.
"""

import asyncio
import json
from collections.abc import Callable
from http import HTTPStatus

from starlette.types import Receive, Scope, Send

from collector.config import CollectorConfig
from collector.errors import BatchError
from collector.limits import Arriving, spread_seconds
from collector.pipeline.writer import Writer
from collector.problem import PROBLEM_TYPE, problem
from collector.prometheus.labels import Clusters
from collector.prometheus.receiver import Counts, Limits, Receiver, last_scrapes
from collector.prometheus.request import V1, V2, Written, unpacked
from collector.store.database import Store

PATH = "/api/v1/write"
_MEDIA_TYPE = "application/x-protobuf"
_RETRY_AFTER_SECONDS = 2
_ANSWER_SECONDS = 25  # Prometheus waits 30; whoever hears nothing by then sends it again
_OFF_THE_LOOP_BYTES = 256 * 2**10
_WRITTEN = b"x-prometheus-remote-write-%s-written"


class RemoteWrite:
    """The ASGI application behind /api/v1/write. Start it, and stop it before the writer."""

    def __init__(self, config: CollectorConfig, store: Store, writer: Writer) -> None:
        self._config = config
        self._arriving = Arriving(config.body_bytes, config.arriving_bytes, config.body_seconds)
        clusters = Clusters(config.kubernetes or "default", config.slurm or "default")
        limits = Limits(config.remote_write_series, config.remote_write_wait_seconds)
        self.receiver = Receiver(writer, limits, clusters, lambda: last_scrapes(store))
        self._results = writer.metrics.batches
        self._received = writer.metrics.received_bytes
        watch, counts = writer.metrics.watch, self.receiver.counts
        watch("remote_write_series", "Series whose last value is kept in memory.", lambda: self.receiver.series)
        watch("remote_write_waiting", "Requests waiting for their answer.", lambda: self.receiver.waiting)
        for name, about in {
            "accepted": "that were read",
            "left_out": "of metrics that the schema does not have, or of a GPU that a better exporter covers",
            "late": "that arrived after the rest of their scrape had been stored",
            "implausible": "with impossible values",
        }.items():
            watch(f"remote_write_{name}_samples", f"Samples {about}.", _counted(counts, name))

    def start(self) -> None:
        """Begin to take requests."""
        self.receiver.start()

    def stop(self) -> None:
        """Put together what waits, and take no more."""
        self.receiver.stop()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            written = await self._taken(scope, receive)
        except BatchError as refusal:
            self._results.labels(f"remote_write_{refusal.reason}").inc()
            await _refuse(send, refusal)
        else:
            self._results.labels("remote_write_partly" if written.refused else "remote_write").inc()
            await _answer(send, written)

    async def _taken(self, scope: Scope, receive: Receive) -> Written:
        headers = dict(scope["headers"])
        proto = _proto(headers.get(b"content-type", b"").decode("latin-1"))
        if headers.get(b"content-encoding", b"").strip().lower() != b"snappy":
            raise BatchError(415, "content_encoding", "remote write needs Content-Encoding: snappy")
        with self._arriving.place() as place:
            body = await place.body(headers, receive)
            self._received.inc(len(body))
            if len(body) < _OFF_THE_LOOP_BYTES:
                content = unpacked(body, self._config.unpacked_bytes)
            else:
                content = await asyncio.to_thread(unpacked, body, self._config.unpacked_bytes)
            promise = self.receiver.take(content, proto)
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await asyncio.shield(asyncio.wrap_future(promise))
        except TimeoutError as error:
            sentence = f"not all of the request was stored within {_ANSWER_SECONDS} s; send it again, it counts once"
            raise BatchError(503, "slow_commit", sentence) from error


def _proto(content_type: str) -> str:
    """Return the message that a request says it is.

    Raises:
        BatchError: 415, it is none that is known here.
    """
    kind, *parameters = (part.strip() for part in content_type.split(";"))
    named = [
        value.strip().strip('"') for name, _, value in (one.partition("=") for one in parameters) if name == "proto"
    ]
    if kind.lower() != _MEDIA_TYPE or any(value not in (V1, V2) for value in named):
        raise BatchError(415, "content_type", f"remote write needs Content-Type: {_MEDIA_TYPE}, of {V1} or {V2}")
    return named[0] if named else V1


def _counted(counts: Counts, name: str) -> Callable[[], float]:
    return lambda: float(getattr(counts, name))


async def _answer(send: Send, written: Written) -> None:
    headers = [
        (_WRITTEN % b"samples", str(written.samples).encode()),
        (_WRITTEN % b"histograms", str(written.histograms).encode()),
        (_WRITTEN % b"exemplars", str(written.exemplars).encode()),
    ]
    if not written.refused:
        await _send(send, HTTPStatus.NO_CONTENT, headers, b"")
        return
    sentence = f"{written.refused} of {written.refused + written.samples} samples were refused: {written.why}"
    headers.append((b"content-type", PROBLEM_TYPE.encode()))
    text = json.dumps(problem(400, sentence, error=sentence, reason="samples")).encode()
    await _send(send, HTTPStatus.BAD_REQUEST, headers, text)


async def _refuse(send: Send, refusal: BatchError) -> None:
    """Answer that nothing was written. What may go well later is 503: Prometheus drops what is answered with 429."""
    later = refusal.status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.SERVICE_UNAVAILABLE)
    status = HTTPStatus.SERVICE_UNAVAILABLE if later else HTTPStatus(refusal.status)
    headers = [(_WRITTEN % what, b"0") for what in (b"samples", b"histograms", b"exemplars")]
    headers.append((b"content-type", PROBLEM_TYPE.encode()))
    if later:
        headers.append((b"retry-after", str(refusal.retry_after or spread_seconds(_RETRY_AFTER_SECONDS)).encode()))
    if refusal.status in (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.REQUEST_ENTITY_TOO_LARGE):
        headers.append((b"connection", b"close"))  # the rest of the body is not waited for
    text = json.dumps(problem(status, str(refusal), error=str(refusal), reason=refusal.reason)).encode()
    await _send(send, status, headers, text)


async def _send(send: Send, status: int, headers: list[tuple[bytes, bytes]], text: bytes) -> None:
    sized = [*headers, (b"content-length", str(len(text)).encode())] if text else headers
    await send({"type": "http.response.start", "status": int(status), "headers": sized})
    await send({"type": "http.response.body", "body": text})
