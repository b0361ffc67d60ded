"""The questions of money over time: months, budgets, unit costs, what was odd, what is asked for, charges, prices."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analyzer.errors import ConfigError
from analyzer.finops.anomalies import Anomalies, anomalies, anomalies_text
from analyzer.finops.budgets.budget_file import refuse_unbound
from analyzer.finops.budgets.month import read_month
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
from analyzer.period import Period
from analyzer.prices.price_book import price_book
from analyzer.reports.groups import checked_by
from analyzer.reports.month import month_of
from analyzer.reports.reader import Reader
from analyzer.reports.request import Request


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
            help="exit 1 if a budget is exceeded or likely to be; 2 without budgets",
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
