"""The price book as people and machines read it."""

from datetime import UTC, datetime

from analyzer.pricing.book import PriceBook
from analyzer.pricing.list_prices import list_prices, on_demand
from analyzer.pricing.money import dollars
from analyzer.pricing.site import ANY, PriceRow


def book_lines(book: PriceBook, where: str, sku: str | None) -> list[str]:
    """Return the site's own prices: what the ledger books with."""
    rows = [row for row in book.rows if _wanted(row.sku, sku)]
    head = f"prices of this site   {where}" + (f"   version {book.version}" if book.version else "")
    return [head, *map(_row_line, sorted(rows, key=lambda row: (row.sku or "", row.starts_at)))]


def _row_line(row: PriceRow) -> str:
    until = _day(row.ends_at) if row.ends_at is not None else "further notice"
    group = f" in {row.node_group}" if row.node_group else ""
    checked = f"checked {row.as_of}" if row.as_of else "undated"
    what = f"{row.sku or 'any GPU':<18} {(row.purchase_option or ANY) + group:<12}"
    return (
        f"  {what} {dollars(row.micros_per_gpu_hour):>9}  {_day(row.starts_at)} until {until}; {row.source}, {checked}"
    )


def hint_lines(sku: str | None) -> list[str]:
    """Return one line a SKU: the range of what is asked on demand, without estimates, spot and doubtful rows."""
    lines = ["list prices on demand, USD per GPU-hour   for comparison only: nothing is booked by them"]
    for name in sorted({row.sku for row in list_prices() if _wanted(row.sku, sku)}):
        prices = on_demand(name, list_prices())
        if prices:
            span = f"{dollars(prices[0])} to {dollars(prices[-1])}" if prices[0] < prices[-1] else dollars(prices[0])
            lines.append(f"  {name:<18} {span}   ({len(prices)} {'row' if len(prices) == 1 else 'rows'})")
    return lines


def list_lines(sku: str | None) -> list[str]:
    """Return every list price with source and date, and what is wrong with it."""
    lines = ["every list price   name one as [[list_price]] in the price file to pay it"]
    for row in list_prices():
        if _wanted(row.sku, sku):
            doubt = f"; {row.objection}" if row.objection else ""
            lines.append(
                f"  {row.sku} {dollars(row.micros_per_gpu_hour)}  {row.provider} {row.region} {row.instance_type}"
                f" {row.purchase_option}, as of {row.as_of}{doubt}; {row.source}@{row.source_version[:12]}"
            )
    return lines


def price_json(book: PriceBook, sku: str | None) -> dict[str, object]:
    """Return the site's prices and the list ranges; amounts are integer millionths."""
    rows = [row for row in book.rows if _wanted(row.sku, sku)]
    known = sorted({row.sku for row in list_prices() if _wanted(row.sku, sku)})
    ranges = {name: prices for name in known if (prices := on_demand(name, list_prices()))}
    return {
        "version": 1,
        "currency": book.currency,
        "book_version": book.version or None,
        "prices": [_row_json(row) for row in rows],
        "list_prices_on_demand": {
            name: {"low_micros": prices[0], "high_micros": prices[-1], "rows": len(prices)}
            for name, prices in ranges.items()
        },
    }


def _row_json(row: PriceRow) -> dict[str, object]:
    return {
        "sku": row.sku,
        "purchase_option": row.purchase_option,
        "node_group": row.node_group,
        "micros_per_gpu_hour": row.micros_per_gpu_hour,
        "from_us": row.starts_at,
        "until_us": row.ends_at,
        "source": row.source,
        "as_of": row.as_of.isoformat() if row.as_of else None,
    }


def _wanted(name: str | None, prefix: str | None) -> bool:
    return prefix is None or name is None or name.casefold().startswith(prefix.casefold())


def _day(at_us: int) -> str:
    moment = datetime.fromtimestamp(at_us // 1_000_000, UTC)
    return f"{moment:%Y-%m-%d}" if moment.hour == 0 else f"{moment:%Y-%m-%dT%H:00Z}"
