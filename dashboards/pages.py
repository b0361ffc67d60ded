"""The pages: plain HTML from the ledger alone, with the state of the view in the address."""

import logging
import zlib
from collections.abc import Callable
from functools import partial
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import HTMLResponse

from analyzer.api.generation import MARKS
from analyzer.errors import AnalyzerError, ConfigError, LedgerError
from analyzer.period import Period
from analyzer.reading import Reader
from analyzer.report.charts import finding_charts
from analyzer.report.finding_view import Explained, Words, finding_view
from analyzer.report.run import run_names
from collector.errors import CollectorError
from dashboards import fleet_page, run_page
from dashboards.cache import PageCache
from dashboards.fleet_page import FleetAsked
from dashboards.frame import Frame
from dashboards.run_signals import Remembered
from dashboards.run_timeline import TimelineAsked, as_csv, as_json, read_timeline

LOG = logging.getLogger(__name__)
# Nothing inline, nothing from elsewhere; plotly's pictures of charts are blobs, which leave the browser by no way.
SECURITY = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "private, no-cache",
    "Vary": "Authorization, Cookie, Sec-Fetch-Dest",
}
NOT_MODIFIED, NOT_FOUND, BAD_REQUEST = 304, 404, 400
PAGE, PART = "text/html; charset=utf-8", "text/html;charset=utf-8"
TYPES = {"json": "application/json", "csv": "text/csv; charset=utf-8"}


Render = Callable[[Reader], str]


class Pages:
    """Renders pages for one site; `read` opens a reader on the store, which each request closes."""

    def __init__(self, read: Callable[[], Reader], frame: Frame) -> None:
        self._read = read
        self._frame = frame
        self._cache = PageCache()
        self._remembered = Remembered()

    def router(self) -> APIRouter:
        """Return the routes."""
        router = APIRouter()

        @router.get("/")
        def home(request: Request, asked: Annotated[FleetAsked, Depends(FleetAsked)]) -> Response:
            return self._page(request, lambda reader: self._home(reader, asked))

        @router.get("/parts/{name}")
        def fleet_part(request: Request, name: str, asked: Annotated[FleetAsked, Depends(FleetAsked)]) -> Response:
            kind = kind_of(request)
            return self._page(request, lambda reader: self._fleet_part(reader, name, asked, kind), kind)

        @router.get("/runs/{run_id:path}/parts/{name}")
        def run_part(request: Request, run_id: str, name: str) -> Response:
            kind = kind_of(request)
            return self._page(request, lambda reader: self._run_part(reader, run_id, name, kind), kind)

        @router.get("/runs/{run_id:path}/timeline")
        def zoom(request: Request, run_id: str, asked: Annotated[TimelineAsked, Depends(TimelineAsked)]) -> Response:
            kind = TYPES[asked.format]
            return self._page(request, lambda reader: self._timeline(reader, run_id, asked), kind)

        @router.get("/runs/{run_id:path}")
        def run(request: Request, run_id: str) -> Response:
            return self._page(request, lambda reader: self._run(reader, run_id))

        @router.get("/findings/{finding_id}")
        def finding(request: Request, finding_id: str, week: str | None = None) -> Response:
            return self._page(request, lambda reader: self._finding(reader, finding_id, week))

        return router

    def warm(self) -> None:
        """Render the front page and its parts, so that nobody waits for them; called when the ledger has changed."""
        asked = FleetAsked()
        try:
            self._kept("/", "", PAGE, lambda reader: self._home(reader, asked))
            for name in fleet_page.WARMED:
                self._kept(f"/parts/{name}", "", PART, partial(self._fleet_part, name=name, asked=asked, kind=PART))
        except (AnalyzerError, CollectorError) as error:
            LOG.info("the front page is not rendered ahead: %s", error)

    def _page(self, request: Request, render: Render, kind: str = PAGE) -> Response:
        try:
            return _answer(request, self._kept(request.url.path, request.url.query, kind, render), kind)
        except (LedgerError, ConfigError) as error:
            status = NOT_FOUND if isinstance(error, LedgerError) else BAD_REQUEST
            return HTMLResponse(self._message(str(error)), status_code=status, headers=SECURITY)

    def _kept(self, path: str, query: str, kind: str, render: Render) -> str:
        """Return a page of the ledger's present state, rendered where it is not kept."""
        frame, reader = self._frame.state, self._read()
        with reader.session:  # the ledger may also be analysed by another process, which leaves its mark there
            state = reader.kept.name(reader.session) if reader.kept else str(reader.session.rows(MARKS))
            around = frame if kind == PAGE else None  # nothing else has one
            return self._cache.get((path, query, kind, around, state), lambda: render(reader))

    def _message(self, text: str) -> str:
        reader = self._read()
        with reader.session:
            return self._render("message.html", reader, None, message=text)

    def _render(self, template: str, reader: Reader, week: str | None, **view: object) -> str:
        around = {"json_link": _json_link("week", None, week), "words": _words(reader)}
        return self._frame.render(template, "/", week, None, **(around | view))

    def _home(self, reader: Reader, asked: FleetAsked) -> str:
        return self._render("home.html", reader, asked.week, **fleet_page.shell(reader, asked))

    def _fleet_part(self, reader: Reader, name: str, asked: FleetAsked, kind: str) -> str:
        return self._part(reader, name, kind, asked.week, fleet_page.part(reader, name, asked))

    def _run_part(self, reader: Reader, run_id: str, name: str, kind: str) -> str:
        return self._part(reader, f"run_{name}", kind, None, run_page.part(reader, name, run_id))

    def _part(self, reader: Reader, name: str, kind: str, week: str | None, view: dict[str, object]) -> str:
        template = "part.html" if kind == PAGE else f"parts/{name}.html"
        return self._render(template, reader, week, name=name, **view)

    def _run(self, reader: Reader, run_id: str) -> str:
        return self._render("run.html", reader, None, **run_page.shell(reader, run_id))

    def _timeline(self, reader: Reader, run_id: str, asked: TimelineAsked) -> str:
        zoom = read_timeline(reader.session, self._remembered, run_id, asked, reader.settings.timezone)
        return as_csv(zoom) if asked.format == "csv" else as_json(zoom)

    def _finding(self, reader: Reader, finding_id: str, week: str | None) -> str:
        explained = _explained(reader, finding_id, week)
        plot = explained.argument.plot if explained.argument else None
        return self._render(
            "finding.html",
            reader,
            week,
            view=finding_view(explained),
            json_link=_json_link("explain", explained.finding.id, week),
            names=run_names(reader.session, explained.finding.run_ids),
            charts=finding_charts(explained.finding, plot, reader.settings.timezone),
        )


def _explained(reader: Reader, finding_id: str, week: str | None) -> Explained:
    """Return a finding of a week; where none is named, of the last complete one, else of the one that last had it."""
    try:
        return reader.explain(finding_id, reader.period(week))
    except LedgerError:
        if week is not None or (elsewhere := reader.last_seen(finding_id)) is None:
            raise
        return reader.explain(finding_id, elsewhere)


def _json_link(what: str, subject: str | None = None, week: str | None = None) -> str:
    asked = {"what": what, "subject": subject, "since": week, "format": "json"}
    return f"/v1/read?{urlencode({name: value for name, value in asked.items() if value})}"


def _words(reader: Reader, span: Period | None = None) -> Words:
    return Words(reader.settings.currency, reader.settings.timezone, span)


def kind_of(request: Request) -> str:
    """Return whether a part is asked for by our script, or opened by itself, as a page of its own."""
    return PAGE if request.headers.get("sec-fetch-dest") == "document" else PART


def _answer(request: Request, page: str, kind: str) -> Response:
    """Return the page, or that it is as it was: what is looked at all day asks again and again."""
    tag = f'"{zlib.crc32(page.encode()):08x}"'
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=NOT_MODIFIED, headers=SECURITY | {"ETag": tag})
    return Response(page, media_type=kind, headers=SECURITY | {"ETag": tag})
