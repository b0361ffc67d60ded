"""GET /v1/findings and /v1/findings/{id}: what was avoidable. Findings share no GPU-second and sum to what is."""

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request
from pydantic import Field
from starlette.responses import Response

from analyzer.findings.finding import Finding, FindingDocument
from analyzer.findings.judgement import Record
from analyzer.ids import by_id, pattern
from analyzer.interfaces.api.parameters import READS, VALUES_MAX, Cause, Opt, Paged, Spanned, State, Text, Texts
from analyzer.interfaces.api.request_service import RequestContext, RequestService
from analyzer.ledger.coverage import Hours, Measured, known_hours, measured
from analyzer.ledger.run_facts import find_run
from analyzer.reports.document import Document, Listing, Span
from analyzer.reports.finding_list import finding_order

FindingId = Annotated[str, Path(pattern=pattern("f"), description="As in the list: f-7kq2x; or a unique prefix.")]


class FindingsAsked(Spanned, Paged):
    """Which findings of a period."""

    team: Texts = Field([])
    run: Text | Opt = Field(None, description="Findings that name this run.")
    state: Annotated[list[State], Field(max_length=VALUES_MAX)] = Field([])
    cause: Annotated[list[Cause], Field(max_length=VALUES_MAX)] = Field([])
    confidence: Annotated[list[Literal["high", "medium", "low"]], Field(max_length=VALUES_MAX)] = Field([])
    still_open: bool | Opt = None
    suspicions: bool = Field(False, description="Also list suspicions, which claim no GPU time.")


class FindingPage(Listing):
    """Findings of a period, most expensive first, suspicions last."""

    period: Span
    hours: Hours
    measured: Measured
    record: Record | None = Field(description="Accuracy by feedback; null for a key limited to teams.")
    items: list[FindingDocument]


class FindingAnswer(Document):
    """One finding."""

    period: Span
    finding: FindingDocument
    recommendation_ids: list[str]


def finding_routes(service: RequestService) -> APIRouter:
    """Return the routes."""
    router = APIRouter()

    @router.get("/findings", response_model=FindingPage, responses=READS, tags=["findings"])
    def findings(request: Request, asked: Annotated[FindingsAsked, Query()]) -> Response:
        """What was avoidable in a period, by who lost it and why."""
        return service.answer(request, lambda context: _finding_page(context, asked))

    @router.get("/findings/{finding_id}", response_model=FindingAnswer, responses=READS, tags=["findings"])
    def finding(request: Request, finding_id: FindingId, asked: Annotated[Spanned, Query()]) -> Response:
        """One finding of a period: the evidence, and what would prove it wrong."""
        return service.answer(request, lambda context: _finding_answer(context, finding_id, asked))

    return router


def _finding_page(context: RequestContext, asked: FindingsAsked) -> FindingPage:
    """Return one page of findings."""
    place = context.place(asked.cursor, (bool, int, int, str))
    period = place.period if place and place.period else context.period(asked.since, asked.until)
    run_id = None if asked.run is None else find_run(context.session, asked.run)
    found = [finding for finding in context.reader.findings(period) if _is_wanted(finding, asked, run_id)]
    after = [finding for finding in found if place is None or finding_order(finding) > place.key]
    shown = after[: asked.limit]
    return FindingPage(
        **context.head(),
        next_cursor=context.next(finding_order(shown[-1]), period) if len(after) > len(shown) else None,
        period=period,
        hours=known_hours(context.session, period),
        measured=measured(context.session, period),
        record=context.reader.case(period).record if context.scope.teams is None else None,
        items=list(context.reader.documents(shown, period, found)),
    )


def _is_wanted(finding: Finding, asked: FindingsAsked, run_id: str | None) -> bool:
    return (
        (asked.suspicions or not finding.suspicion)
        and (not asked.team or finding.team in asked.team)
        and (run_id is None or run_id in finding.run_ids)
        and (not asked.state or finding.state in asked.state)
        and (not asked.cause or finding.cause in asked.cause)
        and (not asked.confidence or finding.confidence in asked.confidence)
        and (asked.still_open is None or finding.still_open is asked.still_open)
    )


def _finding_answer(context: RequestContext, finding_id: str, asked: Spanned) -> FindingAnswer:
    """Return one finding.

    Raises:
        LedgerError: the period has none of this id.
    """
    period = context.period(asked.since, asked.until)
    absent = f"{period.label} has no finding {finding_id}: /v1/findings lists them; since selects another period"
    found = by_id(context.reader.findings(period), finding_id, absent)
    return FindingAnswer(
        **context.head(),
        period=period,
        finding=context.reader.documents([found], period)[0],
        recommendation_ids=[one.id for one in context.reader.offer(period).standing if found.id in one.finding_ids],
    )
