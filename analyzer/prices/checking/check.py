"""Everything that is wrong with the prices. Pure: today, the fleet and the ledger's hours are given."""

from collections.abc import Collection, Sequence
from datetime import date

from analyzer.prices.checking.against_fleet import fleet_faults
from analyzer.prices.checking.complaint import Complaint
from analyzer.prices.checking.fleet import KindHour, Owned
from analyzer.prices.checking.order import order_faults
from analyzer.prices.checking.rows import row_faults
from analyzer.prices.price_book import PriceBook


def complaints(
    book: PriceBook,
    fleet: Sequence[Owned],
    today: date,
    teams: Collection[str] | None = None,
    booked: Sequence[KindHour] = (),
) -> list[Complaint]:
    """Return every fault of the book, missing prices first: those cost a report its money column.

    `teams` are those that exist, where that is known: a charge for another is charged to nobody.
    """
    return [*fleet_faults(book, fleet, booked), *row_faults(book, today, teams), *order_faults(book, today)]
