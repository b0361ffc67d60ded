"""Placement: racks and nodes as they are, the traffic between them, and what to move, each with the lines to copy."""

from collections.abc import Mapping

from fastapi import APIRouter, Request
from starlette.responses import Response

from analyzer.errors import ConfigError
from analyzer.interfaces.api.request_service import RequestContext
from analyzer.period import Period
from analyzer.text.words import days
from dashboards.pages.change_view import changes_sheet, changes_view
from dashboards.pages.decisions import decision_routes, standings_of
from dashboards.pages.neighbours import neighbours
from dashboards.pages.rack_view import nodes_sheet, rack_lines
from dashboards.pages.read_pages import PageState, ReadPage, ReadPages
from dashboards.pages.traffic_view import traffic_sheet, traffic_view

_HERE = "/placement"
VIEWS = {"racks": "Racks and nodes", "traffic": "Traffic", "changes": "What to move"}


def placement_routes(pages: ReadPages) -> APIRouter:
    """Return the routes of the page and of its sheets."""
    router = APIRouter()

    @router.get(_HERE)
    def page(request: Request, week: str | None = None, view: str = "racks", rack: str | None = None) -> Response:
        return pages.page(request, placement(week, view, rack))

    @router.get(f"{_HERE}/{{sheet}}")
    def sheet(request: Request, sheet: str, week: str | None = None) -> Response:
        made = {
            "nodes.csv": lambda context: nodes_sheet(context, context.reader.period(week)),
            "traffic.csv": lambda context: traffic_sheet(context, context.reader.period(week)),
            "changes.csv": lambda context: changes_sheet(context, context.reader.period(week)),
        }
        return pages.sheet(request, sheet, made)

    router.include_router(decision_routes(pages, lambda week: placement(week, "changes")))
    return router


def placement(week: str | None = None, view: str = "racks", rack: str | None = None) -> ReadPage:
    """Return the page in one state."""
    asked = PageState(_HERE, week, {"view": view, "rack": rack or ""})
    return ReadPage(asked, "placement.html", lambda context: _placement_view(context, week, view, rack))


def _placement_view(context: RequestContext, week: str | None, view: str, rack: str | None) -> Mapping[str, object]:
    """Return what one of the page's views shows: each is read when it is looked at.

    Raises:
        LedgerError: the ledger has no hour yet.
        ConfigError: the period cannot be read, or there is no such view.
    """
    if view not in VIEWS:
        raise ConfigError(f"there is no view {view!r}: there are {', '.join(VIEWS)}")
    period = context.reader.period(week)
    before, after = neighbours(context.reader, period)
    around = {"period": period, "days": days(period), "before": before, "after": after, "views": VIEWS, "view": view}
    return around | {"rack": rack, "json_link": _json_link(view, week)} | _of(view, context, period, rack)


def _of(view: str, context: RequestContext, period: Period, rack: str | None) -> dict[str, object]:
    if view == "traffic":
        return {"traffic": traffic_view(context, period)}
    if view == "changes":
        stands = standings_of(context)
        shown = changes_view(context, period)
        gone = [one for one in stands.values() if one.stage == "rejected" and one.id not in shown.ids]
        return {"changes": shown, "stands": stands, "rejected": gone, "may_decide": context.scope.loss_source}
    return {"racks": rack_lines(context, period, rack)}


def _json_link(view: str, week: str | None) -> str:
    paths = {"racks": "/v1/ledger", "traffic": "/v1/read", "changes": "/v1/recommendations"}
    words = {"racks": {"by": "node"}, "traffic": {"what": "traffic", "format": "json"}, "changes": {}}
    return PageState(paths[view], None, words[view] | {"since": week or ""}).link()
