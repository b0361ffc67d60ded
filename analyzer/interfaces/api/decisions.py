"""POST /v1/recommendations/{id}/acceptance and /rejection: who owns what would change decides; the audit says who."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Literal, TypeVar

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response

from analyzer.findings.judgement import BECAUSE_MAX
from analyzer.interfaces.api.parameters import Opt, Parameters, Text, When
from analyzer.interfaces.api.posts import Post as Said
from analyzer.interfaces.api.posts import answered, audit, documented, said_by
from analyzer.interfaces.api.recommendations import AdviceId
from analyzer.interfaces.api.request_service import RequestContext, RequestService
from analyzer.period import Period
from analyzer.recommendations.lifecycle.lifecycle_tables import decide
from analyzer.recommendations.lifecycle.status import Decision, Word, moment_of
from analyzer.reports.document import Document, Micros, Model, iso, iso_or_none

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

    @classmethod
    def of(cls, word: Word) -> "DecisionItem":
        """Return a decision as the API writes it."""
        instants = {"applied_at_iso": iso_or_none(word.applied_at), "recorded_at_iso": iso(word.recorded_at)}
        return cls.model_validate(asdict(word) | instants)


class DecisionDocument(Document):
    """What was kept."""

    decision: DecisionItem


def decision_routes(service: RequestService) -> APIRouter:
    """Return the two routes."""
    router = APIRouter()
    _add(router, service, _ACCEPTANCE)
    _add(router, service, _REJECTION)
    return router


def _add(router: APIRouter, service: RequestService, word: Said[A]) -> None:
    async def post(request: Request, advice_id: AdviceId) -> Response:
        return await answered(service, request, word, advice_id)

    router.add_api_route(f"/recommendations/{{advice_id}}/{word.path}", post, **documented(word))


def _keep(decision: Decision) -> Callable[[RequestContext, Request, str, A], DecisionDocument]:
    """Return what keeps one of the two decisions, and answers with it."""

    def keep(context: RequestContext, request: Request, advice_id: str, asked: A) -> DecisionDocument:
        said = asked.model_dump()
        period, applied = context.period(said["since"], None), said.get("applied_at")
        kept = keep_decision(context, request, advice_id, decision, said["because"], period, applied)
        return DecisionDocument(**context.head(), decision=DecisionItem.of(kept))

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
