"""What is to be asked of one row by itself: its age, its figure beside the list prices, its parts, its team. Pure."""

from collections.abc import Collection
from datetime import date
from difflib import get_close_matches

from agent.wire.units import HOUR_US
from analyzer.prices.charge_rows import Charge
from analyzer.prices.checking.complaint import Complaint, midnight_us
from analyzer.prices.list_prices import median_of
from analyzer.prices.money import dollars
from analyzer.prices.non_gpu_rows import Tariff
from analyzer.prices.price_book import PriceBook
from analyzer.prices.row_names import name_of
from analyzer.prices.site import Derived, PriceRow

_STALE_DAYS = 90  # list prices of one GPU moved within a quarter (SCREENS 6: a book 16 days old is fresh)
_STALE_TARIFF_DAYS = 400  # tariffs of power and storage, and internal price lists, are made by the year
_SUSPICIOUS_LOW, _SUSPICIOUS_HIGH = 0.2, 5.0  # times the median list price; honest contracts lie well inside
# Spot is listed at a tenth of what is asked on demand, and owned GPUs that are some years old cost as little; a figure
# of a node that was meant per GPU is eight times too much, the other way round an eighth.
_SUSPICIOUS_LOW_MADE = 0.05


def row_faults(book: PriceBook, today: date, teams: Collection[str] | None) -> list[Complaint]:
    """Return what is to be asked of each row; `teams` are those that exist, where that is known."""
    found: list[Complaint] = []
    for row in book.rows:
        name = name_of(row, row.micros_per_gpu_hour)
        found += _stale(name, row, today, _STALE_DAYS)
        found += _suspicious(name, row.sku, row.micros_per_gpu_hour, book.currency)
    for made in book.derived:
        found += _of_derived(made, book, today)
    for charge in book.charges:
        found += _stale(f"charge {charge.told}", charge, today, _STALE_TARIFF_DAYS) + _whose(charge, teams)
    for tariff in book.beside.rows:
        found += _stale(tariff.told, tariff, today, _STALE_TARIFF_DAYS)
    return found


def _of_derived(row: Derived, book: PriceBook, today: date) -> list[Complaint]:
    """A row that is over is passed over in silence where another has taken its place."""
    midnight = midnight_us(today)
    at_us = max(row.starts_at, min(midnight, row.ends_at - HOUR_US if row.ends_at is not None else midnight))
    micros = row.micros_at(at_us)
    name = name_of(row, micros)
    followed = not row.covers(midnight) and book.row_in_place_of(row, midnight) is not None
    found = _stale(name, row, today, row.stale_days)
    if not followed:
        found += [Complaint(kind, f"{name}: {sentence}") for kind, sentence in row.faults(today)]
    low = _SUSPICIOUS_LOW if row.purchase_option == "reserved" else _SUSPICIOUS_LOW_MADE
    return found + (_suspicious(name, row.sku, micros, book.currency, low) if micros is not None else [])


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
    over = row.ends_at is not None and row.ends_at <= midnight_us(today)
    if age <= most_days or over:
        return []
    return [Complaint("stale", f"{name}: last checked {age} days ago ({row.as_of}); look again and set as_of")]


def _suspicious(
    name: str, sku: str | None, micros: int, currency: str, low: float = _SUSPICIOUS_LOW
) -> list[Complaint]:
    median = median_of(sku) if sku and currency == "USD" else None
    if median is None or low * median <= micros <= _SUSPICIOUS_HIGH * median:
        return []
    times = micros / median
    sentence = f"{name}: {times:.2f} times the median list price of ${dollars(median)}; is it per GPU and per hour?"
    return [Complaint("suspicious", sentence)]
