"""/v1/recommendations and /v1/savings: what to change with the lines to paste, what was decided, what it came to."""

from collections.abc import Callable
from typing import Annotated, Literal, TypeVar

from fastapi import APIRouter, Path, Query, Request
from pydantic import Field
from starlette.responses import Response

from analyzer.findings.judgement import BECAUSE_MAX
from analyzer.ids import by_id, pattern
from analyzer.interfaces.api.parameters import READS, Opt, Paged, Parameters, Spanned, Text, Texts, When
from analyzer.interfaces.api.request_service import Post as Said
from analyzer.interfaces.api.request_service import RequestContext, RequestService, answered, audit, documented, said_by
from analyzer.ledger.coverage import Hours, Measured, known_hours, measured
from analyzer.period import Period
from analyzer.recommendations.lifecycle.lifecycle_tables import Decision, LifecycleStatus, Word, decide, moment_of
from analyzer.recommendations.lifecycle.realised import Calibration, Realised
from analyzer.recommendations.recommendation import Recommendation
from analyzer.reports.document import Document, Listing, Micros, Model, Span
from analyzer.reports.savings import Together

_AdviceId = Annotated[str, Path(pattern=pattern("r"), description="As in the list: r-3mx8a; or a unique prefix.")]
_FINDINGS_MAX = 50


class _AdviceAsked(Spanned, Paged):
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


def recommendation_routes(service: RequestService) -> APIRouter:
    """Return the routes."""
    router = APIRouter()

    @router.get("/recommendations", response_model=AdvicePage, responses=READS, tags=["findings"])
    def recommendations(request: Request, asked: Annotated[_AdviceAsked, Query()]) -> Response:
        """Recommendations, and what each saves."""
        return service.answer(request, lambda context: _advice_page(context, asked))

    @router.get("/recommendations/{advice_id}", response_model=AdviceDocument, responses=READS, tags=["findings"])
    def recommendation(request: Request, advice_id: _AdviceId, asked: Annotated[Spanned, Query()]) -> Response:
        """One recommendation, with the lines to paste."""
        return service.answer(request, lambda context: _advice_document(context, advice_id, asked))

    _add(router, service, _ACCEPTANCE)
    _add(router, service, _REJECTION)

    @router.get("/savings", response_model=SavingsDocument, responses=READS, tags=["findings"])
    def savings(request: Request) -> Response:
        """Savings of recommendations: predicted and realized."""
        return service.answer(request, _savings_document)

    return router


def _advice_page(context: RequestContext, asked: _AdviceAsked) -> AdvicePage:
    """Return one page of recommendations. Raises as RequestContext.page()."""
    after, period = context.begin(asked.cursor, (str,), asked.since, asked.until)
    offer = context.reader.offer(period)
    among = offer.advice if asked.everything else offer.standing
    found = [advice for advice in among if _is_wanted(advice, asked)]
    shown, next_cursor = context.page(found, lambda advice: (advice.id,), after, period, asked.limit)
    return AdvicePage(
        **context.head(),
        next_cursor=next_cursor,
        period=period,
        hours=known_hours(context.session, period),
        measured=measured(context.session, period),
        items=shown,
    )


def _is_wanted(advice: Recommendation, asked: _AdviceAsked) -> bool:
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


A = TypeVar("A", bound=Parameters)
_WHY = "The reason, in one sentence."


class AcceptanceAsked(Parameters):
    """Acceptance of a recommendation, or that it has been applied."""

    because: Annotated[str, Field(max_length=BECAUSE_MAX, description=_WHY)] = ""
    applied_at: Text | Opt = Field(None, description="When the change was made: a date, or a time; not in the future.")
    since: When | Opt = Field(None, description="The period of the recommendation; default: the last complete week.")


class RejectionAsked(Parameters):
    """Rejection of a recommendation."""

    because: Annotated[str, Field(min_length=1, max_length=BECAUSE_MAX, description=_WHY)]
    since: When | Opt = Field(None, description="The period of the recommendation; default: the last complete week.")


class DecisionItem(Model):
    """One decision. Who made it is in the audit log."""

    recommendation_id: str
    word: Literal["accepted", "rejected"]
    because: str | None
    applied_at: Micros | None = Field(description="When the change was made, if recorded.")
    applied_at_iso: str | None
    recorded_at: Micros
    recorded_at_iso: str


class DecisionDocument(Document):
    """What was kept."""

    decision: DecisionItem


def _add(router: APIRouter, service: RequestService, word: Said[A]) -> None:
    async def post(request: Request, advice_id: _AdviceId) -> Response:
        return await answered(service, request, word, advice_id)

    router.add_api_route(f"/recommendations/{{advice_id}}/{word.path}", post, **documented(word))


def _keep(decision: Decision) -> Callable[[RequestContext, Request, str, A], DecisionDocument]:
    """Return what keeps one of the two decisions, and answers with it."""

    def keep(context: RequestContext, request: Request, advice_id: str, asked: A) -> DecisionDocument:
        said = asked.model_dump()
        period, applied = context.period(said["since"], None), said.get("applied_at")
        kept = keep_decision(context, request, advice_id, decision, said["because"], period, applied)
        return DecisionDocument(**context.head(), decision=DecisionItem.model_validate(kept))

    return keep


def keep_decision(
    context: RequestContext,
    request: Request,
    advice_id: str,
    decision: Decision,
    because: str,
    period: Period,
    applied: str | None,
) -> Word:
    """Keep one decision, audited; the API and the pages decide here. `applied` is a date or a time, as typed.

    Raises:
        ConfigError: a rejection has no reason, or the change was made at no moment that has come.
        LedgerError: there is no such recommendation that may be seen.
    """
    said = said_by(request, because)
    applied_at = moment_of(applied, context.reader.settings.timezone, said.recorded_at) if applied else None
    offer = context.reader.offered(advice_id, period)
    realised = context.whole.advice_options.realised(context.whole.session)
    kept = decide(context.whole.session, offer, context.reader.holds, advice_id, decision, said, applied_at, realised)
    detail = decision if applied is None else f"{decision}, applied at {applied}"
    audit(request, decision.removesuffix("ed"), kept.recommendation_id, detail, said)
    return kept


_ACCEPTANCE = Said(
    "accepted",
    "acceptance",
    AcceptanceAsked,
    DecisionDocument,
    _keep("accepted"),
    "Accept a recommendation, or record when it was applied. Decisions are appended; the last one counts.",
)
_REJECTION = Said(
    "rejected",
    "rejection",
    RejectionAsked,
    DecisionDocument,
    _keep("rejected"),
    "Reject a recommendation, with a reason.",
)


class SavingsDocument(Document):
    """All recommendations with their predicted and realized savings."""

    proposed: int
    items: list[Realised | LifecycleStatus]
    together: Together
    calibration: Calibration
    proposed_shares: dict[str, dict[str, int]] = Field(
        description="Permille of a loss recovered by changes of a kind, by quantile; of kinds with twenty cases."
    )
    shares_in_use: bool = Field(description="Whether the settings use them instead of the assumed shares.")


def _savings_document(context: RequestContext) -> SavingsDocument:
    """Return the book; the whole site's runs are looked at, and what may be seen is told."""
    report = context.reader.savings()
    known = {name: getattr(report, name) for name in SavingsDocument.model_fields if hasattr(report, name)}
    return SavingsDocument(**known | context.head())
