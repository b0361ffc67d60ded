"""The collector's HTTP application, and what the server tells of itself in /metrics.

The pages of dashboards/ are added to what this returns. Batches go straight to who takes them, all else through the
framework: its six layers, each a coroutine of its own, cost as much as half the decoding of a small batch.

/metrics has the program: release, process, requests by route; and of the store what a thread sees every few seconds: no
scrape asks it anything.
"""

import logging
import os
import platform
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from fastapi import FastAPI, Request, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, disable_created_metrics
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent.child import installed_version
from agent.exposition import OPENMETRICS, exposition
from agent.wire.contract import MIN_READER, SCHEMA_VERSION
from agent.wire.tables import TABLES
from collector.access.enrol import Enrol
from collector.access.gate import Gate, endpoint_of
from collector.access.open_access import access_of
from collector.background import Background, now_us
from collector.backup.routes import add_backups
from collector.config import CollectorConfig
from collector.errors import ConfigError, StoreError
from collector.http.health import add_health, is_alive, of_collector
from collector.http.ingest import Ingest
from collector.lake.keeper import Maintenance
from collector.lake.sealing import Sealer
from collector.pipeline.metrics import Families, Metrics
from collector.pipeline.writer import Writer
from collector.problem import answer_with_problems
from collector.prometheus import write as remote_write
from collector.schedulers.kubernetes.api import CLUSTER_FILES, Api, Server
from collector.schedulers.kubernetes.source import LabelMeanings, Labels, open_kubernetes
from collector.schedulers.poller import Poller
from collector.schedulers.slurm.reader import Commands, Form, SlurmReader
from collector.schedulers.slurm.source import open_slurm
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


class _AsgiMount:
    """An ASGI application before another; `direct` are the ones that are posted to, by path."""

    def __init__(self, app: ASGIApp, direct: Mapping[str, ASGIApp]) -> None:
        self._app = app
        self._direct = direct

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        posted = scope["type"] == "http" and scope["method"] == "POST"
        await (self._direct.get(scope["path"], self._app) if posted else self._app)(scope, receive, send)


def create_app(config: CollectorConfig, store: Store, writer: Writer) -> FastAPI:
    """Return the application. It starts the writer and what asks the schedulers, and lets them finish at the end.

    Who opened the store closes it.
    """

    access = access_of(config, store.path, writer.clock.now)
    sealer = _sealer_of(config, store, writer)
    beside: list[Background] = [
        *configured(config, store, writer),
        MetricsPoller(store, writer.mark, writer.metrics),
        _maintenance(config, store, writer, sealer),
    ]
    prometheus = remote_write.RemoteWrite(config, store, writer)

    ingest = Ingest(config, writer, access.registry.homes)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        access.start()
        if writer.tenant is not None:
            writer.tenant.start()
        writer.start()
        if sealer is not None:
            writer.committed = sealer.committed
            sealer.start()
        prometheus.start()
        for each in beside:
            each.start()
        try:
            yield
        finally:
            for each in beside:
                each.stop()
            prometheus.stop()
            await ingest.stop()
            writer.close()
            if sealer is not None:
                sealer.stop()
            if writer.tenant is not None:
                writer.tenant.stop()
            access.stop()

    # The framework's own documentation pages load scripts from another host, so they are off.
    app = FastAPI(title="gpuledger collector", lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(Gate, access=access)
    counts = add_server_metrics(app, writer.metrics.registry)
    app.state.entrance = _AsgiMount(app, {"/v1/batches": Counted(Gate(ingest, access), counts)})
    app.router.routes.append(Route("/v1/enrol", Enrol(access), methods=["POST"]))
    app.router.routes.append(Route("/v1/batches", ingest, methods=["POST"]))
    app.router.routes.append(Route(remote_write.PATH, prometheus, methods=["POST"]))
    app.state.store = store
    app.state.writer = writer
    app.state.sealer = sealer
    app.state.access = access

    _add_what_it_says(app)
    add_health(app, lambda: is_alive(writer), of_collector(config, store, writer))
    add_backups(app, config, store)
    return app


def _add_what_it_says(app: FastAPI) -> None:
    """Add what the collector says of the contract, and its way of refusing."""

    @app.get("/v1/schema")
    async def schema() -> dict[str, Any]:
        return _contract()

    answer_with_problems(app)


def _sealer_of(config: CollectorConfig, store: Store, writer: Writer) -> Sealer | None:
    """Return what seals the writer's batches; None where there is no lake."""
    if store.lake is None:
        return None
    return Sealer(store, writer.mark, writer.metrics, config.seal_seconds, config.seal_rows, writer.tenant)


def _maintenance(config: CollectorConfig, store: Store, writer: Writer, sealer: Sealer | None) -> Maintenance:
    """Return the upkeep of the store, which gives way to sealing."""
    return Maintenance(
        store,
        config,
        writer.metrics,
        sealing_is_behind=lambda: sealer is not None and sealer.is_behind,
        proven_us=writer.clock.now,
    )


def _contract() -> dict[str, Any]:
    """Return the contract as agents may ask for it: versions, and each table's columns in the order of the wire."""
    tables = {name: [[column.name, column.type] for column in table.columns] for name, table in TABLES.items()}
    return {"schema_version": SCHEMA_VERSION, "min_reader": MIN_READER, "tables": tables}


def configured(config: CollectorConfig, store: Store, writer: Writer) -> list[Poller]:
    """Return a poller for each scheduler that the settings name; none is started."""
    found = [_slurm(config, store, writer)] if config.slurm else []
    return [*found, _kubernetes(config, store, writer)] if config.kubernetes else found


def _slurm(config: CollectorConfig, store: Store, writer: Writer) -> Poller:
    directory = Path(config.slurm_commands) if config.slurm_commands else None
    commands = Commands(directory, config.slurm_timeout_seconds, config.slurm_bytes)
    reader = SlurmReader(commands, cast("Form", config.slurm_format))
    opened = open_slurm(config.slurm, reader, config.slurm_seconds)
    return Poller(f"slurm/{config.slurm}", opened, store, writer, config.slurm_seconds)


def _kubernetes(config: CollectorConfig, store: Store, writer: Writer) -> Poller:
    labels = Labels(config.kubernetes_user_labels, config.kubernetes_project_labels, config.kubernetes_labels)
    reading = LabelMeanings(labels, config.kubernetes_rack_labels, config.kubernetes_block_labels)
    api = Api(_api_server(config))
    opened = open_kubernetes(config.kubernetes, api, reading, config.kubernetes_seconds)
    return Poller(f"kubernetes/{config.kubernetes}", opened, store, writer, config.kubernetes_seconds)


def _api_server(config: CollectorConfig) -> Server:
    """Return the API server that the settings name, else that of the cluster in which the collector runs.

    Raises:
        ConfigError: neither is known.
    """
    timeout, most = config.kubernetes_timeout_seconds, config.kubernetes_bytes
    token, ca = (Path(name) if name else None for name in (config.kubernetes_token, config.kubernetes_ca))
    if config.kubernetes_api:
        return Server(config.kubernetes_api, token, ca, timeout, most)
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise ConfigError(
            "collector.kubernetes is set, and this is not a pod of a cluster; set collector.kubernetes_api, as to the "
            "address of a `kubectl proxy`"
        )
    url = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    return Server(url, token or CLUSTER_FILES / "token", ca or CLUSTER_FILES / "ca.crt", timeout, most)
