"""One process for one site: collector, analysis and pages; or one of them alone."""

import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from fastapi import FastAPI
from prometheus_client import CollectorRegistry
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from analyzer.analysis import analyze
from analyzer.interfaces.alarms.hook import AlarmReporter
from analyzer.interfaces.alarms.settings import AlarmSettings
from analyzer.interfaces.api.request_service import Scope as Readable
from analyzer.interfaces.api.routes import add_api
from analyzer.interfaces.doctor.sight import Live
from analyzer.interfaces.mail.settings import MailSettings
from analyzer.interfaces.metrics.snapshot import FleetPage
from analyzer.ledger.believed import believing
from analyzer.ledger.booking import Analysis
from analyzer.queries.generation import ByGeneration, Generations
from analyzer.recommendations.advise import LossSource
from analyzer.reports.prediction_book import keep_recommendations
from analyzer.reports.reader import Reader
from analyzer.settings.settings import Settings
from collector.access.gate import Gate
from collector.access.open_access import access_of, analyst_of, tenant_of
from collector.background import ProvenClock
from collector.backup.manifest import Layout
from collector.config import CollectorConfig
from collector.errors import HeldElsewhereError
from collector.http.app import create_app
from collector.http.health import Readiness, add_health, check_store
from collector.http.server_metrics import add_server_metrics
from collector.lake.sealing import Sealer
from collector.pipeline.writer import Writer, following
from collector.registry.tenant import BookingLease
from collector.store.books import catch_up, mirror, mirror_findings
from collector.store.database import Store
from dashboards.analysis import ANALYZE_SECONDS, AnalysisJob, JobPage
from dashboards.disk_cache import DiskCache, edition_of
from dashboards.page_cache import PageCache, PageCounts
from dashboards.pages.finding import finding_routes
from dashboards.pages.fleet import fleet_routes
from dashboards.pages.frame import Frame, assets, refuse_with_pages
from dashboards.pages.health import health_routes
from dashboards.pages.money import money_routes
from dashboards.pages.placement import placement_routes
from dashboards.pages.read_pages import Answering, ReadPages
from dashboards.pages.recommendations import recommendation_routes
from dashboards.pages.requests import request_routes
from dashboards.pages.run_page import run_routes, runs_routes
from dashboards.routes import Doctor, add_capacity_profile, add_doctor, add_prices
from dashboards.server.login import Login, mail_stop_routes
from dashboards.server.prefetch import Prefetch, PrefetchOrder
from dashboards.server.report_route import Reports
from dashboards.server.sign_in import OidcSettings, Provider


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """What a server is made from. `analyze_seconds` None leaves the analysis to whoever calls the job."""

    collector: CollectorConfig
    settings: Settings
    analyze_seconds: float | None = ANALYZE_SECONDS
    collects: bool = True
    alarms: AlarmSettings = field(default_factory=AlarmSettings)  # which tell nobody
    mail: MailSettings = field(default_factory=MailSettings)  # which mail nobody
    is_simulated: bool = False  # a demo's week, to which nobody sends any more
    oidc: OidcSettings = field(default_factory=OidcSettings)
    provider: Provider | None = None  # of these settings, where people sign in


@dataclass(frozen=True, slots=True)
class Booker:
    """Makes the passes of one store. `lease` is None where nobody else could book into its lake.

    `tell` is called after each pass that booked, with its moment: who books is who raises alarms.
    """

    store: Store
    settings: Settings
    lease: BookingLease | None
    sealer: Sealer | None
    tell: Callable[[int], object] | None = None

    def __call__(self, now_us: int) -> Analysis:
        """Make one pass, and tell what it found. Raises as book() does."""
        done = self.book(now_us)
        if self.tell is not None:
            self.tell(now_us)
        return done

    def book(self, now_us: int) -> Analysis:
        """Make one pass; while another analyzer has the lease, follow its books instead.

        Raises:
            HeldElsewhereError: another has it; our hot file says what the lake's books say.
            RegistryError: nobody can say who has it; nothing was booked.
            TakenError: another has booked in spite of it; nothing of this pass was booked.
        """
        if self.sealer is not None:
            self.sealer.once()  # so that the ledger speaks of what has just arrived
        if self.lease is None:
            done = analyze(self.store, self.settings, now_us=now_us)
            mirror(self.store)
            keep_recommendations(self.store, self.settings, now_us)
            return done
        try:
            name = self.lease.take().name
        except HeldElsewhereError:
            catch_up(self.store)
            mirror_findings(self.store)  # what people say here goes there
            raise
        done = analyze(self.store, self.settings, now_us=now_us)
        with self.lease.guard():
            mirror(self.store, name)
            keep_recommendations(self.store, self.settings, now_us)
        return done

    def stop(self) -> None:
        """Let another take the lease at once."""
        if self.lease is not None:
            self.lease.release()


# Our pages, their parts and redirects name their addresses from the root.
_ADDRESS = re.compile(rb'(\s(?:href|src|action|formaction|data-[a-z-]+)=")(/(?![/\\]))')
_COOKIE_PATH = re.compile(
    rb"(;\s*path=)(/[^;\s])", re.IGNORECASE
)  # that of / alone is for the host, as __Host- wants it
_LOCATED = {
    b"location": re.compile(rb"^()(/(?!/))"),
    b"refresh": re.compile(rb"(url=)(/(?!/))"),
    b"set-cookie": _COOKIE_PATH,
}


class PrefixedSite:
    """An application below a path of its host, as `site_url` says: https://example.org/gpuledger.

    Proxies hand the path on or take it away, as they are told; both are understood. `prefix` begins with a slash and
    ends with none.
    """

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        self._app = app
        self._prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on without the prefix, and the answer with it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = scope["path"]
        if path == self._prefix or path.startswith(f"{self._prefix}/"):
            raw = scope.get("raw_path") or path.encode()
            below = {"path": path.removeprefix(self._prefix) or "/", "raw_path": raw[len(self._prefix) :] or b"/"}
            scope = {**scope, **below}
        await self._app(scope, receive, _Answer(send, self._prefix.encode()))


class _Answer:
    """One answer on its way out; a page is held until it is whole, since its length changes."""

    def __init__(self, send: Send, prefix: bytes) -> None:
        self._send = send
        self._put = rb"\g<1>" + prefix.replace(b"\\", b"\\\\") + rb"\g<2>"
        self._start: Message | None = None
        self._page = b""

    async def __call__(self, message: Message) -> None:
        """Send it."""
        if message["type"] == "http.response.start":
            headers = [(name, self._located(name.lower(), value)) for name, value in message["headers"]]
            message = {**message, "headers": headers}
            kinds = [value for name, value in headers if name.lower() == b"content-type"]
            if kinds and kinds[0].startswith(b"text/html"):
                self._start = message
                return
        elif self._start is not None:
            self._page += message.get("body", b"")
            if not message.get("more_body"):
                await self._whole(self._start)
            return
        await self._send(message)

    async def _whole(self, start: Message) -> None:
        page = _ADDRESS.sub(self._put, self._page)
        kept = [(name, value) for name, value in start["headers"] if name.lower() != b"content-length"]
        await self._send({**start, "headers": [*kept, (b"content-length", str(len(page)).encode())]})
        await self._send({"type": "http.response.body", "body": page})

    def _located(self, name: bytes, value: bytes) -> bytes:
        pattern = _LOCATED.get(name)
        return value if pattern is None else pattern.sub(self._put, value)


def create_server(config: ServerConfig, store: Store, loss_source: LossSource | None = None) -> FastAPI:
    """Return the application. It starts what runs beside it and ends it; who opened the store closes it."""
    collector = config.collector
    app = _collecting(config, store) if config.collects else _bare(collector, store)
    sealer = app.state.sealer if config.collects else None

    tenant = app.state.writer.tenant if config.collects else analyst_of(collector, store)
    if tenant is not None and not config.collects:
        _run_beside(app, tenant.start, tenant.stop)
    kept = ByGeneration(Generations(config.settings))

    def reader() -> Reader:
        return Reader(believing(store), config.settings, loss_source or LossSource.own(), kept=kept)

    teller = AlarmReporter(config.alarms, app.state.access.registry.alarms, reader) if config.alarms.told else None
    lease = tenant.booking_lease() if tenant is not None else None
    booker = Booker(store, config.settings, lease, sealer, teller)
    disk_cache = _pages_on_disk(app, store, config.settings)
    clock = app.state.writer.clock.now if config.collects else following(store)
    job = AnalysisJob(booker, config.analyze_seconds or ANALYZE_SECONDS, clock)
    app.state.job = job
    _run_beside(app, lambda: None, booker.stop)
    if config.analyze_seconds is not None:
        _run_beside(app, job.start, job.stop)

    listens_at = _listens_at(collector)
    page = FleetPage(reader, config.settings.site_url or listens_at)
    _run_beside(app, page.start, page.stop)
    frame = Frame(config.settings, lambda: job.last, app.state.access, listens_at, is_simulated=config.is_simulated)
    answering = _answering(app, frame, store, kept, disk_cache)
    for told in (page, JobPage(job, booker.lease), PageCounts(answering.cache, disk_cache)):
        app.state.metrics.register(told)
    reports = Reports(reader, answering)
    app.include_router(reports.router())
    service = add_api(app, lambda: believing(store), config.settings, loss_source, kept)
    add_prices(app, config.settings)
    add_capacity_profile(app, config.settings, store)
    doctor = Doctor(
        app.state.access,
        collector,
        config.settings,
        store,
        lambda: _live(app, job, booker.lease),
        config.mail,
        is_simulated=config.is_simulated,
    )
    add_doctor(app, doctor)
    pages = ReadPages(service, frame, answering)
    _add_pages(app, config, pages, doctor)
    ahead = PrefetchOrder(pages, reports, disk_cache)
    prefetch = app.state.prefetch = Prefetch(ahead.first, ahead.rest, lambda: job.is_passing)
    job.after = prefetch.ask
    _run_beside(app, prefetch.start, prefetch.stop)
    if prefix := urlsplit(config.settings.site_url).path:
        app.add_middleware(PrefixedSite, prefix=prefix)
    return app


def _add_pages(app: FastAPI, config: ServerConfig, pages: ReadPages, doctor: Doctor) -> None:
    access = app.state.access
    for router in (
        assets(),
        Login(access, pages.frame, config.settings.site_url, config.provider, config.oidc.grants).router(),
        fleet_routes(pages),
        runs_routes(pages),
        run_routes(pages),
        finding_routes(pages),
        money_routes(pages),
        placement_routes(pages),
        recommendation_routes(pages),
        request_routes(pages, access.registry),
        health_routes(pages, doctor),
        mail_stop_routes(access.registry.mails),
    ):
        app.include_router(router, include_in_schema=False)
    refuse_with_pages(app, pages.frame, lambda request: Readable.of(request.scope).teams)


def _pages_on_disk(app: FastAPI, store: Store, settings: Settings) -> DiskCache | None:
    """Return the pages that the server before left; a store in memory has none. The last pass ends before it does."""
    if store.path is None:
        return None
    disk_cache = DiskCache(Layout(store.path).pages, edition_of(store, settings))
    _run_beside(app, disk_cache.open, disk_cache.follow)
    return disk_cache


def _answering(app: FastAPI, frame: Frame, store: Store, kept: ByGeneration, disk_cache: DiskCache | None) -> Answering:
    def state() -> str:
        with believing(store) as session:
            return kept.name(session)

    answering = Answering(frame, state, PageCache(disk_cache=disk_cache))
    app.state.pages = answering.cache
    _run_beside(app, lambda: None, answering.cache.close)
    return answering


def _listens_at(config: CollectorConfig) -> str:
    return f"{'https' if config.tls_certificate else 'http'}://{config.listen}"


def _live(app: FastAPI, job: AnalysisJob, lease: BookingLease | None) -> Live:
    """Return what only this process knows of the analysis, of sealing and of what agents send beyond us."""
    writer, sealer = getattr(app.state, "writer", None), getattr(app.state, "sealer", None)
    ignored = {} if writer is None else writer.metrics.ignored_counts()
    holder = lease.holder if lease is not None else None
    books_since = holder.since if holder is not None and holder.is_mine else None
    failing = None if sealer is None else sealer.failing
    certificate = getattr(app.state, "certificate", None)
    pem = None if certificate is None else certificate.pem
    doubt = None if writer is None else writer.clock.doubt
    return Live(job.last.error, failing, ignored, job.last.held, books_since, pem, doubt)


class _OwnClock(ProvenClock):
    """The clock of a simulated site: its agents tell the time of the week that is made up."""

    def heard(self, agent: str, sent_at: int) -> None:
        """Listen to nobody."""


def _collecting(config: ServerConfig, store: Store) -> FastAPI:
    writer = Writer(store, config.collector, tenant=tenant_of(config.collector, store))
    if config.is_simulated:
        writer.clock = _OwnClock(None)
    return create_app(config.collector, store, writer)


def _bare(config: CollectorConfig, store: Store) -> FastAPI:
    app = FastAPI(title="gpuledger", docs_url=None, redoc_url=None, openapi_url=None)
    access = access_of(config, store.path)
    app.add_middleware(Gate, access=access)
    app.state.access = access
    add_server_metrics(app, CollectorRegistry())
    _run_beside(app, access.start, access.stop)
    add_health(app, lambda: True, Readiness([lambda: check_store(store)]))
    return app


def _run_beside(app: FastAPI, start: Callable[[], None], end: Callable[[], None]) -> None:
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
