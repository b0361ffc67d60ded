"""The readings of money over time: months, budgets, unit costs, what was odd, what is asked for, the portfolio."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from analyzer.anomalies.reading import anomalies
from analyzer.anomalies.text import anomalies_text
from analyzer.budgets.month import MonthReport
from analyzer.budgets.reading import read_month
from analyzer.budgets.text import budgets_text
from analyzer.demand.outlook import outlook
from analyzer.demand.text import demand_text
from analyzer.errors import ConfigError
from analyzer.period import Period
from analyzer.portfolio.reading import portfolio
from analyzer.portfolio.text import portfolio_text
from analyzer.pricing.beside.reading import read_costs
from analyzer.pricing.beside.text import costs_data, costs_text
from analyzer.pricing.book import price_book
from analyzer.pricing.charging.report import charges_report
from analyzer.pricing.charging.text import charge_data, charge_text
from analyzer.report.coverage import fleet
from analyzer.report.groups import checked_by
from analyzer.report.month import month_of
from analyzer.report.month_text import month_text
from analyzer.report.paper import Paper
from analyzer.request import Request, What
from analyzer.unit_cost.report import UnitReport, unit_report, with_teams
from analyzer.unit_cost.text import units_text

if TYPE_CHECKING:
    from analyzer.pricing.charging.sums import Bearer
    from analyzer.reading import Reader

Told = tuple[str, str, object]  # title, text, data


def budgets_of(reader: "Reader", month: str | None) -> MonthReport:
    """Return a month against its budgets; without a word, the month of the newest hour. Raises as read_month()."""
    return read_month(reader.session, reader.calendar, reader.settings, month)


def units_of(reader: "Reader", period: Period) -> UnitReport:
    """Return the unit economics of a period."""
    return unit_report(reader.session, period, reader.calendar, reader.settings.currency)


def _month(reader: "Reader", request: Request, paper: Paper) -> Told:
    found = month_of(reader, request.since, checked_by(request.by))
    return found.week.period.label, month_text(found, paper, request.top), found


def _budgets(reader: "Reader", request: Request, paper: Paper) -> Told:
    found = budgets_of(reader, request.since)
    return f"budgets of {found.period.label}", budgets_text(found, paper, request.top), found


def _units(reader: "Reader", request: Request, paper: Paper) -> Told:
    found = units_of(reader, reader.period(request.since, request.until))
    found = with_teams(reader.session, found, reader.calendar)
    return f"units {found.period.label}", units_text(found, paper, request.top), found


def _anomalies(reader: "Reader", request: Request, paper: Paper) -> Told:
    period = reader.period(request.since, request.until)
    found, units = anomalies(reader.session, period, reader.settings.currency), units_of(reader, period)
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
        from analyzer.pricing.charging.file import charge_csv  # loads what writes bills

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
