"""The price book and its check as questions; a command asks them of a price file alone, too."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from analyzer.interfaces.questions.question import Question
from analyzer.ledger.teams import team_book
from analyzer.prices.check import Complaint, booked_kinds, complaints, owned_kinds
from analyzer.prices.listing import PAPER, beside_lines, book_lines, hint_lines, list_lines, price_json
from analyzer.prices.price_book import PriceBook, price_book
from analyzer.reports.reader import Reader
from analyzer.reports.request import Request
from analyzer.settings.settings import Settings
from analyzer.text.layout import TextLayout
from analyzer.text.table import TableColumn, paper_lines
from analyzer.text.words import counted
from collector.store.session import Session

_COMPLAINTS: tuple[TableColumn[Complaint], ...] = (
    TableColumn("", lambda one: one.kind, width=11, align="<"),
    TableColumn("", lambda one: one.sentence),
)
NO_FILE = "no price file: costs are not shown"


@dataclass(frozen=True, slots=True)
class _PriceListing:
    """A price book as it holds at a moment, and the name of its file."""

    book: PriceBook
    where: str
    sku: str | None  # what the kinds of GPU begin with that are meant; None for all
    now_us: int


@dataclass(frozen=True, slots=True)
class _PriceCheck:
    """A price book, and what is wrong with it."""

    book: PriceBook
    complaints: list[Complaint]


def _prices(reader: Reader, request: Request) -> _PriceListing:
    settings = reader.settings
    where = settings.prices.name if settings.prices else NO_FILE
    return _PriceListing(price_book(settings), where, request.subject, reader.clock())


def _check(reader: Reader, _: Request) -> _PriceCheck:
    book = price_book(reader.settings)
    return _PriceCheck(book, checked(book, reader.settings, reader.clock(), reader.session))


def _prices_text(priced: _PriceListing, request: Request, _: TextLayout) -> str:
    return book_text(priced.book, priced.where, priced.sku, priced.now_us, everything=request.everything)


def book_text(book: PriceBook, where: str, sku: str | None, now_us: int, *, everything: bool) -> str:
    """Return the book; with everything also the list prices, estimates and doubtful rows among them."""
    lines = [*book_lines(book, where, sku, now_us), "", *beside_lines(book), *hint_lines(sku)]
    return "\n".join([*lines, *(["", *list_lines(sku)] if everything else [])]) + "\n"


def checked(book: PriceBook, settings: Settings, now_us: int, session: Session | None = None) -> list[Complaint]:
    """Return what is wrong with a book by itself; with a session also held to its fleet, and to every hour of it."""
    fleet = owned_kinds(session, now_us) if session is not None else []
    booked = booked_kinds(session) if session is not None else []
    teams = {rule.team.name for rule in team_book(settings).rules} if settings.teams and book.charges else None
    return complaints(book, fleet, datetime.fromtimestamp(now_us / 1e6, UTC).date(), teams, booked)


def check_text(book: PriceBook, found: Sequence[Complaint]) -> str:
    """Return what the check found, a paragraph each, or that it found nothing."""
    if not found:
        return f"{counted(_many(book), 'price')}: none stale, missing or suspicious\n"
    return "\n".join(paper_lines(_COMPLAINTS, found, "", PAPER)) + "\n"


def check_data(book: PriceBook, found: Sequence[Complaint]) -> dict[str, object]:
    """Return what the check found, for its JSON document."""
    return {"prices": _many(book), "complaints": list(found)}


def _many(book: PriceBook) -> int:
    return len(book.rows) + len(book.derived)


PRICES = Question(
    "prices",
    _prices,
    lambda _: "prices",
    _prices_text,
    lambda priced: price_json(priced.book, priced.sku, priced.now_us),
)
_PRICES_CHECK = Question(
    "prices-check",
    _check,
    lambda _: "prices check",
    lambda found, _request, _paper: check_text(found.book, found.complaints),
    lambda found: check_data(found.book, found.complaints),
)
PRICE_QUESTIONS = (PRICES, _PRICES_CHECK)
