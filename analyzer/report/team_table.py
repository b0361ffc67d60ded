"""The table of teams, rounded from the top down; text and page print these same lines."""

from dataclasses import dataclass

from analyzer.report.by_team import TeamRow
from analyzer.report.readings import Breakdown
from analyzer.report.rounding import nearest
from analyzer.report.table import column_like, rounded
from analyzer.report.week import WeekReport
from analyzer.report.words import (
    MICROS,
    MS_PER_HOUR,
    UNKNOWN,
    at_least,
    decimal,
    hours_decimals,
    money_decimals,
    percent,
)


@dataclass(frozen=True, slots=True)
class TeamLine:
    """One printed line. `money` is None where the column is left out; `avoidable` is then GPU-hours."""

    name: str
    hours: str
    money: str | None
    useful: str
    avoidable: str
    level: str = "row"


def team_lines(report: WeekReport) -> tuple[TeamLine, ...]:
    """Return a line a team and the total; the columns add up, and to the figures of the table above."""
    rows, whole = report.teams, report.breakdown
    hours = _column([row.breakdown.milliseconds for row in rows], MS_PER_HOUR, hours_decimals(whole.milliseconds))
    parts = [row.breakdown.of("avoidable") for row in rows]
    if whole.cost_micros is None:
        costs: list[str | None] = [None] * (len(rows) + 1)
        lost = _column([part.milliseconds for part in parts], MS_PER_HOUR, hours_decimals(whole.milliseconds))
    else:
        decimals = money_decimals(whole.cost_micros)
        costs = [*_column([row.breakdown.cost_micros or 0 for row in rows], MICROS, decimals)]
        lost = _avoidable_money([part.cost_micros or 0 for part in parts], report, decimals)
    found = [
        TeamLine(
            name_of(row),
            hours[place],
            _paid(costs[place], row.breakdown),
            _useful(row, report),
            _lost(lost[place], parts[place], report) if _told(row, parts[place], report) else UNKNOWN,
        )
        for place, row in enumerate(rows)
    ]
    return (
        *found,
        TeamLine(
            "total", hours[-1], _paid(costs[-1], whole), "", _lost(lost[-1], whole.of("avoidable"), report), "total"
        ),
    )


def _paid(told: str | None, breakdown: Breakdown) -> str | None:
    """Return what is printed of a cost: None where the column is left out, marked where it is of a part of the time."""
    if told is None:
        return None
    return at_least(told, breakdown.is_part) if breakdown.cost_micros is not None else UNKNOWN


def _lost(told: str, avoidable: Breakdown, report: WeekReport) -> str:
    """Return what is printed of the avoidable part, GPU-hours where nothing has a price."""
    return at_least(told, report.breakdown.cost_micros is not None and avoidable.is_part)


def _told(row: TeamRow, avoidable: Breakdown, report: WeekReport) -> bool:
    """Whether its avoidable part is a figure: not where nobody held it, and no amount where it has no price."""
    if report.breakdown.cost_micros is not None and avoidable.milliseconds and avoidable.cost_micros is None:
        return False
    return row.held or bool(avoidable.milliseconds)


def name_of(row: TeamRow) -> str:
    """Return what people call the row."""
    if not row.held:
        return "nobody (not allocated)"
    return row.team if row.team is not None else "unmapped"


def _useful(row: TeamRow, report: WeekReport) -> str:
    if not row.held:
        return UNKNOWN
    useful, whole = row.breakdown.of("useful"), row.breakdown
    if report.breakdown.priced:
        return percent(useful.cost_micros or 0, whole.cost_micros or 0)
    return percent(useful.milliseconds, whole.milliseconds)


def _column(exact: list[int], denominator: int, decimals: int) -> list[str]:
    total = nearest(sum(exact) * 10**decimals, denominator)
    return [*column_like(total, exact, denominator, decimals), decimal(total, decimals)]


def _avoidable_money(exact: list[int], report: WeekReport, decimals: int) -> list[str]:
    columns = rounded(report.breakdown)
    shown = {group[0].klass: place for place, group in enumerate(columns.groups)}.get("avoidable")
    total = columns.money.classes[shown] if columns.money is not None and shown is not None else 0
    return [*column_like(total, exact, MICROS, decimals), decimal(total, decimals)]
