"""GET /v1/recommendations and /v1/recommendations/{id}: what to change, what it saves, and the lines to paste."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from pydantic import Field
from starlette.responses import Response

from analyzer.ids import by_id, pattern
from analyzer.interfaces.api.parameters import READS, GoneError, Paged, Spanned, Text, Texts
from analyzer.interfaces.api.request_service import RequestContext, RequestService
from analyzer.ledger.coverage import Hours, Measured, known_hours, measured
from analyzer.recommendations.recommendation import Recommendation
from analyzer.reports.document import Document, Listing, Span

AdviceId = Annotated[str, Path(pattern=pattern("r"), description="As in the list: r-3mx8a; or a unique prefix.")]
_FINDINGS_MAX = 50


class AdviceAsked(Spanned, Paged):
    """Which recommendations."""

    team: Texts = Field([])
    kind: Texts = Field([])
    finding: Annotated[list[Text], Field(max_length=_FINDINGS_MAX)] = Field(
        [], description="Only those that address these findings."
    )
    everything: bool = Field(False, description="Also those held back by a guard, and alternatives to a better one.")


class AdvicePage(Listing):
    """Recommendations for the findings of a period, those that save most first."""

    period: Span
    hours: Hours
    measured: Measured
    items: list[Recommendation]


class AdviceDocument(Document):
    """One recommendation."""

    period: Span
    recommendation: Recommendation


def advice_routes(service: RequestService) -> APIRouter:
    """Return the routes."""
    router = APIRouter()

    @router.get("/recommendations", response_model=AdvicePage, responses=READS, tags=["findings"])
    def recommendations(request: Request, asked: Annotated[AdviceAsked, Query()]) -> Response:
        """Recommendations, and what each saves."""
        return service.answer(request, lambda context: _advice_page(context, asked))

    @router.get("/recommendations/{advice_id}", response_model=AdviceDocument, responses=READS, tags=["findings"])
    def recommendation(request: Request, advice_id: AdviceId, asked: Annotated[Spanned, Query()]) -> Response:
        """One recommendation, with the lines to paste."""
        return service.answer(request, lambda context: _advice_document(context, advice_id, asked))

    return router


def _advice_page(context: RequestContext, asked: AdviceAsked) -> AdvicePage:
    """Return one page of recommendations."""
    place = context.place(asked.cursor, (str,))
    period = place.period if place and place.period else context.period(asked.since, asked.until)
    offer = context.reader.offer(period)
    among = offer.advice if asked.everything else offer.standing
    found = [advice for advice in among if _is_wanted(advice, asked)]
    begin = _after(found, place.key[0]) if place else 0
    shown = found[begin : begin + asked.limit]
    return AdvicePage(
        **context.head(),
        next_cursor=context.next((shown[-1].id,), period) if len(found) > begin + len(shown) else None,
        period=period,
        hours=known_hours(context.session, period),
        measured=measured(context.session, period),
        items=shown,
    )


def _after(found: list[Recommendation], last: object) -> int:
    """Return where the page begins.

    Raises:
        GoneError: what stood before it is no longer recommended.
    """
    for place, advice in enumerate(found, 1):
        if advice.id == last:
            return place
    raise GoneError("the recommendations have changed: start again without a cursor")


def _is_wanted(advice: Recommendation, asked: AdviceAsked) -> bool:
    return (
        (not asked.team or advice.team in asked.team)
        and (not asked.kind or advice.kind in asked.kind)
        and (not asked.finding or not set(advice.finding_ids).isdisjoint(asked.finding))
    )


def _advice_document(context: RequestContext, advice_id: str, asked: Spanned) -> AdviceDocument:
    """Return one recommendation.

    Raises:
        LedgerError: the period has none of this id.
    """
    period = context.period(asked.since, asked.until)
    absent = f"{period.label} has no recommendation {advice_id}: see /v1/recommendations; since selects another period"
    offer = context.reader.offered(advice_id, period)
    found = by_id(offer.advice, advice_id, absent)
    return AdviceDocument(**context.head(), period=offer.period, recommendation=found)
