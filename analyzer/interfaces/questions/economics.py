"""The readings of money over time: months, budgets, unit costs, what was odd, what is asked for, the portfolio."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from analyzer.errors import ConfigError
from analyzer.finops.anomalies.reading import anomalies
from analyzer.finops.anomalies.text import anomalies_text
from analyzer.finops.budgets.month import MonthReport
from analyzer.finops.budgets.reading import read_month
from analyzer.finops.budgets.text import budgets_text
from analyzer.finops.charges.report import charges_report
from analyzer.finops.charges.sums import Bearer
from analyzer.finops.charges.text import charge_data, charge_text
from analyzer.finops.demand.outlook import outlook
from analyzer.finops.demand.text import demand_text
from analyzer.finops.non_gpu_costs.reading import read_costs
from analyzer.finops.non_gpu_costs.text import costs_data, costs_text
from analyzer.finops.portfolio.reading import portfolio
from analyzer.finops.portfolio.text import portfolio_text
from analyzer.finops.unit_cost.report import UnitReport, unit_report, with_teams
from analyzer.finops.unit_cost.text import units_text
from analyzer.interfaces.text.month_text import month_text
from analyzer.ledger.coverage import fleet
from analyzer.period import Period
from analyzer.prices.book import price_book
from analyzer.reports.groups import checked_by
from analyzer.reports.month import month_of
from analyzer.reports.request import Request, What
from analyzer.text.paper import Paper

if TYPE_CHECKING:
    from analyzer.reports.reader import Reader

Told = tuple[str, str, object]  # title, text, data


def budgets_of(reader: "Reader", month: str | None) -> MonthReport:
    """Return a month against its budgets; without a word, the month of the newest hour. Raises as read_month()."""
    return read_month(reader.session, reader.calendar, reader.settings, month)


def _units_of(reader: "Reader", period: Period) -> UnitReport:
    """Return the unit economics of a period."""
    return unit_report(reader.session, period, reader.calendar, reader.settings.currency)


def _month(reader: "Reader", request: Request, paper: Paper) -> Told:
    found = month_of(reader, request.since, checked_by(request.by))
    return found.week.period.label, month_text(found, paper, request.top), found


def _budgets(reader: "Reader", request: Request, paper: Paper) -> Told:
    found = budgets_of(reader, request.since)
    return f"budgets of {found.period.label}", budgets_text(found, paper, request.top), found


def _units(reader: "Reader", request: Request, paper: Paper) -> Told:
    found = _units_of(reader, reader.period(request.since, request.until))
    found = with_teams(reader.session, found, reader.calendar)
    return f"units {found.period.label}", units_text(found, paper, request.top), found


def _anomalies(reader: "Reader", request: Request, paper: Paper) -> Told:
    period = reader.period(request.since, request.until)
    found, units = anomalies(reader.session, period, reader.settings.currency), _units_of(reader, period)
    data = {"teams": found, "units": [{"line": line, "change": change} for line, change in units.changes]}
    return f"anomalies {period.label}", anomalies_text(found, units, paper, request.top), data


def _demand(reader: "Reader", request: Request, paper: Paper) -> Told:
    period = reader.period(request.since, request.until)
    settings = reader.settings
    owned: dict[tuple[str | None, str], int] = {}
    for each in fleet(reader.session, period):
        key = each.sku, each.purchase_option or "unknown"
        owned[key] = owned.get(key, 0) + each.gpus
    prices = price_book(settings)
    found = outlook(reader.session, reader.now(), settings.timezone, settings.currency, prices, owned)
    return "demand", demand_text(found, paper), found


def _portfolio(reader: "Reader", request: Request, paper: Paper) -> Told:
    period = reader.period(request.since, request.until)
    advice = reader.advised(period)
    found = portfolio(reader.session, period, reader.calendar, reader.settings.currency, advice)
    return f"portfolio {period.label}", portfolio_text(found, paper, request.top), found


def _charges(reader: "Reader", request: Request, paper: Paper) -> Told:
    if request.by not in (None, "team", "cost-centre"):
        raise ConfigError(f"charges are by team or cost-centre, not by {request.by}")
    by: Bearer = "cost-centre" if request.by == "cost-centre" else "team"
    found = charges_report(reader.session, reader.settings, reader.period(request.since, request.until), by)
    title = f"charges {found.period.label}"
    if request.format == "csv":
        from analyzer.finops.charges.file import charge_csv  # loads what writes bills

        return title, charge_csv(found), charge_data(found)
    return title, charge_text(found, paper), charge_data(found)


def _costs(reader: "Reader", request: Request, paper: Paper) -> Told:
    period = reader.period(request.since, request.until)
    found = read_costs(reader.session, period, reader.settings)
    return f"costs {period.label}", costs_text(found, paper), costs_data(found)


ECONOMICS: Mapping[What, Callable[["Reader", Request, Paper], Told]] = {
    "month": _month,
    "budgets": _budgets,
    "units": _units,
    "anomalies": _anomalies,
    "demand": _demand,
    "portfolio": _portfolio,
    "charges": _charges,
    "costs": _costs,
}
