"""The list of findings, and the page of one: what was seen, what else was ruled out, and what to do."""

from collections.abc import Mapping

from fastapi import APIRouter, Request
from starlette.responses import Response

from analyzer.charts.figures import stacked_bars
from analyzer.errors import LedgerError
from analyzer.interfaces.api.request_service import RequestContext
from analyzer.reports.findings import Explained, FindingsReport, at_stake_column, finding_charts
from analyzer.reports.reader import Reader
from analyzer.reports.run import run_names
from analyzer.text.words import symbol
from dashboards.pages.read_pages import PageState, ReadPage, ReadPages, period_view, site_page

_HERE = "/findings"
_SHOWN = 200


def finding_routes(pages: ReadPages) -> APIRouter:
    """Return the routes of the list and of each finding."""
    router = APIRouter()

    @router.get(_HERE)
    def listed(request: Request, week: str | None = None) -> Response:
        return pages.page(request, findings(week))

    @router.get("/findings/{finding_id}")
    def page(request: Request, finding_id: str, week: str | None = None) -> Response:
        def view(context: RequestContext) -> Mapping[str, object]:
            return _finding_view(context.reader, finding_id, week)

        shown = site_page(PageState(f"{_HERE}/{finding_id}", week), "finding.html", view, here=_HERE)
        return pages.page(request, shown)

    return router


def findings(week: str | None = None) -> ReadPage:
    """Return the list of a period."""

    def view(context: RequestContext) -> Mapping[str, object]:
        reader = context.reader
        period = reader.period(week)
        link = PageState("/v1/findings", None, {"since": week or ""}).link()
        listed = listed_findings(reader, reader.list_findings(period), _SHOWN)
        return {**period_view(reader, period), "json_link": link, **listed}

    return ReadPage(PageState(_HERE, week), "findings.html", view)


def listed_findings(reader: Reader, found: FindingsReport, shown: int) -> dict[str, object]:
    """Return what the table of findings prints; of those beyond `shown` it has a second one, folded."""
    sign = symbol(reader.settings.currency).strip()
    column, total = at_stake_column(found.findings, reader.settings.currency)
    stakes = list(zip(found.findings, column, strict=True))
    return {"found": found, "at_stake": total, "stakes": stakes, "shown": shown, "sign": sign}


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
