"""One process for one site: collector, analysis and pages; or one of them alone."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response

from analyzer.analysis import analyze
from analyzer.config import Settings
from analyzer.errors import ConfigError, LedgerError
from analyzer.reading import Judges, Reader
from analyzer.reading import Request as Reading
from collector.access import TokenGate
from collector.app import create_app
from collector.config import CollectorConfig
from collector.errors import StoreError
from collector.store.database import Store
from collector.writer import Writer
from dashboards.assets import assets
from dashboards.job import AnalysisJob
from dashboards.pages import SECURITY, Pages

Only = Literal["collector", "analyzer"]
ANALYZE_SECONDS = 300.0
_TYPES = {
    "json": "application/json",
    "text": "text/plain; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "markdown": "text/markdown; charset=utf-8",
    "svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """What a server is made from. `analyze_seconds` None leaves the analysis to whoever calls the job."""

    collector: CollectorConfig
    settings: Settings
    analyze_seconds: float | None = ANALYZE_SECONDS
    collects: bool = True


def create_server(config: ServerConfig, store: Store, judges: Judges | None = None) -> FastAPI:
    """Return the application. It starts what runs beside it and ends it; who opened the store closes it."""
    app = create_app(config.collector, store, Writer(store, config.collector)) if config.collects else _bare(config)
    job = AnalysisJob(
        lambda now: analyze(store, config.settings, now_us=now), config.analyze_seconds or ANALYZE_SECONDS
    )
    app.state.job = job
    if config.analyze_seconds is not None:
        run_beside(app, job.start, job.stop)

    def reader() -> Reader:
        return Reader(store.session(), config.settings, judges or Judges.own())

    app.include_router(assets())
    app.include_router(Pages(reader, lambda: job.last).router())
    _add_readings(app, reader)
    return app


def _bare(config: ServerConfig) -> FastAPI:
    app = FastAPI(title="gpuledger", docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(TokenGate, tokens=config.collector.tokens)

    @app.get("/healthz")
    async def healthz() -> JSONResponse:
        return JSONResponse({"healthy": True})

    return app


def run_beside(app: FastAPI, start: Callable[[], None], end: Callable[[], None]) -> None:
    """Call `start` after the application has started, and `end` before it ends."""
    own = app.router.lifespan_context

    @asynccontextmanager
    async def both(running: FastAPI) -> AsyncIterator[None]:
        async with own(running):
            start()
            try:
                yield
            finally:
                end()

    app.router.lifespan_context = both


def _add_readings(app: FastAPI, reader: Callable[[], Reader]) -> None:
    @app.get("/v1/read")
    def read(request: Request) -> Response:
        asked = Reading.of(request.query_params)
        opened = reader()
        with opened.session:
            answer = opened.answer(asked)
        kind = HTMLResponse if asked.format == "html" else Response
        return kind(answer, media_type=_TYPES[asked.format], headers=SECURITY)

    for kind, status in ((ConfigError, 400), (LedgerError, 404), (StoreError, 503)):
        app.add_exception_handler(kind, _sentence(status))


def _sentence(status: int) -> Callable[[Request, Exception], Response]:
    def answer(_: Request, error: Exception) -> Response:
        return PlainTextResponse(f"{error}\n", status_code=status)

    return answer
