"""The page of the fleet: its shell with the live grid, and the parts that a browser asks for one after the other.

The shell reads the newest hour alone and is there at once, whatever the size of the fleet; what reads a whole week, or
looks at samples, comes as a part of its own.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import starmap
from typing import Annotated, Literal, TypeVar
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from agent.wire.units import HOUR_MS, HOUR_US, MICROS
from analyzer.charts.figures import stacked_bars
from analyzer.charts.series import Chart, Trace, chart
from analyzer.errors import LedgerError
from analyzer.interfaces.api.request_service import RequestContext
from analyzer.interfaces.html import week_view
from analyzer.interfaces.text.finding_text import notice_line
from analyzer.interfaces.text.savings_text import bill_words
from analyzer.interfaces.text.sentences import next_step
from analyzer.ledger.breakdown import BreakdownLine, breakdown_lines
from analyzer.ledger.coverage import rules_in
from analyzer.ledger.pending import reached_until
from analyzer.period import Period, local
from analyzer.queries.ledger_query import Breakdown, BreakdownEntry, breakdown, within
from analyzer.reports.findings import FindingsReport
from analyzer.reports.reader import Reader
from analyzer.reports.recommendation_words import is_predicted
from analyzer.reports.run_list import most_expensive_runs
from analyzer.reports.week import WeekReport, best_next_step, by_saving
from analyzer.states import CLASSES, Class, booking
from analyzer.text.words import counted, money, nearest, percent, span_words, symbol
from collector.store.session import Session
from dashboards.pages.finding import listed_findings
from dashboards.pages.grid import fleet_grid, node_panel
from dashboards.pages.health import unjudged_rules
from dashboards.pages.marks import BarSegment, Mark, cost_steps
from dashboards.pages.read_pages import (
    PAGE,
    PART,
    PageState,
    ReadPage,
    ReadPages,
    first_steps,
    kind_of,
    period_view,
    site_page,
)

T = TypeVar("T")
_At = Literal["now", "week"]
_View = dict[str, object]
_FINDINGS_SHOWN = 12
_RUNS_SHOWN = 25
_RUNNING_SHOWN = 8  # of which the page is made before anybody opens it
_CHANGED_SHOWN, _CAME_SHOWN = 6, 5
_BARS = 56  # of the chart at most; a week gives bars of three hours


@dataclass(frozen=True, slots=True)
class FleetAsked:
    """The state of the view: which week, the grid of now or of the week, and the node that is looked into."""

    week: str | None = None
    at: _At | None = None
    node: str | None = None

    @property
    def grid_at(self) -> _At:
        """Whose grid is shown: without a word that of now, of an older week its own."""
        return self.at or ("now" if self.week is None else "week")

    def query(self, **changed: str | None) -> str:
        """Return the address of this view's state, "?week=…", with some of it changed; None leaves out."""
        state = {"week": self.week, "at": self.at, "node": self.node} | changed
        words = urlencode({name: value for name, value in state.items() if value})
        return f"?{words}" if words else ""


def fleet_routes(pages: ReadPages) -> APIRouter:
    """Return the routes of the page and of its parts."""
    router = APIRouter()

    @router.get("/")
    def home(request: Request, asked: Annotated[FleetAsked, Depends(FleetAsked)]) -> Response:
        return pages.page(request, fleet(asked))

    @router.get("/parts/{name}")
    def part(request: Request, name: str, asked: Annotated[FleetAsked, Depends(FleetAsked)]) -> Response:
        return pages.page(request, fleet_part(name, asked, kind_of(request)))

    return router


def fleet(asked: FleetAsked) -> ReadPage:
    """Return the page in one state."""
    return site_page(_state("/", asked), "home.html", lambda context: shell(context, asked))


def fleet_part(name: str, asked: FleetAsked, kind: str = PART) -> ReadPage:
    """Return one part of the page."""
    template = "part.html" if kind == PAGE else f"parts/{name}.html"

    def view(context: RequestContext) -> _View:
        if name not in _PARTS:
            raise LedgerError(f"the page has no part {name!r}: {', '.join(_PARTS)}")
        if name in _OF_SITE and context.scope.teams is not None:
            raise LedgerError(f"the {name} shows the whole site, and this key sees its teams alone")
        shown = _PARTS[name](context.reader, asked, context.reader.period(asked.week))
        return {"name": name, "asked": asked, "json_link": _json_link(asked)} | shown

    return site_page(_state(f"/parts/{name}", asked), template, view, kind)


def _state(path: str, asked: FleetAsked) -> PageState:
    return PageState(path, asked.week, {"at": asked.at or "", "node": asked.node or ""})


def _json_link(asked: FleetAsked) -> str:
    return PageState("/v1/read", None, {"what": "week", "since": asked.week or "", "format": "json"}).link()


def shell(context: RequestContext, asked: FleetAsked) -> _View:
    """Return what the page shows at once; the grid is of the whole site, and not for a team's key."""
    reader, is_whole = context.reader, context.scope.teams is None
    period = reader.period(asked.week)
    (hours,) = reader.session.row(
        "SELECT count(*) FROM ledger_hours WHERE hour >= ? AND hour < ?", [period.start, period.end]
    )
    return {
        **period_view(reader, period),
        "title": f"{'week' if '-W' in period.label else 'period'} {period.label}",
        "asked": asked,
        "json_link": _json_link(asked),
        "known": hours,
        "steps": ()
        if not is_whole or _has_whole_hour(reader)
        else first_steps(context, time.time_ns() // 1000, has_figures=True),
        **(_grid(reader, asked, period) if is_whole else {"grid": None}),
        **(_node_or_why(reader, asked, period) if asked.node and is_whole else {"panel": None, "no_panel": None}),
    }


def _has_whole_hour(reader: Reader) -> bool:
    return bool(reader.session.row("SELECT count(*) FROM ledger_hours WHERE status <> 'provisional'")[0])


def _grid(reader: Reader, asked: FleetAsked, period: Period) -> _View:
    shown = period if asked.grid_at == "week" else _newest(reader, period)
    grid = {"grid": fleet_grid(reader.session, shown), "asked": asked}
    if shown is period:
        return {**grid, "when": "the whole week", "running": None}
    until = min(shown.end, reached_until(reader.session))
    is_open = reader.session.row("SELECT status FROM ledger_hours WHERE hour = ?", [shown.start])[0] == "provisional"
    running = _running(reader, shown, until) if is_open and shown.start < until < shown.end else None
    end = until if running else shown.end
    return {**grid, "when": span_words(shown.start, end, shown.timezone), "running": running}


def _running(reader: Reader, hour: Period, until: int) -> str:
    """Return how the hour that is under way goes, as far as it is booked, and what an hour of all its GPUs costs so."""
    gpus, held = reader.session.row(
        "SELECT count(DISTINCT gpu_uuid), count(DISTINCT gpu_uuid) FILTER (run_id IS NOT NULL) "
        "FROM ledger WHERE hour = ?",
        [hour.start],
    )
    went = breakdown(reader.session, hour)
    shares = [f"{percent(went.of(of).milliseconds, went.milliseconds)} {of}" for of in CLASSES[:2]]
    words = f"{held:,} of {counted(gpus, 'GPU')} held, {' and '.join(shares)}"
    if went.priced and went.cost_micros is not None:
        pace = nearest(went.cost_micros * HOUR_MS * gpus, went.milliseconds)
        words += f", {money(pace, reader.settings.currency)} per hour"
    return f"{words} (preliminary, to {local(until, hour.timezone):%H:%M:%S})"


def _newest(reader: Reader, period: Period) -> Period:
    """Return the newest hour that is known; of an older week its last."""
    (hour,) = reader.session.row(
        "SELECT max(hour) FROM ledger_hours WHERE hour < ?", [period.end if period.end < reader.now() else 2**62]
    )
    if hour is None:
        return period
    return Period(hour, hour + HOUR_US, "now", period.timezone)


def _node_or_why(reader: Reader, asked: FleetAsked, period: Period) -> _View:
    """Return a node's panel, or why there is none: an alert may name a host that the ledger has not yet."""
    try:
        return _node(reader, asked, period) | {"no_panel": None}
    except LedgerError as error:
        return {"panel": None, "no_panel": str(error)}


def _node(reader: Reader, asked: FleetAsked, period: Period) -> _View:
    if asked.node is None:
        raise LedgerError("say which node: ?node=NAME")
    shown = period if asked.grid_at == "week" else _newest(reader, period)
    return {"panel": node_panel(reader.session, asked.node, shown), "asked": asked}


def _listed(reader: Reader, period: Period) -> FindingsReport:
    """Return the findings of a period: two parts show them."""
    return _once(reader, "findings", period, lambda: reader.list_findings(period))


def _once(reader: Reader, what: str, period: Period, make: Callable[[], T]) -> T:
    """Return what is made once for each state of the ledger, where the server keeps such things."""
    if reader.kept is None:
        return make()
    return reader.kept.get(reader.session, ("page", what, period.start, period.end), make)


def _headline(reader: Reader, _: FleetAsked, period: Period) -> _View:
    report = reader.figures(period)
    shares = classes(report)
    stack = Mark("stack", [BarSegment(klass, start, length) for klass, _, start, length in shares])
    return {**week_view(report), "classes": shares, "stack": stack, "whole": _whole(reader)}


def _week(reader: Reader, _: FleetAsked, period: Period) -> _View:
    report = reader.figures(period)
    lines = breakdown_lines(report.breakdown, report.previous) if report.breakdown.entries else ()
    return {**week_view(report), "went": cost_steps(lines), "whole": _whole(reader)}


def _whole(reader: Reader) -> str:
    """Return what all the time of a view is: a team holds, and owns none."""
    return "held" if reader.part else "owned"


def _chart(reader: Reader, _: FleetAsked, period: Period) -> _View:
    classes = _fleet_chart(reader.session, period)
    return {"chart": classes, "figure": stacked_bars(classes)}


def _advice(reader: Reader, _: FleetAsked, period: Period) -> _View:
    findings = reader.findings(period)
    advised = by_saving(reader.advice(findings, period))
    came = reader.checked(period)
    report = replace(reader.figures(period), findings=tuple(findings), recommendations=advised, checked=came)
    first = [best] if (best := best_next_step(advised)) is not None and is_predicted(best) else []
    bill = bill_words(first, report.fleet, report.currency, period.timezone) if first else ""
    return {**week_view(report), "next_step": f"{next_step(report).strip()} {bill}".strip()}


def _changed(reader: Reader, _: FleetAsked, period: Period) -> _View:
    report = reader.figures(period)
    known = None if report.previous is None else changes(report, report.previous, _listed(reader, period))
    return {"changes": known, "period": period}


def _findings(reader: Reader, _: FleetAsked, period: Period) -> _View:
    return listed_findings(reader, _listed(reader, period), _FINDINGS_SHOWN)


def _runs(reader: Reader, _: FleetAsked, period: Period) -> _View:
    return {
        "runs": most_expensive_runs(reader.session, period, _RUNS_SHOWN),
        "sign": symbol(reader.settings.currency).strip(),
    }


def _look(reader: Reader, _: FleetAsked, period: Period) -> _View:
    unjudged = reader.unjudged(period)
    return {
        "notices": [notice_line(notice) for notice in reader.looked(period).notices],
        "not_judged": rules_in(unjudged),
        "unjudged": unjudged_rules(unjudged),
    }


# In the order in which they are asked for: what reads the ledger alone comes first.
_PARTS: dict[str, Callable[[Reader, FleetAsked, Period], _View]] = {
    "grid": _grid,
    "node": _node,
    "headline": _headline,
    "week": _week,
    "chart": _chart,
    "runs": _runs,
    "findings": _findings,
    "changed": _changed,
    "advice": _advice,
    "look": _look,
}


_OF_SITE = ("grid", "node")
WARMED = tuple(name for name in _PARTS if name not in _OF_SITE)


def runs_in_view(reader: Reader) -> list[str]:
    """Return the runs that people open from here: of the findings that are shown, and the dearest of the newest hour.

    Raises:
        LedgerError: the ledger is empty.
    """
    period = reader.period(None)
    lost = [finding.run_ids[0] for finding in _listed(reader, period).findings[:_FINDINGS_SHOWN] if finding.run_ids]
    now = most_expensive_runs(reader.session, _newest(reader, period), _RUNNING_SHOWN)
    return list(dict.fromkeys([*lost, *(run.run_id for run in now)]))


def classes(report: WeekReport) -> list[tuple[Class, BreakdownLine | None, float, float]]:
    """Return the five classes in their order, each with its line of the table, None without any time.

    With where its part of the bar begins and how long it is, in permille of all that is owned.
    """
    table = breakdown_lines(report.breakdown, report.previous) if report.breakdown.entries else ()
    known = {line.klass: line for line in table if line.level in ("class", "only")}
    shares: list[tuple[Class, BreakdownLine | None, float, float]] = []
    at = 0.0
    for klass in CLASSES:
        line = known.get(klass)
        share = line.share if line else 0.0
        shares.append((klass, line, round(1000 * at, 1), round(1000 * share, 1)))
        at += share
    return shares


def _fleet_chart(session: Session, period: Period) -> Chart:
    """Return how many GPUs, on average, were in each class over the hours that the ledger has of each bar."""
    width = max(1, -(-period.hours // _BARS)) * HOUR_US
    where, values = within(period)
    hours: dict[int, int] = dict(
        session.rows(
            f"SELECT (hour - ?) // ? AS bar, count(*) FROM ledger_hours WHERE {where} GROUP BY bar",
            [period.start, width, *values],
        )
    )
    counted = session.rows(
        "SELECT (hour - ?) // ? AS bar, state, cause, sum(milliseconds) FROM ledger "
        f"WHERE {where} GROUP BY ALL ORDER BY bar",
        [period.start, width, *values],
    )
    starts = range(period.start, period.end, width)
    sums: dict[Class, list[int]] = {klass: [0] * len(starts) for klass in CLASSES}
    for bar, state, cause, milliseconds in counted:
        sums[booking(state, cause).klass][bar] += milliseconds

    def average(bar: int, milliseconds: int) -> float | None:
        return round(milliseconds / (hours[bar] * HOUR_MS), 2) if bar in hours else None

    traces = tuple(Trace(klass, klass, tuple(starmap(average, enumerate(sums[klass])))) for klass in CLASSES)
    return chart("GPUs by state", "GPUs", starts, period.timezone, traces)


def changes(report: WeekReport, previous: Breakdown, listed: FindingsReport) -> Mapping[str, object]:
    """Return the states that moved most since the period before, of which `previous` is the breakdown.

    Both figures are rounded, so that a row adds up as it is printed. With them the findings that are new or grew, the
    largest first. `unit` is "money" or "GPU-hours".
    """
    is_money = report.breakdown.priced and previous.priced
    unit = MICROS if is_money else HOUR_MS

    def amount(entry: BreakdownEntry) -> int:
        return (entry.cost_micros or 0) if is_money else entry.milliseconds

    before = {(entry.klass, entry.label): amount(entry) for entry in previous.entries}
    now = {(entry.klass, entry.label): amount(entry) for entry in report.breakdown.entries}
    moved = [key for key in before.keys() | now.keys() if now.get(key, 0) != before.get(key, 0)]
    moved = sorted(moved, key=lambda key: (-abs(now.get(key, 0) - before.get(key, 0)), key))[:_CHANGED_SHOWN]
    moved.sort(key=lambda key: CLASSES.index(key[0]))
    came = [(one, listed.moved[one.id]) for one in listed.findings if listed.moved.get(one.id) in ("new", "growing")]
    return {
        "unit": "money" if is_money else "GPU-hours",
        "states": [(*key, nearest(before.get(key, 0), unit), nearest(now.get(key, 0), unit)) for key in moved],
        "trend": listed.trend,
        "came": came[:_CAME_SHOWN],
    }
