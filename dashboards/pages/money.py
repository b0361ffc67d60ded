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
            "costs.csv": lambda context: costs_sheet(context, context.reader.period(week), bearer_of(by)),
            "days.csv": lambda context: days_sheet(context, context.reader.period(week)),
            "budgets.csv": lambda context: budget_sheet(context, week),
            "burn.csv": lambda context: burn_sheet(context, week),
            "units.csv": lambda context: units_sheet(context, context.reader.period(week)),
            "runs.csv": lambda context: runs_sheet(context, context.reader.period(week)),
            "prices.csv": price_sheet,
            "savings.csv": outcomes_sheet,
        }
        return pages.sheet(request, sheet, made)

    return router


def money(week: str | None = None, by: str = "team") -> ReadPage:
    """Return the page in one state."""
    return ReadPage(PageState(_HERE, week, {"by": by}), "money.html", lambda context: _money_view(context, week, by))


def _money_view(context: RequestContext, week: str | None, by: str) -> Mapping[str, object]:
    """Return all that the page shows.

    Raises:
        LedgerError: the ledger has no hour yet.
        ConfigError: the period cannot be read, or there is no such grouping.
    """
    period, bearer = context.reader.period(week), bearer_of(by)
    chart = day_chart(context, period)
    before, after = neighbours(context.reader, period)
    month = month_of(context, week)
    return {
        "period": period,
        "days": days(period),
        "before": before,
        "after": after,
        "sign": symbol(context.currency).strip(),
        "bearers": BEARERS,
        "by": bearer,
        "table": cost_table(context, period, bearer),
        "chart": chart,
        "figure": stacked_bars(chart),
        "budgets": budget_rows(context, month) if month else None,
        "burn": burn(context, month) if month else None,
        "units": unit_costs(context, period),
        "prices": price_list(context),
        "saved": outcomes(context),
        "json_link": PageState("/v1/costs", None, {"by": bearer, "since": week or ""}).link(),
    }
