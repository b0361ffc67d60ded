"""The price book and its check as readings: a store and a running server tell them alike."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from analyzer.ledger.teams import team_book
from analyzer.prices.book import PriceBook, price_book
from analyzer.prices.checking.check import complaints
from analyzer.prices.checking.complaint import Complaint
from analyzer.prices.checking.fleet import booked_kinds, owned_kinds
from analyzer.prices.listing import PAPER, beside_lines, book_lines, hint_lines, list_lines, price_json
from analyzer.settings.settings import Settings
from analyzer.text.paper import Paper
from analyzer.text.words import counted

if TYPE_CHECKING:
    from analyzer.reports.reader import Reader
    from analyzer.reports.request import Request, What
    from collector.store.session import Session

NO_FILE = "no price file: costs are not shown"


def _for_prices(reader: "Reader", request: "Request", _: Paper) -> tuple[str, str, object]:
    """Return title, text and data: of `prices` the book, of its SKUs that begin as the subject does; else its check.

    Raises:
        ConfigError: the price file is wrong.
    """
    settings, now_us = reader.settings, reader.clock()
    book = price_book(settings)
    if request.what == "prices":
        where = settings.prices.name if settings.prices else NO_FILE
        text = book_text(book, where, request.subject, now_us, everything=request.everything)
        return "prices", text, price_json(book, request.subject, now_us)
    found = checked(book, settings, now_us, reader.session)
    return "prices check", check_text(book, found), {"prices": _many(book), "complaints": found}


def book_text(book: PriceBook, where: str, sku: str | None, now_us: int, *, everything: bool) -> str:
    """Return the book; with everything also the list prices, estimates and doubtful rows among them."""
    lines = [*book_lines(book, where, sku, now_us), "", *beside_lines(book), *hint_lines(sku)]
    return "\n".join([*lines, *(["", *list_lines(sku)] if everything else [])]) + "\n"


def checked(book: PriceBook, settings: Settings, now_us: int, session: "Session | None" = None) -> list[Complaint]:
    """Return what is wrong with a book by itself; with a session also held to its fleet, and to every hour of it."""
    fleet = owned_kinds(session, now_us) if session is not None else []
    booked = booked_kinds(session) if session is not None else []
    teams = {rule.team.name for rule in team_book(settings).rules} if settings.teams and book.charges else None
    return complaints(book, fleet, datetime.fromtimestamp(now_us / 1e6, UTC).date(), teams, booked)


def check_text(book: PriceBook, found: Sequence[Complaint]) -> str:
    """Return what the check found, a paragraph each, or that it found nothing."""
    if not found:
        return f"{counted(_many(book), 'price')}: none stale, missing or suspicious\n"
    lines = (line for one in found for line in PAPER.wrap(one.sentence, f"{one.kind:<10} ", " " * 11))
    return "\n".join(lines) + "\n"


def _many(book: PriceBook) -> int:
    return len(book.rows) + len(book.derived)


PRICES: "Mapping[What, Callable[[Reader, Request, Paper], tuple[str, str, object]]]" = {
    "prices": _for_prices,
    "prices-check": _for_prices,
}
