"""What a FOCUS bill says a GPU-hour costs: rows of a price file with source and dates, for a person to look over.

Of what is covered by a commitment it is the effective cost of an hour, of all else the contracted unit price where that
makes the cost of its line. What parts of a machine cost that are lines of their own is in it, and said. A price holds
from the first UTC day on which it was billed until another comes; regions stay apart where a bill has several.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import ROUND_HALF_UP, Decimal

from analyzer.finops.reconcile.bill import Bill, PaidDay, PriceKey
from analyzer.prices.price_book import PriceRow
from analyzer.prices.rows import ANY, price_digits, price_rows_toml

_MICROS = Decimal(1_000_000)
_SAME_PRICE = 1_000  # costs of short lines are rounded: prices that differ by less than a thousandth are one
_ROUNDED = "; rounded to a millionth"
_MEAN = "; the day's mean of several prices"
_BY_FEE = "; the fee of its commitment, by the hours that it covered"
_BY_COST = "; cost by quantity, since the unit price does not make the cost"


@dataclass(frozen=True, slots=True)
class UnitPrices:
    """The currency of a bill, its prices as rows, and whose regions these are of, where they are of several."""

    currency: str
    rows: tuple[PriceRow, ...]
    regions: Mapping[str, str]

    @property
    def is_by_fee(self) -> bool:
        """Whether a price is that of a commitment with a fee of its own."""
        return any(_BY_FEE in row.source for row in self.rows)


def unit_prices(bill: Bill, source: str, as_of: date) -> UnitPrices | None:
    """Return the prices of a bill by GPU kind, purchase option, region and time; None where no line of it is of a GPU.

    Raises:
        ValueError: GPUs are billed in several currencies, or a region by several providers.
    """
    if len(bill.currencies) > 1:
        raise ValueError(f"GPUs are billed in {', '.join(sorted(bill.currencies))}")
    if not bill.currencies:
        return None
    regions: dict[str, str] = {}
    if len({key.region for key, days in bill.prices.items() if any(paid.nano_hours > 0 for paid in days.values())}) > 1:
        for key in bill.prices:
            provider = key.provider or "unknown"
            if key.region is not None and regions.setdefault(key.region, provider) != provider:
                raise ValueError(f"region {key.region} is of {regions[key.region]} and of {provider}")
    merged: dict[PriceKey, dict[int, PaidDay]] = {}
    for key, days in bill.prices.items():
        apart = merged.setdefault(key if regions else key._replace(provider=None, region=None), {})
        for day, paid in days.items():
            apart.setdefault(day, PaidDay()).add(paid)
    _spread_hosts(merged)
    rows = [row for key in sorted(merged, key=str) for row in _rows(key, merged[key], source, as_of)]
    return UnitPrices(next(iter(bill.currencies)), tuple(rows), regions)


def _spread_hosts(prices: Mapping[PriceKey, Mapping[int, PaidDay]]) -> None:
    """Give parts of machines that are billed another way than the GPUs (another option, no region) to those GPUs.

    By GPU-hours of their kind and day, those of the same option and region first. Where that day has no such GPUs the
    parts are of none, and in no price.
    """
    for key, days in prices.items():
        for day, parts in days.items():
            if parts.nano_hours > 0 or not parts.host_nanos:
                continue
            of_kind = [
                other
                for other in prices
                if other.sku == key.sku and day in prices[other] and prices[other][day].nano_hours > 0
            ]
            alike = [one for one in of_kind if key.option in (None, one.option) and key.region in (None, one.region)]
            hours = {other: prices[other][day].nano_hours for other in alike or of_kind}
            for other, taken in hours.items():
                prices[other][day].host_nanos += parts.host_nanos * taken // sum(hours.values())


def _rows(key: PriceKey, days: Mapping[int, PaidDay], source: str, as_of: date) -> list[PriceRow]:
    found: list[tuple[int, int, str]] = []
    for day in sorted(day for day in days if days[day].nano_hours > 0):
        micros, note = _of_day(days[day])
        if micros > 0 and (not found or found[-1][1] != micros):
            found.append((day, micros, note))
    ends: Sequence[int | None] = [*(day for day, _, _ in found), None][1:]
    return [
        PriceRow(
            sku=key.sku,
            purchase_option=key.option,
            node_group=None,
            micros_per_gpu_hour=micros,
            starts_at=day,
            ends_at=end,
            source=source + note,
            as_of=as_of,
            provider=key.provider if key.region is not None else None,
            region=key.region,
        )
        for (day, micros, note), end in zip(found, ends, strict=True)
    ]


def _of_day(day: PaidDay) -> tuple[int, str]:
    """Return the price of a day in millionths, and what its source must say of how it was made."""
    hours = Decimal(day.nano_hours)
    fee = 0 if day.paid else day.fee_nanos
    mean = sum((price * taken for price, taken in day.paid.items()), Decimal(fee)) / hours
    apart = sum((abs((price - mean) * taken) for price, taken in day.paid.items()), Decimal(0)) / hours
    host = Decimal(day.host_nanos) / hours
    micros = int(((mean + host) * _MICROS).to_integral_value(ROUND_HALF_UP))
    note = _BY_FEE if fee else _BY_COST if day.is_by_cost else ""
    if host:
        share, what = host / (mean + host), "of it is the host's (cores, memory)"
        if host < 0:
            share, what = -host / mean, "was taken off by discounts on lines of their own"
        note += f"; {share * 100:.1f}% {what}"
    if apart * _SAME_PRICE > mean:
        note += _MEAN
    elif (mean + host) * _MICROS != micros:
        note += _ROUNDED
    return micros, note


def price_file(prices: UnitPrices) -> str:
    """Return the rows as the text of a price file."""
    rows = [_toml_row(row, prices.currency) for row in prices.rows]
    return price_rows_toml(prices.currency, rows, regions=prices.regions)


def _toml_row(row: PriceRow, currency: str) -> Mapping[str, object]:
    return {
        "sku": row.sku or ANY,
        "purchase_option": row.purchase_option or ANY,
        "provider": row.provider,
        "region": row.region,
        f"{currency.lower()}_per_gpu_hour": price_digits(row.micros_per_gpu_hour),
        "from": _day(row.starts_at),
        "until": None if row.ends_at is None else _day(row.ends_at),
        "source": row.source,
        "as_of": row.as_of,
    }


def _day(instant: int) -> date:
    return datetime.fromtimestamp(instant // 1_000_000, UTC).date()
