"""The pages: plain HTML from the ledger alone, with the state of the view in the address."""

from collections.abc import Callable, Hashable, Iterator
from functools import partial
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import HTMLResponse

from analyzer.charts.figures import stacked_bars
from analyzer.errors import ConfigError, LedgerError
from analyzer.interfaces.api.faults import BusyError
from analyzer.interfaces.api.scope import Scope
from analyzer.period import Period
from analyzer.reports.finding_charts import finding_charts
from analyzer.reports.finding_view import Explained, Words
from analyzer.reports.reader import Reader
from analyzer.reports.run import run_names
from dashboards.pages import fleet, run_page
from dashboards.pages.answering import PAGE, PART, Answering, Wanted, kind_of
from dashboards.pages.fleet import FleetAsked
from dashboards.pages.frame import Frame
from dashboards.pages.run_timeline import Remembered, TimelineAsked, as_csv, as_json, read_timeline

# Nothing inline, nothing from elsewhere; plotly's pictures of charts are blobs, which leave the browser by no way.
SECURITY = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "private, no-cache",
    "Vary": "Authorization, Cookie, Sec-Fetch-Dest",
}
_NOT_FOUND, _BAD_REQUEST, _UNAVAILABLE = 404, 400, 503
_TYPES = {"json": "application/json", "csv": "text/csv; charset=utf-8"}


_Render = Callable[[Reader], str]


class Pages:
    """Renders pages for one site; `read` opens a reader on the store, which each request closes."""

    def __init__(self, read: Callable[[], Reader], frame: Frame, answering: Answering) -> None:
        self._read = read
        self._frame = frame
        self._answering = answering
        self._remembered = Remembered()

    def router(self) -> APIRouter:
        """Return the routes."""
        router = APIRouter()

        @router.get("/")
        def home(request: Request, asked: Annotated[FleetAsked, Depends(FleetAsked)]) -> Response:
            return self._page(request, asked, partial(self._home, asked=asked))

        @router.get("/parts/{name}")
        def fleet_part(request: Request, name: str, asked: Annotated[FleetAsked, Depends(FleetAsked)]) -> Response:
            kind = kind_of(request)
            return self._page(
                request, (name, asked), partial(self._fleet_part, name=name, asked=asked, kind=kind), kind
            )

        @router.get("/runs/{run_id:path}/parts/{name}")
        def run_part(request: Request, run_id: str, name: str) -> Response:
            kind = kind_of(request)
            render = partial(self._run_part, run_id=run_id, name=name, kind=kind)
            return self._page(request, ("run", run_id, name), render, kind)

        @router.get("/runs/{run_id:path}/timeline")
        def zoom(request: Request, run_id: str, asked: Annotated[TimelineAsked, Depends(TimelineAsked)]) -> Response:
            render = partial(self._timeline, run_id=run_id, asked=asked)
            return self._page(request, ("zoom", run_id, asked), render, _TYPES[asked.format])

        @router.get("/runs/{run_id:path}")
        def run(request: Request, run_id: str) -> Response:
            return self._page(request, ("run", run_id), partial(self._run, run_id=run_id))

        @router.get("/findings/{finding_id}")
        def finding(request: Request, finding_id: str, week: str | None = None) -> Response:
            render = partial(self._finding, finding_id=finding_id, week=week)
            return self._page(request, ("finding", finding_id, week), render)

        return router

    def first(self, scope: Scope) -> Iterator[Callable[[], None]]:
        """Yield what makes each page that people open first, as far as it is seen at once."""
        for asked in (FleetAsked(), FleetAsked(at="week")):
            yield partial(self._ahead, scope, asked, partial(self._home, asked=asked))

    def rest(self, scope: Scope) -> Iterator[Callable[[], None]]:
        """Yield what makes the rest of them: the parts of the fleet, then the runs that it leads to."""
        asked = FleetAsked()
        for name in fleet.WARMED:
            render = partial(self._fleet_part, name=name, asked=asked, kind=PART)
            yield partial(self._ahead, scope, (name, asked), render, PART)
        for run_id in self._runs_in_view():
            yield partial(self._ahead, scope, ("run", run_id), partial(self._run, run_id=run_id))
            for name in run_page.PARTS:
                render = partial(self._run_part, run_id=run_id, name=name, kind=PART)
                yield partial(self._ahead, scope, ("run", run_id, name), render, PART)

    def _runs_in_view(self) -> list[str]:
        reader = self._read()
        with reader.session:
            return fleet.runs_in_view(reader)

    def _page(self, request: Request, what: Hashable, render: _Render, kind: str = PAGE) -> Response:
        wanted = self._wanted(Scope.of(request.scope), what, render, kind)
        try:
            return self._answering.answer(request, wanted, SECURITY)
        except (LedgerError, ConfigError, BusyError) as error:
            status = _NOT_FOUND if isinstance(error, LedgerError) else _BAD_REQUEST
            status = _UNAVAILABLE if isinstance(error, BusyError) else status
            return HTMLResponse(self._message(str(error)), status_code=status, headers=SECURITY)

    def _ahead(self, scope: Scope, what: Hashable, render: _Render, kind: str = PAGE) -> None:
        self._answering.ahead(self._wanted(scope, what, render, kind))

    def _wanted(self, scope: Scope, what: Hashable, render: _Render, kind: str) -> Wanted:
        def make() -> tuple[Hashable, str]:
            reader = self._read()
            with reader.session, reader.session.transaction():  # one state of the ledger, whatever a pass is at
                return state_of(reader), render(reader)

        return Wanted(scope, what, make, "/", kind)

    def _message(self, text: str) -> str:
        reader = self._read()
        with reader.session:
            return self._frame.finished(self._render("message.html", reader, None, message=text))

    def _render(self, template: str, reader: Reader, week: str | None, **view: object) -> str:
        around = {"json_link": _json_link("week", None, week), "words": _words(reader)}
        return self._frame.draft(template, "/", week, None, **(around | view))

    def _home(self, reader: Reader, asked: FleetAsked) -> str:
        return self._render("home.html", reader, asked.week, **fleet.shell(reader, asked))

    def _fleet_part(self, reader: Reader, name: str, asked: FleetAsked, kind: str) -> str:
        return self._part(reader, name, kind, asked.week, fleet.fleet_part(reader, name, asked))

    def _run_part(self, reader: Reader, run_id: str, name: str, kind: str) -> str:
        return self._part(reader, f"run_{name}", kind, None, run_page.run_part(reader, name, run_id))

    def _part(self, reader: Reader, name: str, kind: str, week: str | None, view: dict[str, object]) -> str:
        template = "part.html" if kind == PAGE else f"parts/{name}.html"
        return self._render(template, reader, week, name=name, **view)

    def _run(self, reader: Reader, run_id: str) -> str:
        return self._render("run.html", reader, None, **run_page.shell(reader, run_id))

    def _timeline(self, reader: Reader, run_id: str, asked: TimelineAsked) -> str:
        known = self._remembered.of(state_of(reader))
        zoom = read_timeline(reader.session, known, run_id, asked, reader.settings.timezone)
        return as_csv(zoom) if asked.format == "csv" else as_json(zoom)

    def _finding(self, reader: Reader, finding_id: str, week: str | None) -> str:
        explained = _explained(reader, finding_id, week)
        plot = explained.argument.plot if explained.argument else None
        shown = finding_charts(explained.finding, plot, reader.settings.timezone)
        return self._render(
            "finding.html",
            reader,
            week,
            view=explained,
            json_link=_json_link("explain", explained.finding.id, week),
            names=run_names(reader.session, explained.finding.run_ids),
            drawings=[(each, stacked_bars(each)) for each in shown],
        )


def _explained(reader: Reader, finding_id: str, week: str | None) -> Explained:
    """Return a finding of a week; where none is named, of the last complete one, else of the one that last had it."""
    try:
        return reader.explain(finding_id, reader.period(week))
    except LedgerError:
        if week is not None or (elsewhere := reader.last_seen(finding_id)) is None:
            raise
        return reader.explain(finding_id, elsewhere)


def state_of(reader: Reader) -> Hashable:
    """Return the state of the ledger that a reader sees."""
    if reader.kept is None:
        raise RuntimeError("BUG: readers of a server keep what they make")
    return reader.kept.name(reader.session)


def _json_link(what: str, subject: str | None = None, week: str | None = None) -> str:
    asked = {"what": what, "subject": subject, "since": week, "format": "json"}
    return f"/v1/read?{urlencode({name: value for name, value in asked.items() if value})}"


def _words(reader: Reader, span: Period | None = None) -> Words:
    return Words(reader.settings.currency, reader.settings.timezone, span)
