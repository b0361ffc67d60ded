"""What work costs: a unit of it with its trend of five weeks, whole runs of one name, what moved to a new price."""

from collections.abc import Mapping

from agent.wire.units import MICROS
from analyzer.finops.unit_cost.counted import Hour, counted
from analyzer.finops.unit_cost.report import BACK_US, UnitReport, unit_report
from analyzer.finops.unit_cost.text import change_words, digits
from analyzer.finops.unit_cost.unit import Unit
from analyzer.interfaces.api.request_service import RequestContext
from analyzer.period import Period, day_starts
from dashboards.pages.marks import Mark, trend
from dashboards.pages.read_pages import Sheet, sheet_of

_SHOWN = 12
_UNITS = {
    "name": "name", "team": "team", "unit": "unit.column", "units": "units", "milliseconds": "milliseconds",
    "cost_micros": "micros", "units_before": "units_before", "cost_micros_before": "micros_before",
}  # fmt: skip
_RUNS = {
    "name": "name", "team": "team", "gpus": "gpus", "runs": "runs", "milliseconds_p50": "milliseconds",
    "cost_micros_p50": "micros", "runs_before": "runs_before", "cost_micros_p50_before": "micros_before",
}  # fmt: skip


def unit_costs(context: RequestContext, period: Period) -> Mapping[str, object]:
    """Return the unit economics of a period, of what may be seen: units, each with its trend, and whole runs.

    `changes` has a sentence for each price of a unit that moved for good.
    """
    report = _report(context, period)
    hours = counted(context.session, period.start - BACK_US, period.end) if report.units else {}
    days = list(day_starts(period.start - BACK_US, period.end, period.timezone))
    changes = report.changes[:_SHOWN]
    return {
        "changes": [change_words(line, change, context.currency, period.timezone) for line, change in changes],
        "units": [
            (line, _trend(hours.get((line.name, line.team), []), line.unit, days)) for line in report.units[:_SHOWN]
        ],
        "runs": report.runs[:_SHOWN],
        "more_units": max(0, len(report.units) - _SHOWN),
        "more_runs": max(0, len(report.runs) - _SHOWN),
        "notes": report.notes,
    }


def units_sheet(context: RequestContext, period: Period) -> Sheet:
    """Return all units, exact."""
    return sheet_of(_UNITS, _report(context, period).units)


def runs_sheet(context: RequestContext, period: Period) -> Sheet:
    """Return all whole runs, exact; times and costs are of the middle one."""
    return sheet_of(_RUNS, _report(context, period).runs)


def _report(context: RequestContext, period: Period) -> UnitReport:
    return unit_report(context.session, period, context.reader.calendar, context.currency)


def _trend(hours: list[Hour], unit: Unit, days: list[int]) -> Mark | None:
    by_day = daily(hours, unit, days)
    known = [value for value in by_day if value is not None]
    return trend(by_day, f"from {digits(known[0])} to {digits(known[-1])}" if len(known) > 1 else "")


def daily(hours: list[Hour], unit: Unit, days: list[int]) -> list[float | None]:
    """Return by day what a unit's `per` cost; None for a day that told nothing, or had no price."""
    costs: list[float | None] = []
    for place, start in enumerate(days):
        end = days[place + 1] if place + 1 < len(days) else None
        own = [hour for hour in hours if start <= hour.start and (end is None or hour.start < end)]
        units, micros = sum(hour.units(unit) or 0 for hour in own), [hour.micros for hour in own]
        known = units and None not in micros
        costs.append(sum(cost or 0 for cost in micros) * unit.per / units / MICROS if known else None)
    return costs
