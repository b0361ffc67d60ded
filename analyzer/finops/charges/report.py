"""What teams are charged for a period, and what was learned in it of earlier ones."""

from dataclasses import dataclass

from analyzer.errors import LedgerError
from analyzer.finops.charges.edited import Edited, closed_at, edited
from analyzer.finops.charges.held_query import read_corrections, read_held
from analyzer.finops.charges.sums import Bearer, Charged, charges
from analyzer.ledger.coverage import Hours, known_hours
from analyzer.period import Period
from analyzer.prices.price_book import price_book
from analyzer.prices.repriced import Repriced, repriced
from analyzer.settings.settings import Settings
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
