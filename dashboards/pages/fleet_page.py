"""The page of the fleet: its shell with the live grid, and the parts that a browser asks for one after the other.

The shell reads the newest hour alone and is there at once, whatever the size of the fleet; what reads a whole week, or
looks at samples, comes as a part of its own.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, TypeVar
from urllib.parse import urlencode

from agent.wire.units import HOUR_US
from analyzer.charts.over_time import stacked_bars
from analyzer.errors import LedgerError
from analyzer.interfaces.html.html import week_view
from analyzer.interfaces.text.notice_text import notice_line
from analyzer.interfaces.text.sentences import next_step
from analyzer.ledger.unjudged import rules_in
from analyzer.period import Period
from analyzer.reports.finding_list import FindingsReport, at_stake_column
from analyzer.reports.reader import Reader
from analyzer.reports.savings import checked
from analyzer.reports.week import by_saving
from analyzer.text.words import gpu_hours, span_words, symbol
from dashboards.pages.charts import fleet_chart
from dashboards.pages.cost_breakdown import classes, cost_steps
from dashboards.pages.fleet_changes import changes
from dashboards.pages.fleet_grid import fleet_grid
from dashboards.pages.marks import BarSegment, Mark
from dashboards.pages.neighbours import neighbours
from dashboards.pages.node_panel import node_panel
from dashboards.pages.run_list import run_list
from dashboards.pages.unjudged_rules import unjudged_rules

T = TypeVar("T")
_At = Literal["now", "week"]
_View = dict[str, object]
_FINDINGS_SHOWN = 12
_RUNNING_SHOWN = 8  # of which the page is made before anybody opens it


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


def shell(reader: Reader, asked: FleetAsked) -> _View:
    """Return what the page shows at once."""
    period = reader.period(asked.week)
    before, after = neighbours(reader, period)
    (hours,) = reader.session.row(
        "SELECT count(*) FROM ledger_hours WHERE hour >= ? AND hour < ?", [period.start, period.end]
    )
    return {
        "period": period,
        "title": f"{'week' if '-W' in period.label else 'period'} {period.label}",
        "asked": asked,
        "known": hours,
        "before": before,
        "after": after,
        **_grid(reader, asked, period),
        **(_node_or_why(reader, asked, period) if asked.node else {"panel": None, "no_panel": None}),
    }


def _grid(reader: Reader, asked: FleetAsked, period: Period) -> _View:
    shown = period if asked.grid_at == "week" else _newest(reader, period)
    when = "the whole week" if shown is period else span_words(shown.start, shown.end, shown.timezone)
    return {"grid": fleet_grid(reader.session, shown), "when": when, "asked": asked}


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
    found = classes(report)
    stack = Mark("stack", [BarSegment(one.klass, one.start, one.length) for one in found])
    return {**week_view(report), "classes": found, "stack": stack}


def _week(reader: Reader, _: FleetAsked, period: Period) -> _View:
    view = week_view(reader.figures(period))
    return {**view, "went": cost_steps(view["lines"])}  # type: ignore[arg-type]


def _chart(reader: Reader, _: FleetAsked, period: Period) -> _View:
    chart = fleet_chart(reader.session, period)
    return {"chart": chart, "figure": stacked_bars(chart)}


def _advice(reader: Reader, _: FleetAsked, period: Period) -> _View:
    found = reader.findings(period)
    advised = by_saving(reader.advice(found, period))
    came = checked(reader.session, period)
    report = replace(reader.figures(period), findings=tuple(found), recommendations=advised, checked=came)
    return {**week_view(report), "next_step": next_step(report).strip()}


def _changed(reader: Reader, _: FleetAsked, period: Period) -> _View:
    report = reader.figures(period)
    known = None if report.previous is None else changes(report, report.previous, _listed(reader, period))
    return {"changes": known, "period": period}


def _findings(reader: Reader, _: FleetAsked, period: Period) -> _View:
    found = _listed(reader, period)
    column, total = at_stake_column(found.findings, reader.settings.currency)
    return {
        "found": found,
        "at_stake": total,
        "stakes": list(zip(found.findings, column, strict=True)),
        "shown": _FINDINGS_SHOWN,
        "suspicions": [(finding, gpu_hours(finding.milliseconds)) for finding in found.suspicions],
        "sign": symbol(reader.settings.currency).strip(),
    }


def _runs(reader: Reader, _: FleetAsked, period: Period) -> _View:
    return {"runs": run_list(reader.session, period), "sign": symbol(reader.settings.currency).strip()}


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


WARMED = tuple(name for name in _PARTS if name not in ("grid", "node"))


def runs_in_view(reader: Reader) -> list[str]:
    """Return the runs that people open from here: of the findings that are shown, and the dearest of the newest hour.

    Raises:
        LedgerError: the ledger is empty.
    """
    period = reader.period(None)
    lost = [finding.run_ids[0] for finding in _listed(reader, period).findings[:_FINDINGS_SHOWN] if finding.run_ids]
    now = [run.run_id for run in run_list(reader.session, _newest(reader, period))]
    return list(dict.fromkeys(lost + now[:_RUNNING_SHOWN]))


def fleet_part(reader: Reader, name: str, asked: FleetAsked) -> _View:
    """Return what one part shows.

    Raises:
        LedgerError: there is no such part, or the ledger is empty.
    """
    if name not in _PARTS:
        raise LedgerError(f"the page has no part {name!r}: {', '.join(_PARTS)}")
    return _PARTS[name](reader, asked, reader.period(asked.week))
