"""The collector's HTTP application: wiring, no logic. The pages of dashboards/ are added to what this returns.

Batches go straight to who takes them, all else through the framework: its six layers, each a coroutine of its own, cost
as much as half the decoding of a small batch.
"""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from fastapi import FastAPI
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from agent.wire.contract import MIN_READER, SCHEMA_VERSION
from agent.wire.tables import TABLES
from collector.access.enrol import Enrol
from collector.access.gate import Gate
from collector.access.open_access import access_of
from collector.background import Background
from collector.backup.routes import add_backups
from collector.config import CollectorConfig
from collector.errors import ConfigError
from collector.http.health import add_health, is_alive, of_collector
from collector.http.ingest import Ingest
from collector.http.server_metrics import Counted, MetricsPoller, add_server_metrics
from collector.lake.keeper import Maintenance
from collector.lake.sealing import Sealer
from collector.pipeline.writer import Writer
from collector.problem import answer_with_problems
from collector.prometheus import write as remote_write
from collector.schedulers.kubernetes.api import CLUSTER_FILES, Api, Server
from collector.schedulers.kubernetes.source import LabelMeanings, Labels, open_kubernetes
from collector.schedulers.poller import Poller
from collector.schedulers.slurm.reader import Commands, Form, SlurmReader
from collector.schedulers.slurm.source import open_slurm
from collector.store.database import Store


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
