"""GET /v1/profiles and /v1/runs/{id}/profile: what was measured of runs, as one document to keep and to compare.

It says where their GPU time went, on what evidence, and what was not judged. It forecasts nothing.
"""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from analyzer.errors import LedgerError
from analyzer.findings.finding import Finding, FindingDocument
from analyzer.interfaces.api.parameters import READS, Parameters, Selected
from analyzer.interfaces.api.request_service import RequestContext, RequestService
from analyzer.interfaces.api.runs import NotJudged, RunId, span_of
from analyzer.interfaces.api.selection import Selection, selection
from analyzer.interfaces.api.signals import Activity, Signal, activity, signals
from analyzer.interfaces.api.spent import Entry, entries
from analyzer.ledger.coverage import known_hours, not_judged
from analyzer.ledger.which_run import find_run
from analyzer.period import Period
from analyzer.reports.document import Amounts, Coverage, Document, Span

_RUNS_NAMED = 100


class Profile(Document):
    """What was measured of a run, or of several: figures of `hours` that are not final may still change."""

    period: Span
    hours: Coverage
    runs: int
    run_ids: list[str] = Field(description=f"The {_RUNS_NAMED} that held most GPU time.")
    gpus: int = Field(description="Different GPUs that they held.")
    skus: list[str]
    total: Amounts
    entries: list[Entry]
    activity: Activity | None
    signals: list[Signal] = Field(description="A signal that nobody reported is missing.")
    evidence: list[FindingDocument] = Field(description="Their findings, suspicions too.")
    not_judged: list[NotJudged]


def profile_routes(service: RequestService) -> APIRouter:
    """Return the routes."""
    router = APIRouter()

    @router.get("/profiles", response_model=Profile, responses=READS, tags=["runs"])
    def profile(request: Request, asked: Annotated[Selected, Query()]) -> Response:
        """What was measured of a set of runs: all that the parameters select, together."""
        return service.answer(request, lambda context: _profile_of_set(context, asked))

    @router.get("/runs/{run_id:path}/profile", response_model=Profile, responses=READS, tags=["runs"])
    def run_profile(request: Request, run_id: RunId, _asked: Annotated[Parameters, Query()]) -> Response:
        """What was measured of one run, over its whole life."""
        return service.answer(request, lambda context: _profile_of_run(context, run_id))

    return router


def _profile_of_run(context: RequestContext, text: str) -> Profile:
    """Return the profile of one run.

    Raises:
        LedgerError: no run answers to this text, or the ledger has no hour of it.
    """
    run_id = find_run(context.session, text)
    period = span_of(context, run_id)
    if period is None:
        raise LedgerError(f"the ledger has no GPU time of {run_id}: it waited, or its hours are not analysed yet")
    return _profile(context, Selection(("l.run_id = $run",), {"run": run_id}), period, context.of_run(run_id, period))


def _profile_of_set(context: RequestContext, asked: Selected) -> Profile:
    """Return the profile of the runs that a request selects."""
    period = context.period(asked.since, asked.until)
    chosen = selection(context.session, asked, period)
    held = Selection((*chosen.conditions, "l.run_id IS NOT NULL"), chosen.values, chosen.joins)
    own = {run_id for (run_id,) in context.session.rows(f"SELECT DISTINCT l.run_id {held.source()}", held.values)}
    found = [finding for finding in context.findings(period) if finding.run_ids and own.issuperset(finding.run_ids)]
    return _profile(context, held, period, found)


def _profile(context: RequestContext, chosen: Selection, period: Period, found: list[Finding]) -> Profile:
    session = context.session
    runs, gpus, skus = session.row(
        "SELECT count(DISTINCT l.run_id), count(DISTINCT l.gpu_uuid), "
        f"coalesce(list(DISTINCT l.sku ORDER BY l.sku) FILTER (l.sku IS NOT NULL), []) {chosen.source()}",
        chosen.values,
    )
    most = session.rows(
        f"SELECT l.run_id {chosen.source()} GROUP BY l.run_id ORDER BY sum(l.milliseconds) DESC, l.run_id "
        f"LIMIT {_RUNS_NAMED}",
        chosen.values,
    )
    total, spent = entries(session, chosen, context.currency)
    one = most[0][0] if runs == 1 else None
    missing = not_judged(session, period, one) if one else ()
    return Profile(
        **context.head(),
        period=Span.of(period),
        hours=Coverage.of(known_hours(session, period)),
        runs=runs,
        run_ids=[run_id for (run_id,) in most],
        gpus=gpus,
        skus=skus,
        total=total,
        entries=spent,
        activity=activity(session, chosen, period),
        signals=signals(session, chosen, period),
        evidence=list(context.whole.documents(found, period)),
        not_judged=[NotJudged(rule=each.rule, missing=each.missing) for each in missing],
    )
