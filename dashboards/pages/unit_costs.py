"""What work costs: a unit of it with its trend of five weeks, whole runs of one name, what moved to a new price."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.wire.units import MICROS
from analyzer.finops.unit_cost.counted import Hour, counted
from analyzer.finops.unit_cost.figures import digits, short
from analyzer.finops.unit_cost.report import BACK_US, RunLine, UnitLine, UnitReport, unit_report
from analyzer.finops.unit_cost.text import change_words
from analyzer.finops.unit_cost.unit import Unit
from analyzer.period import Period, day_starts
from analyzer.text.words import UNKNOWN, amount, gpu_hours, money_decimals, plain
from dashboards.pages.marks import Mark, trend
from dashboards.pages.read_pages import Sheet

if TYPE_CHECKING:
    from analyzer.interfaces.api.request_service import RequestContext

_SHOWN = 12


@dataclass(frozen=True, slots=True)
class UnitRow:
    """A unit of work of one name; `trend` is a line over the days, None where too few told."""

    name: str
    team: str
    unit: str
    done: str
    cost: str
    each: str
    change: str
    trend: Mark | None


@dataclass(frozen=True, slots=True)
class RunRow:
    """Whole runs of one name and size that completed: what the middle one took."""

    name: str
    gpus: str
    runs: str
    hours: str
    cost: str
    before: str
    change: str


@dataclass(frozen=True, slots=True)
class UnitCosts:
    """Both tables, and a sentence for each price of a unit that moved for good."""

    changes: tuple[str, ...]
    units: tuple[UnitRow, ...]
    runs: tuple[RunRow, ...]
    more_units: int
    more_runs: int
    notes: tuple[str, ...] = ()  # which hours are in no figure, and what was learned of closed ones


def unit_costs(context: "RequestContext", period: Period) -> UnitCosts:
    """Return the unit economics of a period, of what may be seen."""
    report = _report(context, period)
    hours = counted(context.session, period.start - BACK_US, period.end) if report.units else {}
    days = list(day_starts(period.start - BACK_US, period.end, period.timezone))
    units = tuple(_unit(line, hours.get((line.name, line.team), []), days) for line in report.units[:_SHOWN])
    changes = tuple(
        change_words(line, change, context.currency, period.timezone) for line, change in report.changes[:_SHOWN]
    )
    runs = tuple(_run(line) for line in report.runs[:_SHOWN])
    return UnitCosts(
        changes, units, runs, max(0, len(report.units) - _SHOWN), max(0, len(report.runs) - _SHOWN), report.notes
    )


def units_sheet(context: "RequestContext", period: Period) -> Sheet:
    """Return all units, exact."""
    head = ("name", "team", "unit", "units", "milliseconds", "cost_micros", "units_before", "cost_micros_before")
    rows = [
        (
            one.name,
            one.team,
            one.unit.column,
            one.units,
            one.milliseconds,
            one.micros,
            one.units_before,
            one.micros_before,
        )
        for one in _report(context, period).units
    ]
    return Sheet(head, rows)


def runs_sheet(context: "RequestContext", period: Period) -> Sheet:
    """Return all whole runs, exact; times and costs are of the middle one."""
    head = (
        "name",
        "team",
        "gpus",
        "runs",
        "milliseconds_p50",
        "cost_micros_p50",
        "runs_before",
        "cost_micros_p50_before",
    )
    rows = [
        (one.name, one.team, one.gpus, one.runs, one.milliseconds, one.micros, one.runs_before, one.micros_before)
        for one in _report(context, period).runs
    ]
    return Sheet(head, rows)


def _report(context: "RequestContext", period: Period) -> UnitReport:
    return unit_report(context.session, period, context.reader.calendar, context.currency)


def _unit(line: UnitLine, hours: list[Hour], days: list[int]) -> UnitRow:
    cost = UNKNOWN if line.micros is None else amount(line.micros, money_decimals(line.micros))
    each = UNKNOWN if line.micros is None else digits(line.micros * line.unit.per / line.units / MICROS)
    change = UNKNOWN if line.ratio is None else f"{100 * (line.ratio - 1):+.1f}"
    by_day = daily(hours, line.unit, days)
    known = [value for value in by_day if value is not None]
    told = f"from {digits(known[0])} to {digits(known[-1])}" if len(known) > 1 else ""
    return UnitRow(
        plain(line.name),
        line.team or "unmapped",
        line.unit.words,
        short(line.units),
        cost,
        each,
        change,
        trend(by_day, told),
    )


def daily(hours: list[Hour], unit: Unit, days: list[int]) -> list[float | None]:
    """Return by day what a unit's `per` cost; None for a day that told nothing, or had no price."""
    found: list[float | None] = []
    for place, start in enumerate(days):
        end = days[place + 1] if place + 1 < len(days) else None
        own = [hour for hour in hours if start <= hour.start and (end is None or hour.start < end)]
        units, costs = sum(hour.units(unit) or 0 for hour in own), [hour.micros for hour in own]
        known = units and None not in costs
        found.append(sum(cost or 0 for cost in costs) * unit.per / units / MICROS if known else None)
    return found


def _run(line: RunLine) -> RunRow:
    now, then = line.micros, line.micros_before
    change = f"{100 * (now / then - 1):+.1f}" if now is not None and then else UNKNOWN
    cost = UNKNOWN if now is None else amount(now)
    before = UNKNOWN if then is None else amount(then)
    return RunRow(
        plain(line.name), f"{line.gpus:,}", f"{line.runs:,}", gpu_hours(line.milliseconds), cost, before, change
    )
