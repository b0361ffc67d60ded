"""What follows the actions: checked savings, teams, what others add, corrections, and how sure we are."""

from datetime import date

from agent.wire.units import MICROS
from analyzer.finops.charges.closing import edited_words
from analyzer.finops.charges.sums import Charged
from analyzer.finops.reconcile.invoice_matches import match_words
from analyzer.interfaces.mail.content import Extras, Month, Section, Table
from analyzer.interfaces.mail.corrected import moved_words
from analyzer.interfaces.text.by_what_text import by_what_words
from analyzer.interfaces.text.record_text import record_words
from analyzer.interfaces.text.savings_text import came_words, predicted_words
from analyzer.interfaces.text.sentences import judged_words, unpriced_words
from analyzer.interfaces.text.week_text import silent_words, status_words
from analyzer.ledger.breakdown import column_like
from analyzer.period import local
from analyzer.prices.price_book import repriced_words
from analyzer.reports.charged import charge_lines
from analyzer.reports.group_table import team_lines
from analyzer.reports.week import WeekReport
from analyzer.text.rounding import nearest
from analyzer.text.words import NO_BREAK, UNKNOWN, at_least, counted, day, decimal, money, money_decimals, plain, symbol

_CHECKED_SHOWN = 3
_NODES_SHOWN = 3
_RULES_SHOWN = 4
_TEAMS_SHOWN = 40  # of more, the rest is one line: a mail has at most 100 KB of HTML
_OVER = " !"


def sections(report: WeekReport, extras: Extras, oldest_price: date | None) -> tuple[Section, ...]:
    """Return the sections in their order; one that would say nothing is left out whole."""
    every = (
        _checked(report),
        _teams(report, extras),
        _charged(report),
        extras.anomalies,
        extras.requests,
        _corrections(report, extras),
        extras.energy,
        _how_sure(report, extras, oldest_price),
    )
    return tuple(section for section in every if section is not None and not section.is_empty)


def _checked(report: WeekReport) -> Section:
    found = []
    for one in report.checked[:_CHECKED_SHOWN]:
        prediction = one.standing.prediction
        done = day(local(one.standing.applied_at or 0, report.period.timezone)).partition(" ")[2]
        title = f"{plain(prediction.subject)}: {plain(prediction.title)} ({one.standing.id}, done {done})"
        found.append(f"{title}: {predicted_words(one, report.currency)} a week; {came_words(one, report.currency)}.")
    return Section("checked afterwards", tuple(found))


def _teams(report: WeekReport, extras: Extras) -> Section | None:
    if not report.teams:
        return extras.month
    printed = team_lines(report)
    sign = symbol(report.currency).strip()
    is_priced = printed[0].money is not None
    head = ("", f"week {sign}" if is_priced else "GPU-hours", f"avoidable {sign if is_priced else 'h'}", "useful")
    rows = {
        (row.team, row.held): (
            _name((row.team, row.held)),
            line.money if line.money is not None else line.hours,
            line.avoidable,
            line.useful,
        )
        for row, line in zip(report.teams, printed, strict=False)
    }
    last = printed[-1]
    total = (last.name, last.money if last.money is not None else last.hours, last.avoidable, last.useful)
    if not extras.months:
        return Section("teams", (), Table(head, tuple(_folded([*rows.values(), total]))))
    keys = _with_idle(list(rows), extras)
    more, columns = _months([extras.months.get(key, Month(0, 0)) for key in keys])
    shown = [*(rows.get(key, (_name(key), "0", UNKNOWN, UNKNOWN)) for key in keys), total]
    table = [(*row, *column) for row, column in zip(shown, columns, strict=True)]
    return Section("teams", extras.of_months, Table(head + more, tuple(_folded(table))))


def _charged(report: WeekReport) -> Section | None:
    """Return what teams are charged where that is not their cost, as the report has it; to a team its own alone."""
    sign = symbol(report.currency).strip()
    if not report.teams:
        own = [one for one in report.charged if one.difference_micros]
        return Section("charged", tuple(_own_charge(one, report.currency) for one in own))
    rows: list[tuple[str, ...]] = [(line.name, line.cost, line.charged, line.left) for line in charge_lines(report)]
    head = ("", f"cost {sign}", f"charged {sign}", f"platform bears {sign}")
    return Section("charged", (), Table(head, tuple(_folded(rows)))) if rows else None


def _own_charge(one: Charged, currency: str) -> str:
    cost, charged, left = one.cost_micros, one.charged_micros, one.difference_micros or 0
    decimals = money_decimals(cost)
    told = f"{money(charged, currency, decimals)}, for GPUs that cost {money(cost, currency, decimals)}"
    rest = money(abs(left), currency, decimals)
    return f"{told}: the platform {'bears' if left > 0 else 'gets'} the other {rest}."


def _with_idle(keys: list[tuple[str | None, bool]], extras: Extras) -> list[tuple[str | None, bool]]:
    """Return the week's rows, and before what nobody held those that the month knows and this week does not."""
    absent = [key for key in extras.months if key not in keys]
    held = [key for key in keys if key[1]] + [key for key in absent if key[1]]
    return held + [key for key in [*keys, *absent] if not key[1]]


def _name(key: tuple[str | None, bool]) -> str:
    team, held = key
    return "nobody" if not held else plain(team) if team is not None else "unmapped"


def _months(months: list[Month]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the columns of the month, each summing to its last row; the end is left out where one is not known."""
    marks = [month.is_part for month in months]
    exact = _column([month.so_far_micros for month in months])
    so_far = [at_least(cell, is_part) for cell, is_part in zip(exact, [*marks, any(marks)], strict=True)]
    ends = [month.month_end_micros for month in months if month.month_end_micros is not None]
    if len(ends) < len(months):
        return ("month so far",), [(cell,) for cell in so_far]
    over = [*(_OVER if month.is_over else "" for month in months), ""]
    expected = [cell + mark for cell, mark in zip(_column(ends), over, strict=True)]
    return ("month so far", "month-end"), list(zip(so_far, expected, strict=True))


def _column(exact: list[int]) -> list[str]:
    total = nearest(sum(exact), MICROS)
    return [*column_like(total, exact, MICROS, 0), decimal(total, 0)]


def _folded(rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return the rows, at most so many: what is left out is named, and the total stands."""
    if len(rows) <= _TEAMS_SHOWN + 1:
        return rows
    left = len(rows) - 1 - _TEAMS_SHOWN
    return [*rows[:_TEAMS_SHOWN], (f"and {left:,} more", *[""] * (len(rows[0]) - 1)), rows[-1]]


def _corrections(report: WeekReport, extras: Extras) -> Section:
    """Return what was learned of this week and of earlier ones after they had closed: lines, no figure is rewritten."""
    total = None if report.breakdown.unpriced else report.breakdown.cost_micros
    own = moved_words(report.corrections, report.currency, total) if report.corrections else ""
    words = [f"Since {report.period.label} closed, and not in the figures above: {own}."] if own else []
    return Section("corrections", (*words, *extras.corrections))


def _how_sure(report: WeekReport, extras: Extras, oldest_price: date | None) -> Section:
    said = [
        _measured(report),
        *_by_what(report),
        *_settled(report),
        *_prices(report, extras, oldest_price),
        *_not_judged(report),
    ]
    if report.record is not None:
        said.append(f"Our record: {record_words(report.record)}.")
    return Section("how sure we are", tuple(said))


def _measured(report: WeekReport) -> str:
    held, silent = report.measured.held, report.measured.silent
    if not held:
        return "No run is known to have held a GPU."
    share = decimal((held - silent) * 1000 // held, 1)  # rounded down, as in the report: 100 means all
    nodes = [silent_words(node, report.period.timezone) for node in report.measured.nodes[:_NODES_SHOWN]]
    silences = f" ({'; '.join(nodes)})" if nodes else ""
    return f"{share}{NO_BREAK}% of held GPU-hours measured{silences}."


def _by_what(report: WeekReport) -> list[str]:
    words = by_what_words(report.by_what)
    return [f"By what: {words}."] if words else []


def _settled(report: WeekReport) -> list[str]:
    if report.hours.complete and report.hours.status in ("closed", "final"):
        return []
    return [f"The week is {status_words(report)}: its figures may still move."]


def _prices(report: WeekReport, extras: Extras, oldest_price: date | None) -> list[str]:
    words = [f"{one}." for one in unpriced_words(report.breakdown, report.currency)]
    if not report.hours.price_versions:
        return words or ["No price is known."]
    books = ", ".join(version[:12] for version in report.hours.price_versions)
    age = ""
    if oldest_price is not None:
        days = (report.period.last_day - oldest_price).days
        age = f", its oldest price of {oldest_price.isoformat()}, {counted(max(0, days), 'day')} old at the week's end"
    matched = extras.invoice or (match_words(report.invoice) if report.invoice else "not yet matched with an invoice")
    told = [*repriced_words(report.repriced), *edited_words(report.edited)]
    stale = [f"{one[0].upper()}{one[1:]}." for one in told]
    return [f"Prices: book {books}{age}; {matched}.", *stale, *words]


def _not_judged(report: WeekReport) -> list[str]:
    judged = [judged_words(rule) for rule in report.not_judged]
    if not judged:
        return []
    more = len(judged) - _RULES_SHOWN
    rest = [f"and {counted(more, 'rule')} more"] if more > 0 else []
    return [f"Not judged: {'; '.join([*judged[:_RULES_SHOWN], *rest])} (all of them: gpuledger findings --unjudged)."]
