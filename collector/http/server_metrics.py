"""/metrics of the server, and what it tells of the server as a program: release, process, requests by route."""

import platform
import time

from fastapi import FastAPI, Request, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, disable_created_metrics
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent.exposition import OPENMETRICS, exposition
from agent.version import installed_version
from collector.access.endpoints import endpoint_of

_SECONDS_BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_OTHER, _NO_ANSWER, _MISTAKE = "other", "none", "500"


class RequestCounts:
    """The requests of one server by route, as the application declares it: no path makes a series of its own."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._answered = Counter(
            "gpuledger_server_requests",
            "Requests by route and status; none where the client had gone.",
            ["method", "route", "status"],
            registry=registry,
        )
        self._seconds = Histogram(
            "gpuledger_server_request_seconds",
            "Time from a request's head to the end of its answer.",
            ["method", "route"],
            buckets=_SECONDS_BUCKETS,
            registry=registry,
        )
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
    build = Gauge(
        "gpuledger_server_build_info", "Which server this is. Always 1.", ["version", "python"], registry=registry
    )
    build.labels(installed_version() or "unknown", platform.python_version()).set(1)
    app.state.metrics = registry  # for what else is to be told
    app.add_middleware(Counted, counts=counts)

    @app.get("/metrics", response_class=PlainTextResponse, responses={200: {"content": {OPENMETRICS: {}}}})
    def metrics(request: Request) -> Response:
        page, kind = exposition(registry, request.headers.get("accept", ""))
        return Response(page, media_type=kind, headers={"Vary": "Accept"})

    return counts
