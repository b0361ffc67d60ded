"""The questions of money: months, budgets, unit costs, what was odd, what is asked for, charges, and the price book."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from analyzer.errors import ConfigError
from analyzer.finops.anomalies import Anomalies, anomalies, anomalies_text
from analyzer.finops.budgets.month import read_month, refuse_unbound, refuse_unjudged
from analyzer.finops.budgets.text import budgets_text, over_check
from analyzer.finops.charges.report import ChargesReport, charge_csv, charge_data, charge_text, charges_report
from analyzer.finops.charges.sums import Bearer
from analyzer.finops.demand import Outlook, demand_text, outlook
from analyzer.finops.non_gpu_costs.costs import read_costs
from analyzer.finops.non_gpu_costs.text import costs_data, costs_text
from analyzer.finops.portfolio import Portfolio, portfolio, portfolio_text
from analyzer.finops.unit_cost.report import UnitReport, unit_report, with_teams
from analyzer.finops.unit_cost.text import units_text
from analyzer.interfaces.questions.ledger_questions import BY
from analyzer.interfaces.questions.question import PERIOD, Check, Question, argument
from analyzer.interfaces.text.week_text import month_text
from analyzer.ledger.coverage import fleet
from analyzer.ledger.teams import team_book
from analyzer.period import Period
from analyzer.prices.check import Complaint, booked_kinds, complaints, owned_kinds
from analyzer.prices.listing import PAPER, beside_lines, book_lines, hint_lines, list_lines, price_json
from analyzer.prices.price_book import PriceBook, price_book
from analyzer.reports.groups import checked_by
from analyzer.reports.month import month_of
from analyzer.reports.reader import Reader
from analyzer.reports.request import Request
from analyzer.settings.settings import Settings
from analyzer.text.layout import TextLayout
from analyzer.text.table import TableColumn, paper_lines
from analyzer.text.words import counted
from collector.store.session import Session


@dataclass(frozen=True, slots=True)
class _AnomalyPage:
    """What was out of the ordinary in a period: teams' hours and prices, and what a unit of work cost."""

    teams: Anomalies
    units: UnitReport


def _units(reader: Reader, request: Request) -> UnitReport:
    period = reader.period(request.since, request.until)
    return with_teams(reader.session, _unit_costs(reader, period), reader.calendar)


def _unit_costs(reader: Reader, period: Period) -> UnitReport:
    return unit_report(reader.session, period, reader.calendar, reader.settings.currency)


def _anomalies(reader: Reader, request: Request) -> _AnomalyPage:
    period = reader.period(request.since, request.until)
    return _AnomalyPage(anomalies(reader.session, period, reader.settings.currency), _unit_costs(reader, period))


def _demand(reader: Reader, request: Request) -> Outlook:
    period, settings = reader.period(request.since, request.until), reader.settings
    owned: dict[tuple[str | None, str], int] = {}
    for each in fleet(reader.session, period):
        key = each.sku, each.purchase_option or "unknown"
        owned[key] = owned.get(key, 0) + each.gpus
    prices = price_book(settings)
    return outlook(reader.session, reader.now(), settings.timezone, settings.currency, prices, owned)


def _portfolio(reader: Reader, request: Request) -> Portfolio:
    period = reader.period(request.since, request.until)
    advice = reader.advised(period)
    return portfolio(reader.session, period, reader.calendar, reader.settings.currency, advice)


def _charges(reader: Reader, request: Request) -> ChargesReport:
    if request.by not in (None, "team", "cost-centre"):
        raise ConfigError(f"charges are by team or cost-centre, not by {request.by}")
    by: Bearer = "cost-centre" if request.by == "cost-centre" else "team"
    return charges_report(reader.session, reader.settings, reader.period(request.since, request.until), by)


def _over(report: Mapping[str, Any]) -> Sequence[str]:
    every = (*report["lines"], *report["projects"], report["fleet"])
    refuse_unbound(report["period"]["label"], report["currency"], [line["budget"] for line in every])
    over: Sequence[str] = report["over"]
    if not over:
        refuse_unjudged([line["name"] for line in every if line["budget"] and line["verdict"] is None])
    return over


MONTH = Question(
    "month",
    lambda reader, request: month_of(reader, request.since, checked_by(request.by)),
    lambda found: found.week.period.label,
    lambda found, request, layout: month_text(found, layout, request.top),
    about="A calendar month: the bill, targets, budgets (2026-11).",
    arguments=(PERIOD, BY),
)
BUDGETS = Question(
    "budgets",
    lambda reader, request: read_month(reader.session, reader.calendar, reader.settings, request.since),
    lambda found: f"budgets of {found.period.label}",
    lambda found, request, layout: budgets_text(found, layout, request.top),
    about="Budgets and forecast: limits, spend to date, and the forecast for the month.",
    arguments=(
        argument("since", nargs="?", metavar="MONTH", help="2026-11 (default: the month of the newest hour)"),
        argument(
            "--check",
            action="store_true",
            help="exit 1 if a budget is exceeded or likely to be; 2 if none holds, or one cannot be judged",
        ),
    ),
    is_dated=False,
    check=Check(_over, over_check),
)
UNITS = Question(
    "units",
    _units,
    lambda found: f"units {found.period.label}",
    lambda found, request, layout: units_text(found, layout, request.top),
    about="Unit economics: cost per thousand requests, billion tokens or run, and when it changed.",
    arguments=(PERIOD,),
)
ANOMALIES = Question(
    "anomalies",
    _anomalies,
    lambda page: f"anomalies {page.teams.period.label}",
    lambda page, request, layout: anomalies_text(page.teams, page.units, layout, request.top),
    lambda page: {
        "teams": page.teams,
        "units": [{"line": line, "change": change} for line, change in page.units.changes],
    },
    about="Which prices and which teams' hours were out of the ordinary, and which runs made them so.",
    arguments=(PERIOD,),
)
DEMAND = Question(
    "demand",
    _demand,
    lambda _: "demand",
    lambda found, _, layout: demand_text(found, layout),
    about="Demand, its forecast, and the cheapest purchasing mix.",
    arguments=(PERIOD,),
)
PORTFOLIO = Question(
    "portfolio",
    _portfolio,
    lambda found: f"portfolio {found.period.label}",
    lambda found, request, layout: portfolio_text(found, layout, request.top),
    about="Which workloads use their GPUs well, need a fix or fewer GPUs, or are not needed.",
    arguments=(PERIOD,),
)
_CHARGES = Question(
    "charges",
    _charges,
    lambda found: f"charges {found.period.label}",
    lambda found, _, layout: charge_text(found, layout),
    charge_data,
    forms={"csv": lambda found, _: charge_csv(found)},
)
COSTS = Question(
    "costs",
    lambda reader, request: read_costs(reader.session, reader.period(request.since, request.until), reader.settings),
    lambda found: f"costs {found.period.label}",
    lambda found, _, layout: costs_text(found, layout),
    costs_data,
)
MONEY_QUESTIONS = (MONTH, BUDGETS, UNITS, ANOMALIES, DEMAND, PORTFOLIO, _CHARGES, COSTS)


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
