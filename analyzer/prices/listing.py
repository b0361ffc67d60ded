"""The price book as people and machines read it."""

from datetime import UTC, datetime

from agent.wire.units import HOUR_US
from analyzer.prices.derived import PricePart, Spot
from analyzer.prices.list_prices import list_prices, on_demand
from analyzer.prices.non_gpu_rows import Tariff
from analyzer.prices.price_book import Derived, PriceBook, PriceRow, place_of
from analyzer.prices.rows import ANY, Charge
from analyzer.text.layout import TextLayout
from analyzer.text.table import CellUnit, TableColumn, paper_lines
from analyzer.text.words import counted, dollars

PAPER = TextLayout(82, ascii=True)  # lines of at most 80 columns
_KIND = ("sku", "purchase_option", "node_group", "provider", "region")
_SAID = 6  # where the line below a price begins


def book_lines(book: PriceBook, where: str, sku: str | None, now_us: int) -> list[str]:
    """Return the site's own prices: what the ledger books with, and how those that are made of figures come about."""
    rows = [row for row in book.rows if _wanted(row.sku, sku)]
    found = paper_lines(_HEAD, [("prices of this site", where)], "")
    found += paper_lines(_HEAD, [("version", book.version)], "") if book.version else []
    found += paper_lines(_HEAD, [("regions", _regions_told(book))], "", wrap=PAPER) if book.regions else []
    for row in sorted(rows, key=lambda row: (row.sku or "", row.starts_at)):
        found += _priced_lines(row.sku, row.purchase_option, row, row.micros_per_gpu_hour)
    for made in sorted(book.derived, key=lambda row: (row.sku, row.starts_at)):
        found += _derived_lines(made, now_us) if _wanted(made.sku, sku) else []
    return found


def beside_lines(book: PriceBook) -> list[str]:
    """Return what teams are charged and what costs besides GPUs; empty where the file has none."""
    found: list[str] = []
    if book.charges:
        found.append("what teams are charged per GPU-hour   separate from the ledger")
    for one in book.charges:
        found += paper_lines(_CHARGES, [one], wrap=PAPER) + _source_lines(one)
    if book.beside.rows:
        found += [*([""] if found else []), "costs besides GPUs   gpuledger bill costs counts them"]
    for row in book.beside.rows:
        found += paper_lines(_TARIFFS, [row], wrap=PAPER) + _source_lines(row)
    return [*found, ""] if found else []


def _regions_told(book: PriceBook) -> str:
    return ", ".join(f"{region} ({provider})" for region, provider in book.regions.providers)


def _priced_lines(sku: str | None, option: str | None, row: PriceRow | Derived, micros: int | None) -> list[str]:
    """Return a price with its period, and below it where it holds, who says so, and when somebody last looked."""
    return paper_lines(_PRICES, [(sku, option, micros, row)], wrap=PAPER) + _source_lines(row, place_of(row))


def _period(row: PriceRow | Derived | Charge | Tariff) -> str:
    until = _day(row.ends_at) if row.ends_at is not None else "further notice"
    return f"{_day(row.starts_at)} until {until}"


def _source_lines(row: PriceRow | Derived | Charge | Tariff, place: str = "") -> list[str]:
    checked = f"checked {row.as_of}" if row.as_of else "undated"
    said = f"{place}; {row.source}, {checked}" if place else f"{row.source}, {checked}"
    return PAPER.wrap(said, " " * _SAID)


def _derived_lines(row: Derived, now_us: int) -> list[str]:
    """Return the price of the present hour, or of the nearest that the row speaks of, and its parts; they sum to it."""
    at_us = _spoken_at(row, now_us)
    found = _priced_lines(row.sku, row.purchase_option, row, row.micros_at(at_us))
    amounts = [(part, part.micros_at(at_us)) for part in row.parts()]
    shown = [(part, micros) for part, micros in amounts if micros or part.ends_at is None or at_us < part.ends_at]
    return [*found, *paper_lines(_PARTS, shown, " " * _SAID, wrap=PAPER), *_series_lines(row, at_us)]


def _series_lines(row: Derived, at_us: int) -> list[str]:
    if not isinstance(row, Spot):
        return []
    if not row.hours:
        return ["      the series is empty: the cost of every hour is unknown"]
    low, high = dollars(min(row.micros)), dollars(max(row.micros))
    span = f"{_day(row.hours[0])} to {_day(row.hours[-1])}"
    return PAPER.wrap(
        f"{len(row.hours):,} hours from {span}, {low} to {high}; the price above is of {_day(at_us)}", " " * 6
    )


def _spoken_at(row: Derived, now_us: int) -> int:
    if isinstance(row, Spot) and row.hours:
        return max((hour for hour in row.hours if hour <= now_us), default=row.hours[0])
    last = now_us if row.ends_at is None else min(now_us, row.ends_at - HOUR_US)
    return max(row.starts_at, last)


def hint_lines(sku: str | None) -> list[str]:
    """Return one line a SKU: the range of what is asked on demand, without estimates, spot and doubtful rows."""
    lines = PAPER.wrap("list prices on demand, USD per GPU-hour, for comparison only: nothing is booked with them", "")
    ranges = []
    for name in sorted({row.sku for row in list_prices() if _wanted(row.sku, sku)}):
        prices = on_demand(name, list_prices())
        if prices:
            span = f"{dollars(prices[0])} to {dollars(prices[-1])}" if prices[0] < prices[-1] else dollars(prices[0])
            ranges.append((name, f"{span}   ({counted(len(prices), 'row')})"))
    return [*lines, *paper_lines(_RANGES, ranges)]


def list_lines(sku: str | None) -> list[str]:
    """Return every list price with source and date, and what is wrong with it."""
    lines = ["every list price   name one as [[list_price]] in the price file to use it"]
    for row in list_prices():
        if _wanted(row.sku, sku):
            doubt = f"; {row.objection}" if row.objection else ""
            told = (
                f"{row.provider} {row.region} {row.instance_type} {row.purchase_option}, as of {row.as_of}{doubt};"
                f" {row.source}@{row.source_version[:12]}"
            )
            lines += PAPER.wrap(told, f"  {row.sku} {dollars(row.micros_per_gpu_hour)}  ", " " * _SAID)
    return lines


def price_json(book: PriceBook, sku: str | None, now_us: int) -> dict[str, object]:
    """Return the site's prices and the list ranges; amounts are integer millionths."""
    rows = [row for row in book.rows if _wanted(row.sku, sku)]
    known = sorted({row.sku for row in list_prices() if _wanted(row.sku, sku)})
    ranges = {name: prices for name in known if (prices := on_demand(name, list_prices()))}
    return {
        "currency": book.currency,
        "book_version": book.version or None,
        "regions": dict(book.regions.providers),
        "prices": [_named(row, *_KIND, "micros_per_gpu_hour") | _dated_json(row) for row in rows],
        "derived_prices": [_derived_json(row, now_us) for row in book.derived if _wanted(row.sku, sku)],
        "charges": [_charge_json(one) for one in book.charges],
        "list_prices_on_demand": {
            name: {"low_micros": prices[0], "high_micros": prices[-1], "rows": len(prices)}
            for name, prices in ranges.items()
        },
    }


def _derived_json(row: Derived, now_us: int) -> dict[str, object]:
    at_us = _spoken_at(row, now_us)
    price = {
        "at_us": at_us,
        "micros_per_gpu_hour": row.micros_at(at_us),
        "parts": [{"name": one.name, "micros": one.micros_at(at_us), "how": one.how} for one in row.parts()],
    }
    return _named(row, *_KIND) | price | _dated_json(row)


def _charge_json(one: Charge) -> dict[str, object]:
    return _named(one, "team", "sku", "purchase_option", "micros_per_gpu_hour") | _dated_json(one)


def _dated_json(row: PriceRow | Derived | Charge) -> dict[str, object]:
    as_of = row.as_of.isoformat() if row.as_of else None
    return {"from_us": row.starts_at, "until_us": row.ends_at, "source": row.source, "as_of": as_of}


def _named(row: PriceRow | Derived | Charge, *names: str) -> dict[str, object]:
    return {name: getattr(row, name) for name in names}


def _wanted(name: str | None, prefix: str | None) -> bool:
    return prefix is None or name is None or name.casefold().startswith(prefix.casefold())


def _day(at_us: int) -> str:
    moment = datetime.fromtimestamp(at_us // 1_000_000, UTC)
    return f"{moment:%Y-%m-%d}" if moment.hour == 0 else f"{moment:%Y-%m-%dT%H:00Z}"


_DOLLARS = CellUnit(dollars)
_HEAD: tuple[TableColumn[tuple[str, str]], ...] = (
    TableColumn("", lambda row: row[0], width=21, align="<"),
    TableColumn("", lambda row: row[1], align="<"),
)
_PRICES: tuple[TableColumn[tuple[str | None, str | None, int | None, PriceRow | Derived]], ...] = (
    TableColumn("", lambda row: row[0] or "any GPU", width=20, align="<"),
    TableColumn("", lambda row: row[1] or ANY, width=12, align="<", gap=1),
    TableColumn("", lambda row: "unknown" if row[2] is None else dollars(row[2]), width=9, gap=1),
    TableColumn("", lambda row: _period(row[3]), align="<", gap=2),
)
_CHARGES: tuple[TableColumn[Charge], ...] = (
    TableColumn("", lambda row: row.told, width=33, align="<"),
    TableColumn("", lambda row: row.micros_per_gpu_hour, _DOLLARS, 9, gap=1),
    TableColumn("", _period, align="<", gap=2),
)
_TARIFFS: tuple[TableColumn[Tariff], ...] = (
    TableColumn("", lambda row: row.told, width=42, align="<"),
    TableColumn("", _period, align="<", gap=3),
)
_PARTS: tuple[TableColumn[tuple[PricePart, int]], ...] = (
    TableColumn("", lambda row: row[0].name, width=22, align="<"),
    TableColumn("", lambda row: row[1], _DOLLARS, 20, gap=1),
    TableColumn("", lambda row: row[0].how, align="<", gap=2),
)
_RANGES: tuple[TableColumn[tuple[str, str]], ...] = (
    TableColumn("", lambda row: row[0], width=20, align="<"),
    TableColumn("", lambda row: row[1], align="<", gap=1),
)
