"""/metrics of the server: what it tells of itself as a program, release, process, requests by route, and of the store.

The store is looked at every few seconds by a thread: no scrape asks it anything.
"""

import logging
import platform
import time

from fastapi import FastAPI, Request, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, disable_created_metrics
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent.child import installed_version
from agent.exposition import OPENMETRICS, exposition
from collector.access.gate import endpoint_of
from collector.background import Background, now_us
from collector.errors import StoreError
from collector.pipeline.metrics import Families, Metrics
from collector.store.database import Store
from collector.store.seal_mark import Mark
from collector.store.session import Session

_LOG = logging.getLogger(__name__)
_EVERY_SECONDS = 15.0
_STOPPING_SECONDS = 5.0
_SPAN = 3_600_000_000 << 8  # an hour in the numbers of batches: microseconds, and the collector's number
_PREFIX = "gpuledger_collector"


class MetricsPoller(Background):
    """Looks at one store on behalf of one page of /metrics."""

    def __init__(self, store: Store, mark: Mark, metrics: Metrics) -> None:
        super().__init__("metrics", _STOPPING_SECONDS)
        self._store = store
        self._mark = mark
        self._metrics = metrics
        self._newest_us: int | None = None
        self._oldest_us: int | None = None
        self._failing = False
        registry = metrics.registry
        self._waiting = Gauge(f"{_PREFIX}_arrivals_waiting", "Batches committed and not yet sealed.", registry=registry)
        metrics.watch(
            "ingest_lag_seconds",
            "Age of the newest batch that readers can see; it grows before the first one and while nothing arrives.",
            lambda: self._since(self._newest_us),
        )
        metrics.watch(
            "unsealed_age_seconds",
            "Age of the oldest unsealed batch; 0 where all are sealed, or where there is no lake.",
            lambda: self._since(self._oldest_us),
        )

    def once(self) -> None:
        """Look now; where the store does not answer, what was seen last stays, and the log says so once."""
        try:
            with self._store.hot_session() as session:
                self._look(session)
        except StoreError as error:
            if not self._failing:
                _LOG.error("/metrics shows earlier values: %s", error)
            self._failing = True
            return
        self._failing = False
        self._metrics.agents_page.show(self._metrics.agents.ages(now_us()))

    def _look(self, session: Session) -> None:
        upto = self._mark.upto if self._store.lake is not None else 2**63 - 1
        waiting, oldest = session.row("SELECT count(*), min(received_at) FROM receipts WHERE batch > ?", [upto])
        (last,) = session.row("SELECT max(batch) FROM receipts")
        seen = min(upto, last or 0)
        (newest,) = session.row(
            "SELECT max(received_at) FROM receipts WHERE batch <= ? AND batch > ?", [seen, seen - _SPAN]
        )
        self._waiting.set(waiting)
        self._oldest_us = oldest
        self._newest_us = newest or self._newest_us

    def _since(self, at_us: int | None) -> float:
        return 0.0 if at_us is None else max(0.0, (now_us() - at_us) / 1e6)

    def _run(self) -> None:
        try:
            with self._store.hot_session() as session:
                self._metrics.agents.remember(session, now_us())
        except StoreError as error:
            _LOG.error("hosts last seen before the start are not known: %s", error)
        while True:
            self.once()
            if self._ending.wait(_EVERY_SECONDS):
                return


_SECONDS_BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_OTHER, _NO_ANSWER, _MISTAKE = "other", "none", "500"


class RequestCounts:
    """The requests of one server by route, as the application declares it: no path makes a series of its own."""

    def __init__(self, registry: CollectorRegistry) -> None:
        made = Families(registry, "gpuledger_server")
        answered = "Requests by route and status; without a status where the client had disconnected."
        self._answered = made.counter("requests", answered, "method", "route", "status")
        took = "Time from a request's head to the end of its answer."
        self._seconds = made.histogram("request_seconds", took, "method", "route", buckets=_SECONDS_BUCKETS)
        self._series: dict[tuple[str, str, str], tuple[Counter, Histogram]] = {}  # as many as there are series

    def note(self, method: str, path: str, status: str, seconds: float) -> None:
        """Count one request."""
        series = (method if method in _METHODS else _OTHER, endpoint_of(method, path).path, status)
        if (found := self._series.get(series)) is None:  # agents ask thousands of times a second
            found = self._answered.labels(*series), self._seconds.labels(*series[:2])
            self._series[series] = found
        found[0].inc()
        found[1].observe(seconds)


class Counted:
    """An ASGI application before another; it counts what that one answers."""

    def __init__(self, app: ASGIApp, counts: RequestCounts) -> None:
        self._app = app
        self._counts = counts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status, began = _NO_ANSWER, time.perf_counter()

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = str(message["status"])
            await send(message)

        try:
            await self._app(scope, receive, sent)
        except Exception:
            status = _MISTAKE
            raise
        finally:
            self._counts.note(scope["method"], scope["path"], status, time.perf_counter() - began)


def add_server_metrics(app: FastAPI, registry: CollectorRegistry) -> RequestCounts:
    """Add /metrics, with everything of a registry, and count the application's requests; the last layer to be added."""
    disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each counter
    counts = RequestCounts(registry)
    ProcessCollector(registry=registry)
    build = Families(registry, "gpuledger_server").gauge(
        "build_info", "Which server this is. Always 1.", "version", "python"
    )
    build.labels(installed_version() or "unknown", platform.python_version()).set(1)
    app.state.metrics = registry  # for what else is to be told
    app.add_middleware(Counted, counts=counts)

    @app.get("/metrics", response_class=PlainTextResponse, responses={200: {"content": {OPENMETRICS: {}}}})
    def metrics(request: Request) -> Response:
        page, kind = exposition(registry, request.headers.get("accept", ""))
        return Response(page, media_type=kind, headers={"Vary": "Accept"})

    return counts
