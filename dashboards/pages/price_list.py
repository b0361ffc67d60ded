"""By which prices the ledger books: each with its source and how old that is, and what is wrong with the book."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

from agent.wire.units import MICROS
from analyzer.prices.checking.check import complaints
from analyzer.prices.checking.fleet import owned_kinds
from analyzer.prices.money import dollars
from analyzer.prices.options import ANY
from analyzer.prices.price_book import PriceBook, price_book
from analyzer.prices.site import Derived, PriceRow
from analyzer.text.words import UNKNOWN, counted, plain
from dashboards.pages.read_pages import Sheet

if TYPE_CHECKING:
    from analyzer.interfaces.api.request_service import RequestContext

ListedPrice = PriceRow | Derived


@dataclass(frozen=True, slots=True)
class PriceLine:
    """One price as it is printed."""

    sku: str
    option: str
    price: str
    span: str
    source: str
    age: str


@dataclass(frozen=True, slots=True)
class PriceList:
    """The site's prices, and what is wrong with the book: missing, stale, over or suspicious."""

    version: str
    lines: tuple[PriceLine, ...]
    complaints: tuple[str, ...]


def price_list(context: "RequestContext") -> PriceList | None:
    """Return the prices; None for a team's key, to which the API does not show the book either."""
    if context.scope.teams is not None:
        return None
    book, now = price_book(context.whole.settings), context.whole.clock()
    today = _day(now)
    found = complaints(book, owned_kinds(context.whole.session, now), today)
    lines = tuple(_line(row, now, today) for row in _rows(book))
    return PriceList(book.version or "", lines, tuple(each.sentence for each in found))


def price_sheet(context: "RequestContext") -> Sheet:
    """Return the same, exact; empty for a team's key."""
    head = ("sku", "purchase_option", "node_group", "micros_per_gpu_hour", "from_us", "until_us", "source", "as_of")
    if context.scope.teams is not None:
        return Sheet(head, ())
    now = context.whole.clock()
    return Sheet(head, [_values(row, now) for row in _rows(price_book(context.whole.settings))])


def _rows(book: PriceBook) -> Iterable[ListedPrice]:
    return sorted((*book.rows, *book.derived), key=lambda row: (row.subject[0] or "", row.starts_at))


def _line(row: ListedPrice, now: int, today: date) -> PriceLine:
    sku, option, group = row.subject
    micros = row.micros_at(_within(row, now))
    until = f" until {_day(row.ends_at)}" if row.ends_at is not None else ""
    bought = (option or ANY).replace("_", " ") + (f", {plain(group)}" if group else "")
    price = UNKNOWN if micros is None else dollars(micros)
    age = "undated" if row.as_of is None else _age((today - row.as_of).days)
    return PriceLine(plain(sku or "any GPU"), bought, price, f"{_day(row.starts_at)}{until}", plain(row.source), age)


def _values(row: ListedPrice, now: int) -> tuple[object, ...]:
    as_of = row.as_of.isoformat() if row.as_of else None
    return (*row.subject, row.micros_at(_within(row, now)), row.starts_at, row.ends_at, row.source, as_of)


def _within(row: ListedPrice, now: int) -> int:
    """Return the present, or the nearest moment that the row speaks of."""
    last = now if row.ends_at is None else min(now, row.ends_at - 1)
    return max(row.starts_at, last)


def _age(days: int) -> str:
    return "today" if days <= 0 else f"{counted(days, 'day')} ago"


def _day(at_us: int) -> date:
    return datetime.fromtimestamp(at_us // MICROS, UTC).date()
