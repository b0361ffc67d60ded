"""GET /v1/notices: observations, which claim no GPU time, and rules with insufficient data."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from analyzer.findings.health.notice import Notice
from analyzer.interfaces.api.parameters import READS, VALUES_MAX, GoneError, Paged, Spanned, Texts
from analyzer.interfaces.api.request_service import RequestContext, RequestService
from analyzer.ledger.coverage import by_rule
from analyzer.reports.document import Listing, Model, Span


class NoticesAsked(Spanned, Paged):
    """Which notices of a period."""

    team: Texts = Field([])
    rule: Texts = Field([], description="As in the items, or a prefix: fleet, fleet/links.")
    node: Texts = Field([])
    confidence: Annotated[list[Literal["high", "medium", "low"]], Field(max_length=VALUES_MAX)] = Field([])


class NotJudged(Model):
    """A rule with insufficient data, because a signal was missing."""

    rule: str
    missing: str


class NoticePage(Listing):
    """Notices of a period in the order of their rules. They are of the samples as well as of the ledger."""

    period: Span
    items: list[Notice]
    not_judged: list[NotJudged] = Field(
        description="Rules with insufficient data, those of findings too; for a key limited to teams, of its runs."
    )


def notice_routes(service: RequestService) -> APIRouter:
    """Return the routes."""
    router = APIRouter()

    @router.get("/notices", response_model=NoticePage, responses=READS, tags=["findings"])
    def notices(request: Request, asked: Annotated[NoticesAsked, Query()]) -> Response:
        """Observations of a period (no cost counted), and rules with insufficient data."""
        return service.answer(request, lambda context: _notice_page(context, asked))

    return router


def _notice_page(context: RequestContext, asked: NoticesAsked) -> NoticePage:
    """Return one page of notices.

    Raises:
        GoneError: what stood before it is no longer noticed.
    """
    place = context.place(asked.cursor, (str, str))
    period = place.period if place and place.period else context.period(asked.since, asked.until)
    looked = context.reader.looked(period)
    found = [notice for notice in looked.notices if _is_wanted(notice, asked)]
    keys = [(notice.rule, notice.id) for notice in found]
    if place and place.key not in keys:
        raise GoneError("the notices have changed: start again without a cursor")
    begin = keys.index(place.key) + 1 if place else 0  # type: ignore[arg-type]  # read as two words above
    shown = found[begin : begin + asked.limit]
    return NoticePage(
        **context.head(),
        next_cursor=context.next((shown[-1].rule, shown[-1].id), period) if len(found) > begin + len(shown) else None,
        period=period,
        items=shown,
        not_judged=[
            NotJudged(rule=rule, missing=missing) for rule, missing in by_rule(context.reader.unjudged(period))
        ],
    )


def _is_wanted(notice: Notice, asked: NoticesAsked) -> bool:
    return (
        (not asked.team or notice.team in asked.team)
        and (not asked.rule or any(f"{notice.rule}/".startswith(f"{rule}/") for rule in asked.rule))
        and (not asked.node or notice.node in asked.node)
        and (not asked.confidence or notice.confidence in asked.confidence)
    )
