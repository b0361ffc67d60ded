"""A month against its budgets: each bearer as a row with a bar, and the month's course with where it will end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from agent.wire.units import MICROS
from analyzer.charts.course import Course, month_course
from analyzer.finops.budgets.budget_file import budget_book
from analyzer.finops.budgets.month import BudgetLine, MonthReport, month_report
from analyzer.finops.budgets.spent import spending
from analyzer.finops.budgets.text import between, expected_column, first_sentence, spent_column
from analyzer.finops.charges.edited import edited, edited_words
from analyzer.period import Period, local
from analyzer.text.words import UNKNOWN, amount, day, money_decimals, plain, symbol
from dashboards.pages.marks import LONG, BarSegment, Mark
from dashboards.pages.read_pages import Sheet

if TYPE_CHECKING:
    from analyzer.interfaces.api.request_service import RequestContext

_BUDGET_AT, _WHOLE_AT = 0.7 * LONG, 0.92 * LONG  # where of a bar the budget stands; without one, the most that may come


@dataclass(frozen=True, slots=True)
class BudgetRow:
    """One bearer as it is printed; `verdict` is empty where it has no budget."""

    name: str
    spent: str
    budget: str
    expected: str
    between: str
    verdict: str
    is_over: bool
    level: str
    bullet: Mark


@dataclass(frozen=True, slots=True)
class Budgets:
    """The month as a table, and the sentence above it; a team's key has no sentence and no total of the fleet."""

    label: str
    sentence: str
    rows: tuple[BudgetRow, ...]
    projects: tuple[BudgetRow, ...]
    notes: tuple[str, ...]

    @property
    def is_bound(self) -> bool:
        """Whether anybody has a budget."""
        return any(row.budget != UNKNOWN for row in (*self.rows, *self.projects))

    @property
    def is_sure(self) -> bool:
        """Whether it is known how sure anybody's month-end is."""
        return any(row.between != UNKNOWN for row in (*self.rows, *self.projects))


@dataclass(frozen=True, slots=True)
class Burn:
    """The month's course as a figure, and its numbers: a day, what was spent, and together."""

    whose: str
    figure: Mapping[str, object]
    rows: tuple[tuple[str, str, str], ...]


def month_of(context: "RequestContext", week: str | None) -> MonthReport | None:
    """Return the month that a period ends in, as far as the ledger goes; of the whole site."""
    reader = context.whole
    now = reader.now()
    month = reader.calendar.month_of(min(reader.period(week).end, now) - 1)
    allowed = budget_book(reader.settings).of(month.first_day)
    return month_report(reader.session, month, now, context.currency, allowed)


def budget_rows(context: "RequestContext", report: MonthReport) -> Budgets:
    """Return the month's rows that may be seen."""
    if context.scope.teams is not None:
        own = [line for line in report.lines if line.team in context.scope.teams and line.held]
        rows = tuple(_row(line, _own(line.spent_micros), _expected(line)) for line in own)
        return Budgets(report.period.label, "", rows, (), _notes(context, report))
    lines = [*report.lines]
    spent = spent_column([line.spent_micros for line in lines], report.fleet.spent_micros)
    ends = expected_column(lines, report.fleet)
    rows = tuple(_row(line, spent[place], ends[place]) for place, line in enumerate(lines))
    total = _row(report.fleet, spent[-1], ends[-1], "total")
    projects = tuple(_row(line, _own(line.spent_micros), _expected(line)) for line in report.projects)
    return Budgets(report.period.label, first_sentence(report), (*rows, total), projects, _notes(context, report))


def budget_sheet(context: "RequestContext", week: str | None) -> Sheet:
    """Return the same, exact."""
    report = month_of(context, week)
    teams = context.scope.teams
    lines = [] if report is None else [one for one in report.every if teams is None or (one.team in teams and one.held)]
    head = ("name", "team", "project", "spent_micros", "budget_micros", "expected_micros", "low_micros", "high_micros")
    return Sheet((*head, "verdict"), [_values(line) for line in lines])


def burn(context: "RequestContext", report: MonthReport) -> Burn | None:
    """Return the course of the month: the fleet's, or that of the one team whose key asks."""
    teams = context.scope.teams
    if teams is not None and len(teams) != 1:
        return None
    line = report.fleet if teams is None else next((one for one in report.lines if one.team in teams), None)
    by_day = _by_day(context, report)
    if line is None or not by_day:
        return None
    return _burn(line, report, by_day, symbol(context.currency).strip())


def burn_sheet(context: "RequestContext", week: str | None) -> Sheet:
    """Return what was spent each day of the month, and together since it began."""
    report = month_of(context, week)
    by_day = [] if report is None else _by_day(context, report)
    zone = context.reader.settings.timezone
    together = accumulate(spent for _, spent in by_day)
    rows = [
        (local(start, zone).date().isoformat(), spent, so_far)
        for (start, spent), so_far in zip(by_day, together, strict=True)
    ]
    return Sheet(("day", "spent_micros", "together_micros"), rows)


def _by_day(context: "RequestContext", report: MonthReport) -> list[tuple[int, int]]:
    spent = spending(context.session, report.period.timezone, report.period.start, report.known_until)
    return list(zip(spent.days.starts, spent.of(list(spent.by_day)), strict=True))


def _row(line: BudgetLine, spent: str, expected: str, level: str = "row") -> BudgetRow:
    name = "total" if level == "total" else plain(line.name)
    budget = UNKNOWN if line.budget is None else amount(line.budget.micros_per_month, 0)
    span = between(line).strip(" ()") or UNKNOWN
    return BudgetRow(name, spent, budget, expected, span, line.verdict or "", line.is_over, level, _bullet(line))


def _own(micros: int) -> str:
    return amount(micros, money_decimals(micros))


def _expected(line: BudgetLine) -> str:
    return UNKNOWN if line.ending is None else amount(line.ending.expected_micros, money_decimals(line.spent_micros))


def _values(line: BudgetLine) -> tuple[object, ...]:
    ending, budget = line.ending, line.budget.micros_per_month if line.budget else None
    ends = (None, None, None) if ending is None else (ending.expected_micros, ending.low_micros, ending.high_micros)
    return (line.name, line.team, line.project, line.spent_micros, budget, *ends, line.verdict)


def _bullet(line: BudgetLine) -> Mark:
    """Return what was spent, the interval of what will be, that by itself, and the budget; each where it is known."""
    ending = line.ending
    expected = ending.expected_micros if ending else None
    low, high = (ending.low_micros, ending.high_micros) if ending and ending.model else (None, None)
    most = max(line.spent_micros, expected or 0, high or 0) or 1
    allowed = line.budget.micros_per_month if line.budget else 0
    unit = _BUDGET_AT / allowed if allowed else _WHOLE_AT / most

    def at(micros: int) -> float:
        return round(min(LONG, micros * unit))

    parts = [
        BarSegment("track", 0, LONG),
        BarSegment("spent over" if line.is_over else "spent", 0, at(line.spent_micros), 2.5, 5),
    ]
    if low is not None and high is not None:
        parts.append(BarSegment("likely", at(low), at(high) - at(low), 4, 2))
    if expected is not None:
        parts.append(BarSegment("expected", at(expected) - 5, 10, 2, 6))
    if allowed:
        parts.append(BarSegment("allowed", _BUDGET_AT, 6))
    return Mark("bullet", parts)


def _notes(context: "RequestContext", report: MonthReport) -> tuple[str, ...]:
    zone = report.period.timezone
    later = edited_words(edited(context.session, report.period, context.whole.settings))
    found = [f"{one[0].upper()}{one[1:]}." for one in later]
    if report.known_since > report.period.start:
        begins = day(local(report.known_since, zone))
        found.append(f"The ledger begins {begins}: the days of this month before are not in it.")
    ending = report.fleet.ending
    if ending is not None and ending.model is not None and ending.low_micros is None:
        found.append(f"How sure the month's end is can be said after {ending.days_missing} more days of history.")
    return tuple(found)


def _burn(line: BudgetLine, report: MonthReport, by_day: Sequence[tuple[int, int]], sign: str) -> Burn:
    so_far = list(accumulate(spent for _, spent in by_day))
    begun = [(by_day[0][0], 0), *zip(_day_ends(by_day, report), so_far, strict=True)]
    ending = line.ending if line.ending and line.ending.model else None
    budget = line.budget.micros_per_month if line.budget else None
    course = Course(
        [_at(moment, report.period) for moment, _ in begun],
        [micros / MICROS for _, micros in begun],
        begins=_at(report.period.start, report.period),
        ends=_at(report.period.end, report.period),
        expected=_units(ending.expected_micros if ending else None),
        low=_units(ending.low_micros if ending else None),
        high=_units(ending.high_micros if ending else None),
        budget=_units(budget),
        sign=sign,
    )
    return Burn(plain(line.name), month_course(course), _rows(by_day, so_far, report.period))


def _at(moment: int, period: Period) -> str:
    return local(moment, period.timezone).replace(tzinfo=None).isoformat()


def _units(micros: int | None) -> float | None:
    return None if micros is None else micros / MICROS


def _day_ends(by_day: Sequence[tuple[int, int]], report: MonthReport) -> list[int]:
    return [*(start for start, _ in by_day[1:]), report.known_until]


def _rows(by_day: Sequence[tuple[int, int]], so_far: Sequence[int], period: Period) -> tuple[tuple[str, str, str], ...]:
    return tuple(
        (day(local(start, period.timezone)), amount(spent), amount(together))
        for (start, spent), together in zip(by_day, so_far, strict=True)
    )
