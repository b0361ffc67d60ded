"""The table of teams, models or the like, rounded from the top down; text and page print these same lines."""

from dataclasses import dataclass

from agent.wire.units import HOUR_MS, MICROS
from analyzer.finops.charges.sums import Charged
from analyzer.ledger.breakdown import column_like, rounded
from analyzer.queries.ledger_query import Breakdown
from analyzer.reports.groups import GroupRow, Groups
from analyzer.reports.week import WeekReport
from analyzer.text.words import UNKNOWN, apportion, at_least, decimal, hours_decimals, money_decimals, nearest, percent


@dataclass(frozen=True, slots=True)
class GroupLine:
    """One printed line. `money` is None where the column is left out; `avoidable` is then GPU-hours."""

    name: str
    hours: str
    money: str | None
    useful: str
    avoidable: str
    level: str = "row"


def team_lines(report: WeekReport) -> tuple[GroupLine, ...]:
    """Return a line a team and the total."""
    return group_lines(report, report.by_team)


def group_lines(report: WeekReport, groups: Groups) -> tuple[GroupLine, ...]:
    """Return a line a group and the total; the columns add up, and to the figures of the report's main table."""
    rows, whole = groups.rows, report.breakdown
    hours = _column([row.breakdown.milliseconds for row in rows], HOUR_MS, hours_decimals(whole.milliseconds))
    parts = [row.breakdown.of("avoidable") for row in rows]
    if whole.cost_micros is None:
        costs: list[str | None] = [None] * (len(rows) + 1)
        lost = _column([part.milliseconds for part in parts], HOUR_MS, hours_decimals(whole.milliseconds))
    else:
        decimals = money_decimals(whole.cost_micros)
        costs = [*_column([row.breakdown.cost_micros or 0 for row in rows], MICROS, decimals)]
        lost = _avoidable_money([part.cost_micros or 0 for part in parts], report, decimals)
    told = [_told(row, parts[place], report) for place, row in enumerate(rows)]
    found = [
        GroupLine(
            groups.words(row),
            hours[place],
            _paid(costs[place], row.breakdown),
            _useful(row, report),
            _lost(lost[place], parts[place], report) if told[place] else UNKNOWN,
        )
        for place, row in enumerate(rows)
    ]
    # Of groups of which it is not known it is not known together either.
    total = _lost(lost[-1], whole.of("avoidable"), report) if any(told) or not rows else UNKNOWN
    return (*found, GroupLine("total", hours[-1], _paid(costs[-1], whole), "", total, "total"))


def _paid(told: str | None, breakdown: Breakdown) -> str | None:
    """Return what is printed of a cost: None where the column is left out, marked where it is of a part of the time."""
    if told is None:
        return None
    return at_least(told, breakdown.is_part) if breakdown.cost_micros is not None else UNKNOWN


def _lost(told: str, avoidable: Breakdown, report: WeekReport) -> str:
    """Return what is printed of the avoidable part, GPU-hours where nothing has a price."""
    return at_least(told, report.breakdown.cost_micros is not None and avoidable.is_part)


def _told(row: GroupRow, avoidable: Breakdown, report: WeekReport) -> bool:
    """Whether its avoidable part is a figure: not where nobody held or measured it, nor where it has no price."""
    if report.breakdown.cost_micros is not None and avoidable.milliseconds and avoidable.cost_micros is None:
        return False
    if row.breakdown.milliseconds and not row.breakdown.measured.milliseconds:
        return False
    return row.held or bool(avoidable.milliseconds)


def _useful(row: GroupRow, report: WeekReport) -> str:
    """Return the useful share of what was measured; a dash where nothing was."""
    if not row.held:
        return UNKNOWN
    useful, whole = row.breakdown.of("useful"), row.breakdown.measured
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


_OTHERS = "others, at cost"


@dataclass(frozen=True, slots=True)
class ChargeLine:
    """One printed line: what the GPUs cost, what is charged for them, and what is left to the platform."""

    name: str
    cost: str
    charged: str
    left: str
    level: str = "row"


def charge_lines(report: WeekReport) -> tuple[ChargeLine, ...]:
    """Return a line a team that is not charged what its GPUs cost, the others, and the total; () where none is.

    Costs are those that the table of teams prints; each charge is rounded by itself, and what is summed is what is
    printed. Nothing is said while some of it has no price: `gpuledger bill charges` says of whom.
    """
    by_bearer = {(one.bearer, one.held): one for one in report.charged}
    teams = report.by_team
    told = [by_bearer[row.name, row.held] for row in teams.rows] if by_bearer else []
    if not any(one.held and one.difference_micros for one in told) or None in [one.difference_micros for one in told]:
        return ()
    decimals = money_decimals(report.breakdown.cost_micros)
    exact = [(one.cost_micros or 0) * 10**decimals for one in told]
    costs = apportion(nearest(sum(exact), MICROS), exact, MICROS)
    groups: dict[str, tuple[int, int]] = {}
    for row, one, cost in sorted(zip(teams.rows, told, costs, strict=True), key=_place):
        own = bool(one.difference_micros)
        name = teams.words(row) if own or not one.held else _OTHERS
        paid = nearest((one.charged_micros or 0) * 10**decimals, MICROS) if own else cost
        before = groups.get(name, (0, 0))
        groups[name] = (before[0] + cost, before[1] + paid)
    total = (sum(cost for cost, _ in groups.values()), sum(paid for _, paid in groups.values()))
    return (*(_line(name, *each, decimals) for name, each in groups.items()), _line("total", *total, decimals, "total"))


def _place(each: tuple[GroupRow, Charged, int]) -> tuple[bool, bool]:
    """Return where it stands: teams with a rate of their own, then the others, and last what nobody held."""
    return not each[1].held, not each[1].difference_micros


def _line(name: str, cost: int, paid: int, decimals: int, level: str = "row") -> ChargeLine:
    return ChargeLine(name, decimal(cost, decimals), decimal(paid, decimals), decimal(cost - paid, decimals), level)
