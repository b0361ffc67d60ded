"""What is wrong with the prices: stale, missing or suspicious. Pure: today and the fleet are given."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

from analyzer.pricing.book import PriceBook
from analyzer.pricing.list_prices import median_of, range_of
from analyzer.pricing.money import dollars
from analyzer.pricing.site import ANY, PriceRow

if TYPE_CHECKING:
    from collector.store.session import Session

STALE_DAYS = 90  # list prices of one GPU moved within a quarter (SCREENS 6: a book 16 days old is fresh)
SUSPICIOUS_LOW, SUSPICIOUS_HIGH = 0.2, 5.0  # times the median list price; honest contracts lie well inside


@dataclass(frozen=True, slots=True)
class Owned:
    """GPUs of one kind that the store's fleet owns, last seen owned at `at_us`."""

    sku: str | None
    purchase_option: str | None
    node_group: str | None
    gpus: int
    at_us: int


@dataclass(frozen=True, slots=True)
class Complaint:
    """One fault of the price book: stale, missing or suspicious, and a sentence with the way out."""

    kind: str
    sentence: str


def owned_kinds(session: "Session", now_us: int) -> list[Owned]:
    """Return what the store's fleet owns by kind; each with the latest moment at or before `now_us` it was owned."""
    rows = session.rows(
        """
        WITH host AS (SELECT node, arg_max(node_group, started_at) AS node_group FROM inventory GROUP BY node)
        SELECT sku, purchase_option, node_group, count(DISTINCT (node, gpu_uuid, slot)),
               max(greatest(owned_from, least($now, coalesce(owned_until, $now + 1) - 1)))
        FROM ownership LEFT JOIN host USING (node)
        GROUP BY ALL ORDER BY ALL
        """,
        {"now": now_us},
    )
    return [Owned(*row) for row in rows]


def complaints(book: PriceBook, fleet: Iterable[Owned], today: date) -> list[Complaint]:
    """Return every fault of the book, missing prices first: those cost a report its money column."""
    found = [_missing(kind) for kind in fleet if _price_of(book, kind) is None]
    for row in book.rows:
        found += _stale(row, today) + _suspicious(row, book.currency)
    return found


def _price_of(book: PriceBook, kind: Owned) -> object:
    return book.price(kind.sku, kind.purchase_option, kind.at_us, kind.node_group)


def _missing(kind: Owned) -> Complaint:
    what = f"{kind.gpus} x {kind.sku or 'GPU of unknown SKU'} ({kind.purchase_option or 'purchase option unknown'})"
    known = range_of(kind.sku) if kind.sku else None
    hint = f"; list prices on demand: ${dollars(known[0])} to ${dollars(known[1])}" if known else ""
    return Complaint("missing", f"{what}: no price is known, so their cost is not shown; add a [[price]]{hint}")


def _stale(row: PriceRow, today: date) -> list[Complaint]:
    if row.as_of is None:
        return [Complaint("stale", f"{_name(row)}: its source has no date; ask, and write a dated [[price]]")]
    age = (today - row.as_of).days
    over = row.ends_at is not None and row.ends_at <= _midnight_us(today)
    if age <= STALE_DAYS or over:
        return []
    return [Complaint("stale", f"{_name(row)}: last checked {age} days ago ({row.as_of}); look again and set as_of")]


def _midnight_us(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1_000_000


def _suspicious(row: PriceRow, currency: str) -> list[Complaint]:
    median = median_of(row.sku) if row.sku and currency == "USD" else None
    if median is None or SUSPICIOUS_LOW * median <= row.micros_per_gpu_hour <= SUSPICIOUS_HIGH * median:
        return []
    times = row.micros_per_gpu_hour / median
    sentence = (
        f"{_name(row)}: {times:.2f} times the median list price of ${dollars(median)}; is it per GPU and per hour?"
    )
    return [Complaint("suspicious", sentence)]


def _name(row: PriceRow) -> str:
    group = f" in {row.node_group}" if row.node_group else ""
    return f"{row.sku or 'any GPU'} ({row.purchase_option or ANY}){group} at {dollars(row.micros_per_gpu_hour)}"
