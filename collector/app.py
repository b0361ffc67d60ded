"""The collector's HTTP application: wiring, no logic. The pages of dashboards/ are added to what this returns."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.routing import Route

from agent.wire.contract import MIN_READER, SCHEMA_VERSION
from agent.wire.tables import TABLES
from collector.access import TokenGate
from collector.ingest import Ingest

if TYPE_CHECKING:
    from collector.config import CollectorConfig
    from collector.store.database import Store
    from collector.writer import Writer


def create_app(config: "CollectorConfig", store: "Store", writer: "Writer") -> FastAPI:
    """Return the application. It starts the writer and lets it finish at the end; who opened the store closes it."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        writer.start()
        try:
            yield
        finally:
            writer.close()

    # The framework's own documentation pages load scripts from another host, so they are off.
    app = FastAPI(title="gpuledger collector", lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(TokenGate, tokens=config.tokens)
    app.router.routes.append(Route("/v1/batches", Ingest(config, writer), methods=["POST"]))
    app.state.store = store
    app.state.writer = writer

    @app.get("/v1/schema")
    async def schema() -> dict[str, Any]:
        return contract()

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(writer.metrics.exposition(), media_type=CONTENT_TYPE_LATEST)

    @app.get("/healthz")
    async def healthz() -> JSONResponse:
        failing = writer.failing
        return JSONResponse({"healthy": failing is None}, status_code=503 if failing else 200)

    return app


def contract() -> dict[str, Any]:
    """Return the contract as agents may ask for it: versions, and each table's columns in the order of the wire."""
    tables = {name: [[column.name, column.type] for column in table.columns] for name, table in TABLES.items()}
    return {"schema_version": SCHEMA_VERSION, "min_reader": MIN_READER, "tables": tables}
