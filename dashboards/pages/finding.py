"""The list of findings, and the page of one: what was seen, what else was ruled out, and what to do."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from fastapi import APIRouter, Request
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from analyzer.charts.figures import stacked_bars
from analyzer.errors import ConfigError, LedgerError
from analyzer.interfaces.api.findings import JudgementAsked, MuteAsked, judge_finding, mute_finding
from analyzer.interfaces.api.request_service import RequestContext
from analyzer.reports.findings import Explained, FindingsReport, at_stake_column, finding_charts
from analyzer.reports.reader import Reader
from analyzer.reports.run import run_names
from analyzer.text.words import symbol
from collector.access.gate import body_of, fields_of
from dashboards.pages.frame import STRICT
from dashboards.pages.read_pages import PageState, ReadPage, ReadPages, period_view, site_page

_HERE = "/findings"
_SHOWN = 200
_MUTE = "mute"


def finding_routes(pages: ReadPages) -> APIRouter:
    """Return the routes of the list and of each finding."""
    router = APIRouter()

    @router.get(_HERE)
    def listed(request: Request, week: str | None = None) -> Response:
        return pages.page(request, findings(week))

    @router.get("/findings/{finding_id}")
    def page(request: Request, finding_id: str, week: str | None = None) -> Response:
        return pages.page(request, _finding(finding_id, week))

    @router.post("/findings/{finding_id}")
    async def say(request: Request, finding_id: str) -> Response:
        fields = fields_of(await body_of(request.receive))
        keep = partial(_keep, request=request, finding_id=finding_id, fields=fields)
        shown = _finding(finding_id, fields.get("week") or None)
        return await run_in_threadpool(pages.change, request, shown, keep, "say")

    return router


def _finding(finding_id: str, week: str | None) -> ReadPage:
    def view(context: RequestContext) -> Mapping[str, object]:
        return _finding_view(context, finding_id, week)

    shown = site_page(PageState(f"{_HERE}/{finding_id}", week), "finding.html", view, here=_HERE)
    return replace(shown, headers=STRICT.copy())  # its forms come to us alone


def _keep(context: RequestContext, request: Request, finding_id: str, fields: Mapping[str, str]) -> None:
    """Keep what a form says of a finding: a verdict, or until when it is muted. Raises what is wrong with it."""
    words = {name: fields.get(name, "") for name in ("because", "week")}
    said = {"because": words["because"], **({"since": words["week"]} if words["week"] else {})}
    try:
        if fields.get("verdict") == _MUTE:
            mute_finding(context, request, finding_id, MuteAsked(until=fields.get("until", ""), **said))
        else:
            asked = JudgementAsked.model_validate({"verdict": fields.get("verdict", ""), **said})
            judge_finding(context, request, finding_id, asked)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False, include_context=False)[0]
        raise ConfigError(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}") from error


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


def _finding_view(context: RequestContext, finding_id: str, week: str | None) -> Mapping[str, object]:
    reader = context.reader
    explained = _explained(reader, finding_id, week)
    finding, plot = explained.finding, explained.argument.plot if explained.argument else None
    words = {"what": "explain", "subject": finding.id, "since": week or "", "format": "json"}
    return {
        "view": explained,
        "may_decide": context.scope.may_decide and not finding.suspicion,
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
