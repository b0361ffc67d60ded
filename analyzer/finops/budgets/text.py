"""A month against its budgets, as text: one line a team, the sentence that matters first."""

from collections.abc import Sequence
from dataclasses import replace

from agent.wire.units import MICROS
from analyzer.finops.budgets.month import FLEET, BudgetLine, Ending, MonthReport
from analyzer.ledger.breakdown import column_like
from analyzer.period import local
from analyzer.text.layout import TextLayout
from analyzer.text.table import WHOLE_AMOUNT, TableColumn, paper_lines
from analyzer.text.words import (
    AT_LEAST,
    UNKNOWN,
    amount,
    at_least,
    counted,
    day,
    decimal,
    gpu_hours,
    moment_words,
    money,
    money_decimals,
    nearest,
    plain,
    symbol,
)

_Row = tuple[BudgetLine, str, str]  # with what is spent, and where the month will end, as the column has it


def budgets_text(report: MonthReport, layout: TextLayout, top: int | None = None) -> str:
    """Return a month as text; the columns of spent and expected add up."""
    zone = report.period.timezone
    known = f"known until {moment_words(report.known_until, zone)}"
    if report.known_until >= report.period.end:
        known = "over"
    head = f"month {report.period.label}   {zone}"
    lines = [*layout.ends(head, known), ""]
    lines += [*layout.wrap(first_sentence(report)), "", *budget_lines(report, layout, top), ""]
    return layout.page([*lines, "next: gpuledger report      gpuledger findings"])


def budget_lines(report: MonthReport, layout: TextLayout, top: int | None = None) -> list[str]:
    """Return the table and its notes; a month's report has them too."""
    notes = _notes(report, layout)
    return [*_table(report, layout, top), *(["", *notes] if notes else [])]


def first_sentence(report: MonthReport) -> str:
    """Return who is over budget, or will be; else how the fleet will end."""
    if report.over:
        said = "; ".join(over_words(line, report.currency) for line in report.every if line.is_over)
        return f"{said[0].upper()}{said[1:]}." if said.startswith("the ") else f"{said}."
    bound = [line for line in report.every if line.budget]
    ending = _ending_words(report.fleet, report.currency)
    if not bound:
        return f"No budgets are set: name a budgets file in the settings. The fleet {ending}."
    if part := [plain(line.name) for line in bound if line.verdict is None and line.is_part]:
        return f"Not known to be within budget: {', '.join(part)}; some GPU time has no price. The fleet {ending}."
    unknown = [line for line in bound if line.verdict is None]
    if unknown:
        return f"No forecast yet for {counted(len(unknown), 'budget')}. The fleet {ending}."
    if may := [line for line in bound if line.verdict == "may be over"]:
        said = "; ".join(_may_words(line, report.currency) for line in may)
        return f"No budget is likely to be exceeded, but {said}. The fleet {ending}."
    idle = [plain(line.name) for line in bound if _spent_nothing(line)]
    if idle:
        return f"No spend on the budget of {', '.join(idle)}: is the name right? The fleet {ending}."
    holds = "The one budget is" if len(bound) == 1 else f"All {len(bound)} budgets are"
    if report.known_since > report.period.start:
        return f"{holds} on track, without the days before the ledger begins. The fleet {ending}."
    return f"{holds} on track. The fleet {ending}."


def _spent_nothing(line: BudgetLine) -> bool:
    return not (line.spent_micros or line.unpriced_milliseconds or (line.ending and line.ending.expected_micros))


def over_check(over: Sequence[str]) -> str:
    """Return what `bill budgets --check` says."""
    if not over:
        return "no budget is exceeded, or likely to be"
    return f"over budget, or likely to be: {', '.join(map(plain, over))}"


def over_words(line: BudgetLine, currency: str) -> str:
    """Return "team-vision will likely cost $60,200 of its $55,000 (57,000 to 64,000)"."""
    if line.budget is None or line.spent_micros is None:
        raise AssertionError("BUG: what has no budget, or no known cost, is not over it")
    name, budget = plain(line.name), line.budget.micros_per_month
    if line.verdict == "over":
        return f"{name} has spent {_of(line.spent_micros, budget, currency)}"
    expected = line.ending.expected_micros if line.ending else line.spent_micros
    return f"{name} will likely cost {_of(expected, budget, currency)}{between(line)}"


def _may_words(line: BudgetLine, currency: str) -> str:
    """Return "team-vision may be: up to $57,000 of its $55,000"."""
    if line.budget is None or line.ending is None or line.ending.high_micros is None:
        raise AssertionError("BUG: what may be over has a budget and an upper end")
    return f"{plain(line.name)} may spend up to {_of(line.ending.high_micros, line.budget.micros_per_month, currency)}"


def _of(micros: int, budget: int, currency: str) -> str:
    """Return "$60,200 of its $55,000", both as exact."""
    decimals = money_decimals(max(micros, budget))
    return f"{money(micros, currency, decimals)} of its {money(budget, currency, decimals)}"


def between(line: BudgetLine) -> str:
    """Return " (57,000 to 64,000)", or nothing where no interval is known, or only one of a part."""
    decimals = money_decimals(line.ending.expected_micros) if line.ending else 0
    span = _span(line, decimals)
    return "" if span == UNKNOWN else f" ({span})"


def _ending_words(line: BudgetLine, currency: str) -> str:
    if line.spent_micros is None:
        return "has no known cost: none of its GPU time has a price"
    spent = at_least(money(line.spent_micros, currency, money_decimals(line.spent_micros)), line.is_part)
    if line.ending is None:
        return f"has cost {spent}; a forecast needs a week of data"
    if line.ending.model is None:
        return f"cost {spent}"
    expected = money(line.ending.expected_micros, currency, money_decimals(line.ending.expected_micros))
    return f"will cost {'at least' if line.is_part else 'about'} {expected}{between(line)}"


def _table(report: MonthReport, layout: TextLayout, top: int | None) -> list[str]:
    rows = [*zip((*report.lines, report.fleet), spent_column(report), expected_column(report), strict=True)]
    columns = _columns(report, layout)
    found = paper_lines(columns, [*rows[:-1][:top], rows[-1]])
    if report.projects:
        _, *lines = paper_lines(columns, [_project(line) for line in report.projects])
        found += ["", "PROJECTS (part of the above)", *lines]
    return found


def _project(line: BudgetLine) -> _Row:
    """Return the row of a project; its amounts are part of others, and need not add up with them."""
    return replace(line, name=line.project or line.name), *own_amounts(line)


def own_amounts(line: BudgetLine) -> tuple[str, str]:
    """Return what a bearer has spent and is expected to in all, in no column that adds up."""
    decimals = money_decimals(line.spent_micros)
    spent = UNKNOWN if line.spent_micros is None else amount(line.spent_micros, decimals)
    return spent, UNKNOWN if line.ending is None else amount(line.ending.expected_micros, decimals)


def _columns(report: MonthReport, layout: TextLayout) -> tuple[TableColumn[_Row], ...]:
    width = 20 + layout.extra
    return (
        TableColumn("WHO", lambda row: _name(row[0], layout, width - 4), width=width, align="<"),
        TableColumn(
            f"spent {symbol(report.currency).strip()}",
            lambda row: at_least(row[1], row[0].is_part),
            width=11,
        ),
        TableColumn("budget", lambda row: row[0].budget and row[0].budget.micros_per_month, WHOLE_AMOUNT, 11),
        TableColumn("month-end", lambda row: at_least(row[2], row[0].is_part), width=12),
        TableColumn("", lambda row: _mark(row[0]), width=2, align="<"),
        TableColumn("80% between", lambda row: _span(row[0]), width=24),
    )


def _name(line: BudgetLine, layout: TextLayout, width: int) -> str:
    return layout.cut("total" if line.name == FLEET else line.name, width)


def _mark(line: BudgetLine) -> str:
    return " !" if line.is_over else " ?" if line.verdict == "may be over" else "  "


def _span(line: BudgetLine, decimals: int = 0) -> str:
    """Return "57,000 to 64,000", or a dash where no interval is known."""
    ending = line.ending
    if ending is None or ending.low_micros is None or ending.high_micros is None or ending.model is None:
        return UNKNOWN
    if line.is_part:
        return UNKNOWN
    return f"{amount(ending.low_micros, decimals)} to {amount(ending.high_micros, decimals)}"


def spent_column(report: MonthReport) -> list[str]:
    """Return what lines and the fleet have spent, adding up; unknown where nothing of one has a price."""
    return _column([line.spent_micros for line in report.lines], report.fleet.spent_micros)


def expected_column(report: MonthReport) -> list[str]:
    """Return where lines and the fleet will end, adding up; unknown where it is of one that has a known cost."""
    bearers = (*report.lines, report.fleet)
    *lines, fleet = [None if line.ending is None else line.ending.expected_micros for line in bearers]
    is_known = all(line.ending or not line.spent_micros for line in bearers)
    return _column(lines, fleet if is_known else None)


def _column(exact: Sequence[int | None], total: int | None) -> list[str]:
    if total is None:
        return [UNKNOWN] * (len(exact) + 1)
    decimals = money_decimals(total)
    rounded = nearest(total * 10**decimals, MICROS)
    return [*column_like(rounded, exact, MICROS, decimals), decimal(rounded, decimals)]


def since_words(report: MonthReport) -> str:
    """Return from when on the month is known, where that is not from its start; else nothing."""
    if report.known_since <= report.period.start:
        return ""
    first = day(local(report.known_since, report.period.timezone))
    return f"The ledger begins {first}: earlier days of this month are not in it."


def method_words(ending: Ending | None) -> str:
    """Return how the end of a month was forecast, and what an interval still needs; nothing where nothing was."""
    if ending is None or ending.model is None:
        return ""
    if ending.low_micros is None:
        return f"Month-end: {ending.model}. An interval needs {counted(ending.days_missing, 'more day')} of history."
    return f"Month-end: {ending.model}, the most accurate on this site's history."


def _notes(report: MonthReport, layout: TextLayout) -> list[str]:
    found = [said for said in (since_words(report), method_words(report.fleet.ending)) if said]
    if any(line.verdict == "may be over" for line in report.every):
        found.append("? may be over its budget: the upper end of its interval is.")
    unpriced = sum(line.unpriced_milliseconds for line in report.lines)
    if unpriced:
        found.append(
            f"{gpu_hours(unpriced)} GPU-hours have no price and are in no total ({AT_LEAST}): gpuledger bill "
            "prices check."
        )
    return [line for note in found for line in layout.wrap(note)]
