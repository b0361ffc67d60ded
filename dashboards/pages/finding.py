"""The page of one finding: what was seen, what was needed to say so, what else was ruled out, and what to do."""

from collections.abc import Mapping

from fastapi import APIRouter, Request
from starlette.responses import Response

from analyzer.charts.figures import stacked_bars
from analyzer.errors import LedgerError
from analyzer.interfaces.api.request_service import RequestContext
from analyzer.reports.findings import Explained, finding_charts
from analyzer.reports.reader import Reader
from analyzer.reports.run import run_names
from dashboards.pages.read_pages import PageState, ReadPages, site_page


def finding_routes(pages: ReadPages) -> APIRouter:
    """Return the route."""
    router = APIRouter()

    @router.get("/findings/{finding_id}")
    def page(request: Request, finding_id: str, week: str | None = None) -> Response:
        def view(context: RequestContext) -> Mapping[str, object]:
            return _finding_view(context.whole, finding_id, week)

        return pages.page(request, site_page(PageState(f"/findings/{finding_id}", week), "finding.html", view))

    return router


def _finding_view(reader: Reader, finding_id: str, week: str | None) -> Mapping[str, object]:
    explained = _explained(reader, finding_id, week)
    finding, plot = explained.finding, explained.argument.plot if explained.argument else None
    words = {"what": "explain", "subject": finding.id, "since": week or "", "format": "json"}
    return {
        "view": explained,
        "json_link": PageState("/v1/read", None, words).link(),
        "names": run_names(reader.session, finding.run_ids),
        "drawings": [(chart, stacked_bars(chart)) for chart in finding_charts(finding, plot, reader.settings.timezone)],
    }


def _explained(reader: Reader, finding_id: str, week: str | None) -> Explained:
    """Return a finding of a week; where none is named, of the last complete one, else of the one that last had it."""
    try:
        return reader.explain(finding_id, reader.period(week))
    except LedgerError:
        if week is not None or (elsewhere := reader.last_seen(finding_id)) is None:
            raise
        return reader.explain(finding_id, elsewhere)
