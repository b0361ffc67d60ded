"""A month against its budgets: each bearer with a bar, and the month's spend to date and forecast."""

from collections.abc import Mapping, Sequence
from itertools import accumulate

from agent.wire.units import MICROS
from analyzer.charts.figures import Course, month_course
from analyzer.finops.budgets.month import BudgetLine, MonthReport, budget_book, month_report, spending
from analyzer.finops.budgets.text import (
    between,
    expected_column,
    first_sentence,
    own_amounts,
    since_words,
    spent_column,
)
from analyzer.finops.charges.closing import edited, edited_words
from analyzer.interfaces.api.request_service import RequestContext
from analyzer.period import local
from analyzer.text.words import at_least, day, symbol
from dashboards.pages.marks import LONG, BarSegment, Mark
from dashboards.pages.read_pages import Sheet

_BUDGET_AT, _WHOLE_AT = 0.7 * LONG, 0.92 * LONG  # where of a bar the budget stands; without one, the most that may come
_HEAD = (
    "name", "team", "project", "spent_micros", "budget_micros", "expected_micros", "low_micros", "high_micros",
    "verdict",
)  # fmt: skip


def month_of(context: RequestContext, week: str | None) -> MonthReport | None:
    """Return the month that a period ends in, as far as the ledger goes; of the whole site."""
    reader = context.whole
    now = reader.now()
    month = reader.calendar.month_of(min(reader.period(week).end, now) - 1)
    allowed = budget_book(reader.settings).of(month.first_day)
    return month_report(reader.session, month, now, context.currency, allowed)


def budget_rows(context: RequestContext, report: MonthReport) -> Mapping[str, object]:
    """Return the month's lines that may be seen, each with what it spent and will, its interval and its bar.

    A team's key has no sentence and no total of the fleet. `is_bound` says whether anybody has a budget, `is_sure`
    whether it is known how sure anybody's month-end is.
    """
    if context.scope.teams is not None:
        sentence, projects = "", []
        rows = [_row(line, *own_amounts(line)) for line in _lines(context, report)]
    else:
        sentence, projects = first_sentence(report), [_row(line, *own_amounts(line)) for line in report.projects]
        bearers = zip((*report.lines, report.fleet), spent_column(report), expected_column(report), strict=True)
        rows = [_row(line, spent, expected) for line, spent, expected in bearers]
    every = [*rows, *projects]
    return {
        "report": report,
        "sentence": sentence,
        "rows": rows,
        "projects": projects,
        "is_bound": any(line.budget is not None for line, *_ in every),
        "is_sure": any(interval for *_, interval, _ in every),
        "notes": _notes(context, report),
    }


def budget_sheet(context: RequestContext, week: str | None) -> Sheet:
    """Return the same, exact."""
    report = month_of(context, week)
    return Sheet(_HEAD, [] if report is None else [_values(line) for line in _lines(context, report)])


def burn(context: RequestContext, report: MonthReport) -> Mapping[str, object] | None:
    """Return spend to date and forecast as a figure, and its days: the fleet's, or the one team's whose key asks."""
    teams = context.scope.teams
    if teams is not None and len(teams) != 1:
        return None
    line = report.fleet if teams is None else next((line for line in report.lines if line.team in teams), None)
    by_day = _by_day(context, report)
    if line is None or line.spent_micros is None or not by_day:
        return None
    figure = month_course(_course(line, report, by_day, symbol(context.currency).strip()))
    rows = [(day(local(start, report.period.timezone)), spent, together) for start, spent, together in by_day]
    return {"whose": line.name, "figure": figure, "rows": rows}


def burn_sheet(context: RequestContext, week: str | None) -> Sheet:
    """Return what was spent each day of the month, and together since it began."""
    report = month_of(context, week)
    by_day = [] if report is None else _by_day(context, report)
    zone = context.reader.settings.timezone
    rows = [(local(start, zone).date().isoformat(), spent, together) for start, spent, together in by_day]
    return Sheet(("day", "spent_micros", "together_micros"), rows)


def _by_day(context: RequestContext, report: MonthReport) -> list[tuple[int, int | None, int | None]]:
    """Return when each day of the month began, what was spent on it, and together since the month began.

    None where nothing had a price: that day, or since the month began.
    """
    known = spending(context.session, report.period.timezone, report.period.start, report.known_until)
    spent = known.of(list(known.by_day))
    return list(zip(known.days.starts, spent, accumulate(spent, _together), strict=True))


def _together(before: int | None, cost: int | None) -> int | None:
    return before if cost is None else (before or 0) + cost


def _lines(context: RequestContext, report: MonthReport) -> list[BudgetLine]:
    """Return the bearers that may be seen; of a team's key its teams."""
    teams = context.scope.teams
    return [line for line in report.every if teams is None or (line.team in teams and line.held)]


def _row(line: BudgetLine, spent: str, expected: str) -> tuple[BudgetLine, str, str, str, Mark]:
    told = at_least(spent, line.is_part), at_least(expected, line.is_part)
    return line, *told, between(line).strip(" ()"), _bullet(line)


def _values(line: BudgetLine) -> tuple[object, ...]:
    ending, budget = line.ending, line.budget.micros_per_month if line.budget else None
    ends = (None, None, None) if ending is None else (ending.expected_micros, ending.low_micros, ending.high_micros)
    return (line.name, line.team, line.project, line.spent_micros, budget, *ends, line.verdict)


def _bullet(line: BudgetLine) -> Mark:
    """Return what was spent, the interval of what will be, that by itself, and the budget; each where it is known."""
    ending = line.ending
    expected = ending.expected_micros if ending else None
    low, high = (ending.low_micros, ending.high_micros) if ending and ending.model else (None, None)
    most = max(line.spent_micros or 0, expected or 0, high or 0) or 1
    allowed = line.budget.micros_per_month if line.budget else 0
    unit = _BUDGET_AT / allowed if allowed else _WHOLE_AT / most

    def at(micros: int) -> float:
        return round(min(LONG, micros * unit))

    parts = [
        BarSegment("track", 0, LONG),
        BarSegment("spent over" if line.is_over else "spent", 0, at(line.spent_micros or 0), 2.5, 5),
    ]
    if low is not None and high is not None:
        parts.append(BarSegment("likely", at(low), at(high) - at(low), 4, 2))
    if expected is not None:
        parts.append(BarSegment("expected", at(expected) - 5, 10, 2, 6))
    if allowed:
        parts.append(BarSegment("allowed", _BUDGET_AT, 6))
    return Mark("bullet", parts)


def _notes(context: RequestContext, report: MonthReport) -> Sequence[str]:
    edits = edited_words(edited(context.session, report.period, context.whole.settings))
    notes = [f"{edit[0].upper()}{edit[1:]}." for edit in edits]
    if since := since_words(report):
        notes.append(since)
    ending = report.fleet.ending
    if ending is not None and ending.model is not None and ending.low_micros is None:
        notes.append(f"The forecast has no interval yet: it needs {ending.days_missing} more days of history.")
    return notes


def _course(
    line: BudgetLine, report: MonthReport, by_day: Sequence[tuple[int, int | None, int | None]], sign: str
) -> Course:
    """Return the course in whole units: each day's sum stands where the day ends."""
    ends = [*(start for start, *_ in by_day[1:]), report.known_until]
    ending = line.ending if line.ending and line.ending.model else None

    def at(moment: int) -> str:
        return local(moment, report.period.timezone).replace(tzinfo=None).isoformat()

    def units(micros: int | None) -> float | None:
        return None if micros is None else micros / MICROS

    return Course(
        [at(moment) for moment in (by_day[0][0], *ends)],
        [0.0, *((together or 0) / MICROS for *_, together in by_day)],
        begins=at(report.period.start),
        ends=at(report.period.end),
        expected=units(ending.expected_micros if ending else None),
        low=units(ending.low_micros if ending else None),
        high=units(ending.high_micros if ending else None),
        budget=units(line.budget.micros_per_month if line.budget else None),
        sign=sign,
    )
