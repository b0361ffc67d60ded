"""What teams are charged for a period, and what was learned in it of earlier ones, as people and machines read it."""

from collections.abc import Sequence
from dataclasses import dataclass

from analyzer.errors import LedgerError
from analyzer.finops.charges.closing import Edited, closed_at, edited, edited_words
from analyzer.finops.charges.sums import Bearer, Charged, charges, read_corrections, read_held
from analyzer.ledger.coverage import Hours, known_hours
from analyzer.period import Period, local
from analyzer.prices.price_book import Repriced, price_book, repriced, repriced_words
from analyzer.settings.settings import Settings
from analyzer.text.layout import TextLayout
from analyzer.text.table import GPU_TIME, CellUnit, TableColumn, csv_table, money_of, paper_lines
from analyzer.text.words import UNKNOWN, money, plain
from collector.store.session import Session


@dataclass(frozen=True, slots=True)
class ChargesReport:
    """Charges of a period. `lines` sum to its bill; `corrections` are learned in it, of hours that had closed."""

    period: Period
    currency: str
    by: Bearer
    rates: int
    hours: Hours
    lines: tuple[Charged, ...]
    corrections: tuple[Charged, ...] = ()
    repriced: Repriced | None = None
    edited: Edited | None = None
    closed_at: int | None = None  # when its teams and rates closed; None while any hour of it may follow edits


def charges_report(session: Session, settings: Settings, period: Period, by: Bearer) -> ChargesReport:
    """Return what is charged for a period.

    Raises:
        LedgerError: the ledger has no hour of it: a bill of nothing would pass for a free month.
        ConfigError: the price file is wrong.
    """
    rates = price_book(settings).charges
    known = known_hours(session, period)
    if not known.known:
        raise LedgerError(f"the ledger has no hour of {period.label}; gpuledger admin analyze books what is there")
    months = read_corrections(session, period)
    return ChargesReport(
        period,
        settings.currency,
        by,
        len(rates),
        known,
        charges(read_held(session, period), rates, by),
        tuple(line for month in sorted(months) for line in charges(months[month], rates, by, month) if line.moves),
        repriced(session, period, settings),
        edited(session, period, settings),
        closed_at(session, period),
    )


_NAME, _CELL = 24, 14
_FIGURES = ("held", "milliseconds", "cost_micros", "charged_micros", "avoidable_micros", "difference_micros")
_Named = tuple[str, Charged]


def _name_cell(name: str) -> str:
    """Return a name; one that is too long for its column has a line of its own, and is never cut."""
    return name if len(name) < _NAME else f"{name}\n{'':<{_NAME}}"


_NAMES = CellUnit(_name_cell)


def _columns(report: ChargesReport) -> tuple[TableColumn[_Named], ...]:
    """Return the columns of the table."""
    key, currency = key_of(report.by), money_of(report.currency)
    return (
        TableColumn(key.replace("_", " ").upper(), lambda row: row[0], _NAMES, _NAME, "<", key),
        TableColumn("GPU-hours", lambda row: row[1].milliseconds, GPU_TIME, _CELL, name="gpu_hours"),
        TableColumn("cost", lambda row: row[1].cost_micros, currency, _CELL, name="cost"),
        TableColumn("charged", lambda row: row[1].charged_micros, currency, _CELL, name="charged"),
        TableColumn("difference", lambda row: row[1].difference_micros, currency, _CELL, name="difference"),
    )


def charge_text(report: ChargesReport, layout: TextLayout) -> str:
    """Return the table: GPU-hours, cost, charged and the platform's difference by bearer, their sums, corrections."""
    total = _total(report.lines)
    rows = [*((name_of(one), one) for one in report.lines), ("total", total)]
    found = [f"charges {report.period.label}   {_rates_told(report)}", ""]
    found += [*paper_lines(_columns(report), rows, indent=""), ""]
    for said in (*_sums_told(total, report.currency), *_notes(report)):
        found += layout.wrap(said, "")
    return layout.page([*found, *_corrections(report, layout)])


def charge_csv(report: ChargesReport) -> str:
    """Return one row a bearer: what is charged is the chargeback; cost, and what of it was avoidable, the showback.

    Unknown is an empty cell. GPU-hours are rounded to the sixth decimal, money is exact. `corrects` is the month of
    the hours that a correction is of, empty in the rows of the period itself.
    """
    name, hours, cost, charged, difference = _columns(report)
    avoidable = TableColumn[_Named](
        "avoidable", lambda row: row[1].avoidable_micros, money_of(report.currency), name="avoidable"
    )
    columns = (
        TableColumn[_Named]("period", lambda _: report.period.label, name="period"),
        name,
        hours,
        TableColumn[_Named]("currency", lambda _: report.currency, name="currency"),
        cost,
        avoidable,
        charged,
        difference,
        TableColumn[_Named]("corrects", lambda row: row[1].corrects, name="corrects"),
    )
    return csv_table(columns, [(name_of(one), one) for one in (*report.lines, *report.corrections)])


def _rates_told(report: ChargesReport) -> str:
    rates = report.rates
    if report.closed_at is not None:
        return f"final: teams and charge rates as of {local(report.closed_at, report.period.timezone):%Y-%m-%d}"
    if not rates:
        return "no charge rates: a team is charged the cost of its GPUs"
    which = f"{rates} charge rates" if rates > 1 else "one charge rate"
    return f"{which}; otherwise a team is charged the cost of its GPUs"


def _sums_told(total: Charged, currency: str) -> list[str]:
    difference = total.difference_micros
    if difference is None:
        return [f"{UNKNOWN}: part of it has no price; gpuledger bill prices check names what is missing"]
    who = "the platform bears" if difference >= 0 else "the platform is left with"
    charged, bill = money(total.charged_micros, currency), money(total.cost_micros, currency)
    return [
        f"{who} {money(abs(difference), currency)}:",
        f"charged {charged} and {money(difference, currency)} are the bill of {bill}",
    ]


def _notes(report: ChargesReport) -> list[str]:
    known = report.hours
    lacking = f"only {known.known:,} of {known.expected:,} hours of {report.period.label} are in the ledger"
    return [*([] if known.complete else [lacking]), *repriced_words(report.repriced), *edited_words(report.edited)]


def _corrections(report: ChargesReport, layout: TextLayout) -> list[str]:
    """Return what was learned of hours that had closed: beside the bill above, which stays as it was."""
    if not report.corrections:
        return []
    title = f"CORRECTIONS booked in {report.period.label} to closed hours; not in the figures above"
    rows = [(f"{one.corrects} {name_of(one)}", one) for one in report.corrections]
    rows.append(("total with them", _total([*report.lines, *report.corrections])))
    _, *lines = paper_lines(_columns(report), rows, indent="")  # below the heads of the bill
    return ["", *layout.wrap(title, ""), *lines]


def charge_data(report: ChargesReport) -> dict[str, object]:
    """Return the same for machines; amounts are integer millionths."""
    return {
        "period": report.period,
        "currency": report.currency,
        "by": key_of(report.by),
        "hours": {"known": report.hours.known, "expected": report.hours.expected, "status": report.hours.status},
        "repriced": report.repriced,
        "closed_at": report.closed_at,
        "edited": report.edited,
        "charges": [_data(one, report.by) for one in report.lines],
        "corrections": [_data(one, report.by) | {"corrects": one.corrects} for one in report.corrections],
    }


def _data(one: Charged, by: Bearer) -> dict[str, object]:
    bearer = {key_of(by): one.bearer} if by == "team" else {key_of(by): one.bearer, "team": one.team}
    return bearer | {name: getattr(one, name) for name in _FIGURES}


def key_of(by: Bearer) -> str:
    """Return what files and documents call the bearer."""
    return by.replace("-", "_")


def name_of(line: Charged) -> str:
    """Return what people call the line."""
    if not line.held:
        return "nobody (not allocated)"
    if line.bearer is not None:
        return plain(line.bearer)
    return f"no cost centre: {plain(line.team)}" if line.team is not None else "unmapped"


def _total(lines: Sequence[Charged]) -> Charged:
    return Charged(
        None,
        True,
        sum(one.milliseconds for one in lines),
        _known_sum([one.cost_micros for one in lines]),
        _known_sum([one.charged_micros for one in lines]),
    )


def _known_sum(amounts: Sequence[int | None]) -> int | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if len(known) == len(amounts) else None
