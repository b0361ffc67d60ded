"""What teams are charged where that is not what their GPUs cost, rounded so that every column adds up as printed."""

from dataclasses import dataclass

from agent.wire.units import MICROS
from analyzer.finops.charges.sums import Charged
from analyzer.reports.groups import GroupRow
from analyzer.reports.week import WeekReport
from analyzer.text.rounding import apportion, nearest
from analyzer.text.words import decimal, money_decimals

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
