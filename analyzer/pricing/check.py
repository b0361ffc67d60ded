"""What is wrong with the prices: stale, missing, over or suspicious. Pure: today and the fleet are given."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING

from analyzer.pricing.beside.rows import Tariff
from analyzer.pricing.book import PriceBook
from analyzer.pricing.charging.rows import Charge
from analyzer.pricing.list_prices import median_of, range_of
from analyzer.pricing.money import dollars
from analyzer.pricing.options import ANY
from analyzer.pricing.site import Derived, PriceRow
from analyzer.toml_entry import HOUR_US

if TYPE_CHECKING:
    from collector.store.session import Session

STALE_DAYS = 90  # list prices of one GPU moved within a quarter (SCREENS 6: a book 16 days old is fresh)
STALE_TARIFF_DAYS = 400  # tariffs of power and storage, and internal price lists, are made by the year
SUSPICIOUS_LOW, SUSPICIOUS_HIGH = 0.2, 5.0  # times the median list price; honest contracts lie well inside
# Spot is listed at a tenth of what is asked on demand, and owned GPUs that are some years old cost as little; a figure
# of a node that was meant per GPU is eight times too much, the other way round an eighth.
SUSPICIOUS_LOW_MADE = 0.05


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
    """One fault of the price book (stale, missing, gaps, over, suspicious), and a sentence with the way out."""

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


def complaints(
    book: PriceBook, fleet: Iterable[Owned], today: date, teams: Collection[str] | None = None
) -> list[Complaint]:
    """Return every fault of the book, missing prices first: those cost a report its money column.

    `teams` are those that exist, where that is known: a charge for another is charged to nobody.
    """
    found = [_missing(kind, book) for kind in fleet if _price_of(book, kind) is None]
    for row in book.rows:
        found += _stale(_name(row), row, today, STALE_DAYS)
        found += _suspicious(_name(row), row.sku, row.micros_per_gpu_hour, book.currency)
    for made in book.derived:
        found += _of_derived(made, book, today)
    for charge in book.charges:
        found += _stale(f"charge {charge.told}", charge, today, STALE_TARIFF_DAYS) + _whose(charge, teams)
    for tariff in book.beside.rows:
        found += _stale(tariff.told, tariff, today, STALE_TARIFF_DAYS)
    return found


def _price_of(book: PriceBook, kind: Owned) -> object:
    return book.price(kind.sku, kind.purchase_option, kind.at_us, kind.node_group)


def _missing(kind: Owned, book: PriceBook) -> Complaint:
    what = f"{kind.gpus} x {kind.sku or 'GPU of unknown SKU'} ({kind.purchase_option or 'purchase option unknown'})"
    known = range_of(kind.sku) if kind.sku else None
    hint = f"; list prices on demand: ${dollars(known[0])} to ${dollars(known[1])}" if known else ""
    written = {sku for row in (*book.rows, *book.derived) if (sku := row.subject[0]) is not None}
    model = kind.sku.partition("-")[0] if kind.sku and kind.sku not in written else None
    like = sorted(sku for sku in written if sku.partition("-")[0] == model)
    hint += f"; the file has a price of {like[0]}: is that the same GPU?" if like else ""
    return Complaint("missing", f"{what}: no price is known, so their cost is not shown; add a [[price]]{hint}")


def _of_derived(row: Derived, book: PriceBook, today: date) -> list[Complaint]:
    """A row that is over is passed over in silence where another has taken its place."""
    midnight = _midnight_us(today)
    at_us = max(row.starts_at, min(midnight, row.ends_at - HOUR_US if row.ends_at is not None else midnight))
    micros = row.micros_at(at_us)
    name = row.told + (f" in {row.of.node_group}" if row.of.node_group else "")
    name += f" at {dollars(micros)}" if micros is not None else ""
    followed = (
        not row.covers(midnight)
        and book.price(row.of.sku, row.purchase_option, midnight, row.of.node_group) is not None
    )
    found = _stale(name, row, today, row.stale_days)
    if not followed:
        found += [Complaint(kind, f"{name}: {sentence}") for kind, sentence in row.faults(today)]
    low = SUSPICIOUS_LOW if row.purchase_option == "reserved" else SUSPICIOUS_LOW_MADE
    return found + (_suspicious(name, row.of.sku, micros, book.currency, low) if micros is not None else [])


def _whose(charge: Charge, teams: Collection[str] | None) -> list[Complaint]:
    if teams is None or charge.team in teams:
        return []
    like = get_close_matches(charge.team, sorted(teams), n=1)
    hint = f"did you mean {like[0]!r}?" if like else "write the name that teams.toml has"
    return [Complaint("unknown", f"charge {charge.told}: no rule of the teams file names this team; {hint}")]


def _stale(name: str, row: PriceRow | Derived | Charge | Tariff, today: date, most_days: int) -> list[Complaint]:
    if row.as_of is None:
        return [Complaint("stale", f"{name}: its source has no date; ask, and write a dated [[price]]")]
    age = (today - row.as_of).days
    over = row.ends_at is not None and row.ends_at <= _midnight_us(today)
    if age <= most_days or over:
        return []
    return [Complaint("stale", f"{name}: last checked {age} days ago ({row.as_of}); look again and set as_of")]


def _midnight_us(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1_000_000


def _suspicious(name: str, sku: str | None, micros: int, currency: str, low: float = SUSPICIOUS_LOW) -> list[Complaint]:
    median = median_of(sku) if sku and currency == "USD" else None
    if median is None or low * median <= micros <= SUSPICIOUS_HIGH * median:
        return []
    times = micros / median
    sentence = f"{name}: {times:.2f} times the median list price of ${dollars(median)}; is it per GPU and per hour?"
    return [Complaint("suspicious", sentence)]


def _name(row: PriceRow) -> str:
    group = f" in {row.node_group}" if row.node_group else ""
    return f"{row.sku or 'any GPU'} ({row.purchase_option or ANY}){group} at {dollars(row.micros_per_gpu_hour)}"
