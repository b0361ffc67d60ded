"""Pages that are read through the API's door: what a key may not see is not read for it, nor summed."""

import re
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.responses import Response

from analyzer.errors import ConfigError, LedgerError
from analyzer.interfaces.api.faults import BusyError
from analyzer.interfaces.api.scope import Scope
from analyzer.period import Period
from analyzer.text.table import csv_text
from dashboards.pages.answering import PAGE, Answering, Wanted, is_opened
from dashboards.pages.frame import STRICT, Frame

if TYPE_CHECKING:
    from analyzer.interfaces.api.request_service import RequestContext, RequestService
    from analyzer.reports.reader import Reader

_SEE_OTHER, _NOT_FOUND, _BAD_REQUEST, _UNAVAILABLE = 303, 404, 400, 503
_RECENT_SECONDS = 30
_CSV = "text/csv; charset=utf-8"
_NAMED = r"\d{4}-(W\d{2}|\d{2})"  # the periods that have a next one


@dataclass(frozen=True, slots=True)
class Sheet:
    """The numbers of a table or chart, exact: what its CSV holds. `head` names the unit of each column."""

    head: tuple[str, ...]
    rows: Sequence[Sequence[object]]


def sheet_of(columns: Mapping[str, str], things: Iterable[object]) -> Sheet:
    """Return a sheet of two columns or more, each by its name and the attribute that it shows, such as unit.column."""
    values = attrgetter(*columns.values())
    return Sheet(tuple(columns), [values(thing) for thing in things])


def neighbours(reader: "Reader", period: Period) -> tuple[str | None, str | None]:
    """Return the labels of the weeks (or months) before and after, where the ledger has hours of them."""
    if not re.fullmatch(_NAMED, period.label):
        return None, None
    oldest, newest = reader.session.row("SELECT min(hour), max(hour) FROM ledger_hours")
    before = reader.calendar.before(period) if oldest is not None and oldest < period.start else None
    kind = reader.calendar.week_of if "W" in period.label else reader.calendar.month_of
    after = kind(period.end) if newest is not None and newest >= period.end else None
    return before.label if before else None, after.label if after else None


@dataclass(frozen=True, slots=True)
class PageState:
    """The state of a page as its address has it: which page, which period, and what else was chosen."""

    here: str
    week: str | None = None
    chosen: Mapping[str, str] = field(default_factory=dict)

    def link(self, path: str | None = None, **changed: str | None) -> str:
        """Return the address of this state, or of one that differs; None leaves a word out."""
        words = {"week": self.week, **self.chosen, **changed}
        query = urlencode({name: value for name, value in words.items() if value})
        return f"{path or self.here}?{query}" if query else path or self.here


_View = Callable[["RequestContext"], Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class ReadPage:
    """One page in one state: its template, and what is read for it, which changes with the ledger alone."""

    asked: PageState
    template: str
    view: _View
    kind: str = PAGE


class ReadPages:
    """Answers with pages and sheets of what a request may see."""

    def __init__(self, service: "RequestService", frame: Frame, answering: Answering) -> None:
        self._service = service
        self.frame = frame
        self._answering = answering

    def page(self, request: Request, shown: ReadPage) -> Response:
        """Return a page that is kept until the ledger changes."""
        scope = Scope.of(request.scope)
        try:
            return self._answering.answer(request, self._wanted(scope, shown), STRICT)
        except (LedgerError, ConfigError, BusyError) as error:
            return self.told(shown.asked, scope.teams, error)

    def fresh(self, request: Request, asked: PageState, template: str, view: _View) -> Response:
        """Return a page that changes though the ledger does not: it is read for everybody anew."""
        scope = Scope.of(request.scope)
        try:
            with self._service.context(scope) as context:
                return HTMLResponse(self.frame.finished(self._draft(context, asked, template, view)), headers=STRICT)
        except (LedgerError, ConfigError, BusyError) as error:
            return self.told(asked, scope.teams, error)

    def recent(self, request: Request, shown: ReadPage, also: Hashable = None) -> Response:
        """Return a page that changes by itself too: to a browser one of the last seconds, so that it never waits.

        `also` is what it must be of beside the ledger.
        """
        if not is_opened(request):
            return self.fresh(request, shown.asked, shown.template, shown.view)
        state = (self._service.generation(), int(time.time() // _RECENT_SECONDS), also)
        wanted = self._wanted(Scope.of(request.scope), shown)
        made = replace(wanted, make=lambda: (state, wanted.make()[1]))
        try:
            return self._answering.answer(request, made, STRICT, state)
        except (LedgerError, ConfigError, BusyError) as error:
            return self.told(shown.asked, wanted.scope.teams, error)

    def ahead(self, shown: ReadPage, scope: Scope) -> None:
        """Make the page of one view before it is asked for. Raises what is wrong with the ledger or the store."""
        self._answering.ahead(self._wanted(scope, shown))

    def read_ahead(self, read: Callable[["RequestContext"], object]) -> None:
        """Read something of the whole site that is kept as long as the ledger is as it is."""
        with self._service.context(Scope()) as context:
            read(context)

    def _wanted(self, scope: Scope, shown: ReadPage) -> Wanted:
        def make() -> tuple[Hashable, str]:
            with self._service.context(scope) as context:
                return context.generation, self._draft(context, shown.asked, shown.template, shown.view)

        return Wanted(scope, (shown.template, shown.asked.link()), make, shown.asked.here, shown.kind)

    def _draft(self, context: "RequestContext", asked: PageState, template: str, view: _View) -> str:
        shown = {"asked": asked, "link": asked.link, **view(context)}
        return self.frame.draft(template, asked.here, asked.week, context.scope.teams, **shown)

    def change(
        self, request: Request, shown: ReadPage, keep: Callable[["RequestContext"], None], place: str
    ) -> Response:
        """Keep what somebody says and send the browser to a place of the page, made anew: who decided sees it decided.

        Or return the page that says why it is refused.
        """
        scope = Scope.of(request.scope)
        try:
            with self._service.context(scope) as context:
                keep(context)
            self._answering.ahead(self._wanted(scope, shown))
        except (LedgerError, ConfigError, BusyError) as error:
            return self.told(shown.asked, scope.teams, error)
        return RedirectResponse(f"{shown.asked.link()}#{quote(place)}", _SEE_OTHER, STRICT)

    def told(self, asked: PageState, teams: tuple[str, ...] | None, error: Exception) -> Response:
        """Return the page that says what is wrong with what was asked."""
        status = _NOT_FOUND if isinstance(error, LedgerError) else _BAD_REQUEST
        status = _UNAVAILABLE if isinstance(error, BusyError) else status
        page = self.frame.render("told.html", asked.here, None, teams, message=f"{error}.")
        return HTMLResponse(page, status, STRICT)

    def sheet(self, request: Request, name: str, sheets: Mapping[str, Callable[["RequestContext"], Sheet]]) -> Response:
        """Return one of a page's sheets as CSV."""
        if name not in sheets:
            known = ", ".join(sheets)
            return Response(f"there is no sheet {name!r}; there are {known}\n", _NOT_FOUND, STRICT, "text/plain")
        try:
            with self._service.context(Scope.of(request.scope)) as context:
                made = sheets[name](context)
        except (LedgerError, ConfigError, BusyError) as error:
            status = _NOT_FOUND if isinstance(error, LedgerError) else _BAD_REQUEST
            return Response(f"{error}\n", status, STRICT, "text/plain; charset=utf-8")
        kept = {"Content-Disposition": f'attachment; filename="{name}"'}
        return Response(csv_text(made.head, made.rows), media_type=_CSV, headers=STRICT | kept)
