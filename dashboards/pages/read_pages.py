"""Pages and their sheets, kept until the ledger changes: whole where they are ready, else what there is, with its time.

They are read through the API's door: what a key may not see is not read for it, nor summed. A browser that opens a page
does not look at nothing: after PATIENCE_SECONDS it gets the page as it was before the ledger changed, or the frame
alone, and asks again by itself. Scripts, and parts of pages, wait until what they asked for is made.
"""

import re
import threading
import time
import zlib
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import TypeVar
from urllib.parse import quote, urlencode

from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.responses import Response

from agent.wire.units import HOUR_US, MINUTE_US
from analyzer.errors import ConfigError, EmptyLedgerError, LedgerError
from analyzer.interfaces.api.parameters import BusyError
from analyzer.interfaces.api.request_service import RequestContext, RequestService, Scope, names_tag
from analyzer.ledger.coverage import newest_hour_end
from analyzer.period import Period, local
from analyzer.reports.reader import Reader
from analyzer.text.table import csv_text, for_spreadsheet, with_readable
from analyzer.text.words import counted, days, moment_words, plain
from collector.background import IS_OWN_SENDER
from dashboards.disk_cache import PageRecord
from dashboards.page_cache import PageCache
from dashboards.pages.frame import SECURITY, STRICT, Frame

PATIENCE_SECONDS = 0.3  # a third of what a first look may take
_AGAIN_SECONDS = 1  # after which a browser asks again
_AT_ONCE = "wait=0"  # RFC 7240: who prefers it takes a part as it was, or none, and waits the next time
_SEEN = 8  # views whose pages are made ahead: the whole site, and teams' keys
PAGE, PART = "text/html; charset=utf-8", "text/html;charset=utf-8"
_ACCEPTED, _SEE_OTHER, _NOT_MODIFIED, _BAD_REQUEST, _NOT_FOUND, _UNAVAILABLE = 202, 303, 304, 400, 404, 503

State = Callable[[], Hashable]
_Make = Callable[[], tuple[Hashable, str]]


@dataclass(frozen=True, slots=True)
class Wanted:
    """One page for one scope: `what` is its address in one spelling. `make` returns it and the state that it is of."""

    scope: Scope
    what: Hashable
    make: _Make
    here: str | None = None  # which page of the navigation it belongs to
    kind: str = PAGE

    @property
    def lasts(self) -> bool:
        """Whether it is kept for the next start: pages and their parts, not the curves of each zoom."""
        return self.kind in (PAGE, PART)


class Answering:
    """Answers a site's pages; `state` names the ledger's present state."""

    def __init__(self, frame: Frame, state: State, cache: PageCache | None = None) -> None:
        self.frame = frame
        self._state = state
        self.cache = cache or PageCache()
        self._seen: OrderedDict[Scope, None] = OrderedDict()
        self._lock = threading.Lock()

    def answer(
        self, request: Request, wanted: Wanted, headers: Mapping[str, str], state: Hashable | None = None
    ) -> Response:
        """Return the page, that it is as it was, or what there is of it at once.

        `state` is what the page must be of, where that is not the ledger's alone.

        Raises:
            LedgerError, ConfigError, BusyError: it cannot be made.
        """
        state, token = self._state() if state is None else state, request.scope.get("csrf", "")
        if wanted.kind == PART and request.headers.get("prefer") == _AT_ONCE:
            return self._at_once(request, wanted, headers, state)
        patience = None
        if is_opened(request) and wanted.kind == PAGE:
            self._see(wanted.scope)
            patience = PATIENCE_SECONDS
        made = self.cache.get(self._key(wanted), state, _made(wanted.make), patience, lasts=wanted.lasts)
        is_old = made is not None and made.state != state
        if made is None or (is_old and not self.frame.tells_time(made.text)):
            again = self.frame.render("waiting.html", wanted.here, None, wanted.scope.teams, again=_address(request))
            return Response(again, _ACCEPTED, _soon(request, headers), PAGE)
        if is_old:
            page = self.frame.finished(made.text, older_than_now=made.read_at, token=token)
            return Response(page, headers=_soon(request, headers), media_type=PAGE)
        page = self.frame.finished(made.text, token=token) if wanted.kind == PAGE else made.text
        return _tagged(request, page, headers, wanted.kind)

    def _at_once(self, request: Request, wanted: Wanted, headers: Mapping[str, str], state: Hashable) -> Response:
        """Return what is kept of a part, of before with its time; who finds nothing here asks again and waits."""
        made = self.cache.kept(self._key(wanted), state, lasts=wanted.lasts)
        if made is None:
            return Response(status_code=_ACCEPTED, headers=_soon(request, headers))
        if made.state == state:
            return _tagged(request, made.text, headers, wanted.kind)
        part = self.frame.part_of_before(made.text, made.read_at)
        return Response(part, headers=_soon(request, headers), media_type=wanted.kind)

    def seen(self) -> list[Scope]:
        """Return who may see what, of those who opened a page lately; the newest first."""
        with self._lock:
            return list(reversed(self._seen))

    def _see(self, scope: Scope) -> None:
        with self._lock:
            self._seen[scope] = None
            self._seen.move_to_end(scope)
            if len(self._seen) > _SEEN:
                self._seen.popitem(last=False)

    def ahead(self, wanted: Wanted) -> None:
        """Make a page before anybody asks for it, where it is not kept. Raises as answer() does."""
        self.cache.get(self._key(wanted), self._state(), _made(wanted.make), lasts=wanted.lasts)

    def _key(self, wanted: Wanted) -> Hashable:
        """Return what decides what a page shows: who may see what comes first, so that nobody gets another's."""
        return wanted.scope, self.frame.asks, wanted.kind, wanted.what


def _made(make: _Make) -> Callable[[], PageRecord]:
    def made() -> PageRecord:
        read_at = time.time_ns() // 1000
        state, text = make()
        return PageRecord(state, text, read_at)

    return made


def kind_of(request: Request) -> str:
    """Return whether a part is asked for by our script, or opened by itself, as a page of its own."""
    return PAGE if is_opened(request) else PART


def is_opened(request: Request) -> bool:
    """Whether a browser opens it, rather than a script or a program."""
    return request.headers.get("sec-fetch-dest") == "document"


def _address(request: Request) -> str:
    path = quote(request.url.path)
    return f"{path}?{request.url.query}" if request.url.query else path


def _soon(request: Request, headers: Mapping[str, str]) -> dict[str, str]:
    """Have a browser ask again: for a named address, since one with a fragment it would scroll to and not ask for."""
    return {**headers, "Refresh": f"{_AGAIN_SECONDS}; url={_address(request)}", "Cache-Control": "no-store"}


def _tagged(request: Request, page: str, headers: Mapping[str, str], kind: str) -> Response:
    """Return the page, or that it is as it was: what is looked at all day asks again and again."""
    tag = f'W/"{zlib.crc32(page.encode()):08x}"'  # weak: a proxy that compresses would make it so, and nobody match
    if names_tag(request.headers, tag):
        return Response(status_code=_NOT_MODIFIED, headers={**headers, "ETag": tag})
    return Response(page, media_type=kind, headers={**headers, "ETag": tag})


T = TypeVar("T")
_RECENT_SECONDS = 30
WEEK_JSON = "/v1/read?what=week&format=json"
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


def period_view(reader: Reader, period: Period) -> dict[str, object]:
    """Return a period with its days, and the weeks (or months) before and after where the ledger has hours of them."""
    before, after = _neighbours(reader, period) if re.fullmatch(_NAMED, period.label) else (None, None)
    return {"period": period, "days": days(period), "before": before, "after": after}


def _neighbours(reader: Reader, period: Period) -> tuple[str | None, str | None]:
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


_View = Callable[[RequestContext], Mapping[str, object] | str]
_FIRST_SECONDS = 10  # after which a page of a server without an hour is asked for again
SITE = "{site}"  # in a line to paste, where the settings do not say how agents reach this server
_BOOKED_AFTER_US = 5 * MINUTE_US  # an hour's end, at the latest: a pass, and what its last batch took
_PRICE = """# prices.toml, which gpuledger.toml names:
# [analyzer] prices = "prices.toml"
[[price]]
sku = "{sku}"
purchase_option = "any"
usd_per_gpu_hour =   # what this site pays
from = {month}
source = "contract"
as_of = {today}"""
_TEAM = """# teams.toml, which gpuledger.toml names:
# [analyzer] teams = "teams.toml"
[[rule]]
team = "team-nlp"
account = "nlp"   # of Slurm"""
_HEARD = f"""
SELECT count(DISTINCT agent) FILTER (NOT {IS_OWN_SENDER}), coalesce(bool_or(starts_with(agent, 'prometheus:')), false),
    coalesce(min(received_at), $now), (SELECT min(sku) FROM inventory)
FROM receipts WHERE NOT starts_with(agent, 'import:')
"""


@dataclass(frozen=True, slots=True)
class FirstStep:
    """One thing that a new site does first: what is so now, and what to paste where it is to be done, one or other."""

    name: str
    is_done: bool
    words: str
    lines: tuple[str, ...] = ()


def first_steps(context: RequestContext, now_us: int, *, has_figures: bool) -> list[FirstStep]:
    """Return what a site without a whole hour has done, and has still to do."""
    settings = context.reader.settings
    agents, reads_prometheus, since, sku = context.whole.session.row(_HEARD, {"now": now_us})
    whole = moment_words((since // HOUR_US + 1) * HOUR_US + _BOOKED_AFTER_US, settings.timezone)
    figures = "The figures below are" if has_figures else "The first figures come a minute after the first batch,"
    today = local(now_us, settings.timezone)
    agent = f"gpuledger agent --collector {settings.site_url or SITE}"
    history = "gpuledger import prometheus \\\n  --url http://prometheus:9090 --since 4w"
    price = _PRICE.format(sku=plain(sku or "H100-80GB"), month=f"{today:%Y-%m}-01", today=f"{today:%Y-%m-%d}")
    if agents:
        heard = f"{counted(agents, 'agent')} seen."
    elif reads_prometheus:
        heard = "A Prometheus is read."
    else:
        heard = "On a GPU host; or what a Prometheus already has."
    prices, teams = settings.prices, settings.teams
    hours = "No price is guessed: until one is known, figures are hours."
    unmapped = "Until they are known, runs are of no team."
    return [
        FirstStep("Agent", agents > 0 or reads_prometheus, heard, (agent, history)),
        FirstStep("Prices", prices is not None, f"Read from {prices}." if prices else hours, (price,)),
        FirstStep("Teams", teams is not None, f"Read from {teams}." if teams else unmapped, (_TEAM,)),
        FirstStep("First hour", False, f"{figures} preliminary; the first hour is whole {whole}."),
    ]


@dataclass(frozen=True, slots=True)
class ReadPage:
    """One page in one state: what is read for it, which changes with the ledger alone, and the template that prints it.

    A view that returns a text needs none. `here` is which page of the navigation it belongs to, by default itself;
    `refusal` is the template that says why it cannot be read.
    """

    asked: PageState
    template: str
    view: _View
    kind: str = PAGE
    here: str | None = None
    headers: Mapping[str, str] = field(default_factory=STRICT.copy)
    refusal: str = "told.html"


def site_page(asked: PageState, template: str, view: _View, kind: str = PAGE, here: str = "/") -> ReadPage:
    """Return a page of what may be seen, without a form that changes anything: one of the fleet's."""
    return ReadPage(asked, template, view, kind, here, SECURITY, "message.html")


class ReadPages:
    """Answers with pages and sheets of what a request may see."""

    def __init__(self, service: RequestService, frame: Frame, answering: Answering) -> None:
        self._service = service
        self.frame = frame
        self._answering = answering

    def page(self, request: Request, shown: ReadPage) -> Response:
        """Return a page that is kept until the ledger changes."""
        wanted = self._wanted(Scope.of(request.scope), shown)
        return self._answer(wanted.scope, shown, lambda: self._answering.answer(request, wanted, shown.headers))

    def fresh(self, request: Request, shown: ReadPage) -> Response:
        """Return a page that changes though the ledger does not: it is read for everybody anew."""
        scope = Scope.of(request.scope)

        def made() -> Response:
            with self._service.context(scope) as context:
                return HTMLResponse(self.frame.finished(self._draft(context, shown)), headers=shown.headers)

        return self._answer(scope, shown, made)

    def recent(self, request: Request, shown: ReadPage, also: Hashable = None) -> Response:
        """Return a page that changes by itself too: to a browser one of the last seconds, so that it never waits.

        `also` is what it must be of beside the ledger.
        """
        if not is_opened(request):
            return self.fresh(request, shown)
        state = (self._service.generation(), int(time.time() // _RECENT_SECONDS), also)
        wanted = self._wanted(Scope.of(request.scope), shown)
        made = replace(wanted, make=lambda: (state, wanted.make()[1]))
        return self._answer(wanted.scope, shown, lambda: self._answering.answer(request, made, shown.headers, state))

    def _answer(self, scope: Scope, shown: ReadPage, answer: Callable[[], Response]) -> Response:
        try:
            return answer()
        except (LedgerError, ConfigError, BusyError) as error:
            return self.refused(shown, scope, error)

    def ahead(self, shown: ReadPage, scope: Scope) -> None:
        """Make the page of one view before it is asked for. Raises what is wrong with the ledger or the store."""
        self._answering.ahead(self._wanted(scope, shown))

    def seen(self) -> list[Scope]:
        """Return who may see what, of those who opened a page lately; the newest first."""
        return self._answering.seen()

    def read_ahead(self, read: Callable[[RequestContext], T]) -> T:
        """Read something of the whole site: what is kept of it is kept as long as the ledger is as it is."""
        with self._service.context(Scope()) as context:
            return read(context)

    def _wanted(self, scope: Scope, shown: ReadPage) -> Wanted:
        def make() -> tuple[Hashable, str]:
            with self._service.context(scope) as context:
                return context.generation, self._draft(context, shown)

        what = (shown.template, shown.asked.link())
        return Wanted(scope, what, make, shown.here or shown.asked.here, shown.kind)

    def _draft(self, context: RequestContext, shown: ReadPage) -> str:
        view, asked = shown.view(context), shown.asked
        if isinstance(view, str):
            return view
        around = {"asked": asked, "link": asked.link}
        here, teams = shown.here or asked.here, context.scope.teams
        ends = newest_hour_end(context.session)
        return self.frame.draft(shown.template, here, asked.week, teams, ends, **{**around, **view})

    def change(self, request: Request, shown: ReadPage, keep: Callable[[RequestContext], None], place: str) -> Response:
        """Keep what somebody says and send the browser to a place of the page, made anew: who decided sees it decided.

        Or return the page that says why it is refused.
        """
        scope = Scope.of(request.scope)

        def made() -> Response:
            with self._service.context(scope) as context:
                keep(context)
            self._answering.ahead(self._wanted(scope, shown))
            return RedirectResponse(f"{shown.asked.link()}#{quote(place)}", _SEE_OTHER, STRICT)

        return self._answer(scope, shown, made)

    def refused(self, shown: ReadPage, scope: Scope, error: Exception) -> Response:
        """Return the page that says what is wrong with what was asked."""
        here = shown.here or shown.asked.here
        if isinstance(error, EmptyLedgerError) and shown.kind == PAGE and scope.teams is None:
            return self._first(shown, here)
        page = self.frame.render(shown.refusal, here, None, scope.teams, message=str(error), json_link=WEEK_JSON)
        return HTMLResponse(page, _status_of(error), shown.headers)

    def _first(self, shown: ReadPage, here: str) -> Response:
        """Return what a site does before its first hour; it asks again by itself until there are figures."""
        with self._service.context(Scope()) as context:
            steps = first_steps(context, time.time_ns() // 1000, has_figures=False)
        page = self.frame.render("first_hour.html", here, steps=steps)
        soon = {"Refresh": str(_FIRST_SECONDS), "Cache-Control": "no-store"}
        return HTMLResponse(page, headers={**shown.headers, **soon})

    def sheet(self, request: Request, name: str, sheets: Mapping[str, Callable[[RequestContext], Sheet]]) -> Response:
        """Return one of a page's sheets as CSV."""
        if name not in sheets:
            known = ", ".join(sheets)
            return Response(f"there is no sheet {name!r}; there are {known}\n", _NOT_FOUND, STRICT, "text/plain")
        try:
            with self._service.context(Scope.of(request.scope)) as context:
                made, settings = sheets[name](context), context.reader.settings
                table = with_readable(made.head, made.rows, settings.currency, settings.timezone)
        except (LedgerError, ConfigError, BusyError) as error:
            return Response(f"{error}\n", _status_of(error), STRICT, "text/plain; charset=utf-8")
        kept = {"Content-Disposition": f'attachment; filename="{name}"'}
        return Response(for_spreadsheet(csv_text(*table)), media_type=_CSV, headers=STRICT | kept)


def _status_of(error: Exception) -> int:
    if isinstance(error, BusyError):
        return _UNAVAILABLE
    return _NOT_FOUND if isinstance(error, LedgerError) else _BAD_REQUEST
