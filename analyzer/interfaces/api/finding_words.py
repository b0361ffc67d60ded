"""POST /v1/findings/{id}/judgement and /mute: who owns a finding says whether it is right. The audit says who did."""

from typing import TYPE_CHECKING, Annotated, TypeVar

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response

from analyzer.findings.finding import Finding
from analyzer.findings.judgement import BECAUSE_MAX, Judgement, Mute, Verdict
from analyzer.findings.say import keep_judgement, keep_mute
from analyzer.interfaces.api.findings import FindingId
from analyzer.interfaces.api.parameters import Opt, Parameters, Text, When
from analyzer.interfaces.api.posts import Post, answered, audit, documented, said_by
from analyzer.period import Period
from analyzer.reports.document import Document

if TYPE_CHECKING:
    from analyzer.interfaces.api.request_service import RequestContext, RequestService

A = TypeVar("A", bound=Parameters)
_Because = Annotated[str, Field(min_length=1, max_length=BECAUSE_MAX, description="The reason, in one sentence.")]


class JudgementAsked(Parameters):
    """A verdict on a finding in a period."""

    verdict: Verdict = Field(description="`planned` means right and accepted; it counts as right.")
    because: _Because
    since: When | Opt = Field(None, description="The period of the finding; default: the last complete week.")
    until: When | Opt = None


class MuteAsked(Parameters):
    """Until when a finding is left out of lists."""

    until: Text = Field(description="A date (inclusive) or a time; no more than 90 days ahead.")
    because: _Because
    since: When | Opt = Field(None, description="The period of the finding; default: the last complete week.")


class JudgementDocument(Document):
    """What was kept."""

    judgement: Judgement


class MuteDocument(Document):
    """What was kept."""

    mute: Mute


def finding_word_routes(service: "RequestService") -> APIRouter:
    """Return the two routes."""
    router = APIRouter()
    _add(router, service, _JUDGEMENT)
    _add(router, service, _MUTE)
    return router


def _add(router: APIRouter, service: "RequestService", word: Post[A]) -> None:
    async def post(request: Request, finding_id: FindingId) -> Response:
        return await answered(service, request, word, finding_id)

    router.add_api_route(f"/findings/{{finding_id}}/{word.path}", post, **documented(word))


def _own(context: "RequestContext", period: Period) -> list[Finding]:
    """Return the findings that who asks may speak for: of one that others share each sees a part, and mutes none."""
    return [finding for finding in context.reader.findings(period) if context.reader.holds(finding)]


def _judge(context: "RequestContext", request: Request, finding_id: str, asked: JudgementAsked) -> JudgementDocument:
    period, said = context.period(asked.since, asked.until), said_by(request, asked.because)
    kept = keep_judgement(context.whole.session, _own(context, period), period, finding_id, asked.verdict, said)
    audit(request, "judge", kept.finding_id, f"{kept.verdict}, of {kept.period_label}", said)
    return JudgementDocument(**context.head(), judgement=kept)


def _mute(context: "RequestContext", request: Request, finding_id: str, asked: MuteAsked) -> MuteDocument:
    period, said = context.period(asked.since, None), said_by(request, asked.because)
    zone = context.reader.settings.timezone
    kept = keep_mute(context.whole.session, _own(context, period), period, finding_id, asked.until, zone, said)
    audit(request, "mute", kept.finding_id, f"until {asked.until}", said)
    return MuteDocument(**context.head(), mute=kept)


_JUDGEMENT = Post(
    "judgement",
    "judgement",
    JudgementAsked,
    JudgementDocument,
    _judge,
    "Give feedback on a finding: right, wrong or planned. The last one per finding and period counts.",
)
_MUTE = Post(
    "muted",
    "mute",
    MuteAsked,
    MuteDocument,
    _mute,
    "Mute a finding: lists omit it until then. Its time stays in every sum.",
)
