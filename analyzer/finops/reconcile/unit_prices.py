"""What a FOCUS bill says a GPU-hour costs: rows of a price file with source and dates, for a person to look over.

Of what is covered by a commitment it is the effective cost of an hour, of all else the contracted unit price where the
bill has one. A price holds from the first UTC day on which it was billed until another comes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import ROUND_HALF_UP, Decimal

from agent.wire.units import DAY_US
from analyzer.finops.focus.read import BillLine
from analyzer.finops.reconcile.bill import HOUR_UNITS, SkuMap
from analyzer.prices.price_book import PriceRow
from analyzer.prices.rows import ANY, price_digits, price_rows_toml

_MICROS = Decimal(1_000_000)
_SAME_PRICE = 1_000  # costs of short lines are rounded: prices that differ by less than a thousandth are one
_ROUNDED = "; rounded to a millionth"
_MEAN = "; the day's mean of several prices"


@dataclass(slots=True)
class _Day:
    """What was paid on one UTC day: each price of a GPU-hour with the GPU-hours that it was paid for."""

    paid: dict[Decimal, Decimal] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UnitPrices:
    """The currency of a bill, its prices as rows, and how many lines of GPUs name no hours, so that none follows."""

    currency: str
    rows: tuple[PriceRow, ...]
    left_out: int


def unit_prices(lines: Iterable[BillLine], skus: SkuMap, source: str, as_of: date) -> UnitPrices | None:
    """Return the prices of a bill by GPU kind, purchase option and time; None where no line of it is of a GPU.

    Raises:
        ValueError: lines of GPUs are in several currencies.
    """
    days: dict[tuple[str, str | None], dict[int, _Day]] = {}
    currencies: set[str] = set()
    left_out = 0
    for line in lines:
        kind = skus.kind(line)
        if kind is None or line.category != "Usage" or line.correction:
            continue
        currencies.add(line.currency)
        price = _price(line, kind.gpus)
        if price is None or line.quantity is None:
            left_out += 1
            continue
        day = days.setdefault((kind.sku, kind.option), {}).setdefault(line.start // DAY_US * DAY_US, _Day())
        day.paid[price] = day.paid.get(price, Decimal(0)) + line.quantity * kind.gpus
    if len(currencies) > 1:
        raise ValueError(f"GPUs are billed in {', '.join(sorted(currencies))}")
    if not currencies:
        return None
    rows = [row for key in sorted(days, key=str) for row in _rows(key, days[key], source, as_of)]
    return UnitPrices(currencies.pop(), tuple(rows), left_out)


def _price(line: BillLine, gpus: int) -> Decimal | None:
    """Return what one GPU-hour of a line costs; None where the line has no hours or costs nothing."""
    if (line.unit or "").casefold() not in HOUR_UNITS or not line.quantity or line.quantity < 0:
        return None
    covered = line.pricing_category == "Committed"
    unit = None if covered else line.unit_price
    price = (line.effective / line.quantity if unit is None else unit) / gpus
    return price if price > 0 else None


def _rows(key: tuple[str, str | None], days: dict[int, _Day], source: str, as_of: date) -> list[PriceRow]:
    sku, option = key
    rows: list[PriceRow] = []
    for day in sorted(days):
        micros, note = _of_day(days[day])
        if rows and rows[-1].micros_per_gpu_hour == micros:
            continue
        rows.append(_row(sku, option, micros, (day, None), source + note, as_of))
    ends = [row.starts_at for row in rows[1:]] + [None]
    return [
        _row(sku, option, row.micros_per_gpu_hour, (row.starts_at, end), row.source, as_of)
        for row, end in zip(rows, ends, strict=True)
    ]


def _row(sku: str, option: str | None, micros: int, span: tuple[int, int | None], source: str, as_of: date) -> PriceRow:
    return PriceRow(
        sku=sku,
        purchase_option=option,
        node_group=None,
        micros_per_gpu_hour=micros,
        starts_at=span[0],
        ends_at=span[1],
        source=source,
        as_of=as_of,
    )


def _of_day(day: _Day) -> tuple[int, str]:
    """Return the price of a day in millionths, and what its source must say: that it was rounded, or is a mean."""
    hours = sum(day.paid.values(), Decimal(0))
    mean = sum((price * taken for price, taken in day.paid.items()), Decimal(0)) / hours
    micros = int((mean * _MICROS).to_integral_value(ROUND_HALF_UP))
    if len(day.paid) == 1:
        return micros, "" if mean * _MICROS == micros else _ROUNDED
    apart = sum((abs(price - mean) * taken for price, taken in day.paid.items()), Decimal(0)) / hours
    return micros, _ROUNDED if apart * _SAME_PRICE <= mean else _MEAN


def price_file(prices: UnitPrices) -> str:
    """Return the rows as the text of a price file."""
    return price_rows_toml(prices.currency, [_toml_row(row, prices.currency) for row in prices.rows])


def _toml_row(row: PriceRow, currency: str) -> Mapping[str, object]:
    return {
        "sku": row.sku or ANY,
        "purchase_option": row.purchase_option or ANY,
        f"{currency.lower()}_per_gpu_hour": price_digits(row.micros_per_gpu_hour),
        "from": _day(row.starts_at),
        "until": None if row.ends_at is None else _day(row.ends_at),
        "source": row.source,
        "as_of": row.as_of,
    }


def _day(instant: int) -> date:
    return datetime.fromtimestamp(instant // 1_000_000, UTC).date()
