"""Money: whose it was, day by day, against what was planned, by which prices, and what came of changes."""

from collections.abc import Mapping

from fastapi import APIRouter, Request
from starlette.responses import Response

from analyzer.charts.over_time import stacked_bars
from analyzer.interfaces.api.request_service import RequestContext
from analyzer.text.words import days, symbol
from dashboards.pages.burn import budget_rows, budget_sheet, burn, burn_sheet, month_of
from dashboards.pages.cost_days import day_chart, days_sheet
from dashboards.pages.cost_table import BEARERS, bearer_of, cost_table, costs_sheet
from dashboards.pages.neighbours import neighbours
from dashboards.pages.outcomes import outcomes, outcomes_sheet
from dashboards.pages.price_list import price_list, price_sheet
from dashboards.pages.read_pages import PageState, ReadPage, ReadPages
from dashboards.pages.unit_costs import runs_sheet, unit_costs, units_sheet

_HERE = "/money"


def money_routes(pages: ReadPages) -> APIRouter:
    """Return the routes of the page and of its sheets."""
    router = APIRouter()

    @router.get(_HERE)
    def page(request: Request, week: str | None = None, by: str = "team") -> Response:
        return pages.page(request, money(week, by))

    @router.get(f"{_HERE}/{{sheet}}")
    def sheet(request: Request, sheet: str, week: str | None = None, by: str = "team") -> Response:
        made = {
            "costs.csv": lambda reading: costs_sheet(reading, reading.reader.period(week), bearer_of(by)),
            "days.csv": lambda reading: days_sheet(reading, reading.reader.period(week)),
            "budgets.csv": lambda reading: budget_sheet(reading, week),
            "burn.csv": lambda reading: burn_sheet(reading, week),
            "units.csv": lambda reading: units_sheet(reading, reading.reader.period(week)),
            "runs.csv": lambda reading: runs_sheet(reading, reading.reader.period(week)),
            "prices.csv": price_sheet,
            "savings.csv": outcomes_sheet,
        }
        return pages.sheet(request, sheet, made)

    return router


def money(week: str | None = None, by: str = "team") -> ReadPage:
    """Return the page in one state."""
    return ReadPage(PageState(_HERE, week, {"by": by}), "money.html", lambda reading: _money_view(reading, week, by))


def _money_view(reading: RequestContext, week: str | None, by: str) -> Mapping[str, object]:
    """Return all that the page shows.

    Raises:
        LedgerError: the ledger has no hour yet.
        ConfigError: the period cannot be read, or there is no such grouping.
    """
    period, bearer = reading.reader.period(week), bearer_of(by)
    chart = day_chart(reading, period)
    before, after = neighbours(reading.reader, period)
    month = month_of(reading, week)
    return {
        "period": period,
        "days": days(period),
        "before": before,
        "after": after,
        "sign": symbol(reading.currency).strip(),
        "bearers": BEARERS,
        "by": bearer,
        "table": cost_table(reading, period, bearer),
        "chart": chart,
        "figure": stacked_bars(chart),
        "budgets": budget_rows(reading, month) if month else None,
        "burn": burn(reading, month) if month else None,
        "units": unit_costs(reading, period),
        "prices": price_list(reading),
        "saved": outcomes(reading),
        "json_link": PageState("/v1/costs", None, {"by": bearer, "since": week or ""}).link(),
    }
