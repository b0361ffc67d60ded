"""POST /v1/findings/{id}/judgement and /mute: who owns a finding says whether it is right. The audit says who did."""

import time
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from fastapi import APIRouter, Request
from pydantic import Field, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from analyzer.api.asking import Asked, Opt, Text, refusals
from analyzer.api.finding_item import FindingId, MuteItem, WordItem
from analyzer.api.model import Document
from analyzer.api.when import When
from analyzer.casebook.judgement import BECAUSE_MAX, Verdict
from analyzer.casebook.kept import Said
from analyzer.casebook.say import judge, mute
from analyzer.errors import ConfigError
from collector.problem import problem_response
from collector.registry.audit import Entry

if TYPE_CHECKING:
    from collections.abc import Callable

    from analyzer.api.desk import Desk, Reading

A = TypeVar("A", bound=Asked)
BODY_BYTES = 8_192
_REFUSALS = refusals(400, 401, 403, 404, 409, 413, 422, 503)
Because = Annotated[str, Field(min_length=1, max_length=BECAUSE_MAX, description="Why; one sentence.")]


class JudgementAsked(Asked):
    """A verdict on a finding in a period."""

    verdict: Verdict = Field(description="`planned` is right and accepted: it counts as right.")
    because: Because
    since: When | Opt = Field(None, description="The period it is of; without it the last complete week.")
    until: When | Opt = None


class MuteAsked(Asked):
    """Until when a finding is left out of lists."""

    until: Text = Field(description="A date, which is included, or a time; at most 90 days away.")
    because: Because
    since: When | Opt = Field(None, description="The period in which the finding is.")


class JudgementDocument(Document):
    """What was kept."""

    judgement: WordItem


class MuteDocument(Document):
    """What was kept."""

    mute: MuteItem


def finding_word_routes(desk: "Desk") -> APIRouter:
    """Return the two routes."""
    router = APIRouter()

    @router.post(
        "/findings/{finding_id}/judgement",
        response_model=JudgementDocument,
        responses=_REFUSALS,
        openapi_extra=_body(JudgementAsked),
        tags=["findings"],
    )
    async def judgement(request: Request, finding_id: FindingId) -> Response:
        """Say whether a finding is right. Words are added: the last one on a finding and a period counts."""
        asked = await _asked(request, JudgementAsked)
        return (
            asked if isinstance(asked, Response) else await run_in_threadpool(_judge, desk, request, finding_id, asked)
        )

    @router.post(
        "/findings/{finding_id}/mute",
        response_model=MuteDocument,
        responses=_REFUSALS,
        openapi_extra=_body(MuteAsked),
        tags=["findings"],
    )
    async def muted(request: Request, finding_id: FindingId) -> Response:
        """Leave a finding out of lists for a while. Its time stays in every sum."""
        asked = await _asked(request, MuteAsked)
        return (
            asked if isinstance(asked, Response) else await run_in_threadpool(_mute, desk, request, finding_id, asked)
        )

    return router


def _judge(desk: "Desk", request: Request, finding_id: str, asked: JudgementAsked) -> Response:
    def keep(reading: "Reading") -> JudgementDocument:
        period = reading.period(asked.since, asked.until)
        said = _said(request, asked.because)
        found = reading.findings(period)
        kept = judge(reading.whole.session, found, period, finding_id, asked.verdict, said)
        _audit(request, "judge", kept.claim.finding_id, f"{kept.verdict}, of {kept.period_label}", said)
        return JudgementDocument(**reading.head(), judgement=WordItem.of(kept))

    return _answer(desk, request, keep)


def _mute(desk: "Desk", request: Request, finding_id: str, asked: MuteAsked) -> Response:
    def keep(reading: "Reading") -> MuteDocument:
        period = reading.period(asked.since, None)
        said, zone = _said(request, asked.because), reading.reader.settings.timezone
        kept = mute(reading.whole.session, reading.findings(period), period, finding_id, asked.until, zone, said)
        _audit(request, "mute", kept.finding_id, f"until {asked.until}", said)
        return MuteDocument(**reading.head(), mute=MuteItem.of(kept))

    return _answer(desk, request, keep)


def _answer(desk: "Desk", request: Request, keep: "Callable[[Reading], Document]") -> Response:
    """Answer 409 where the words can be read and are refused: a date that has passed, a reason of blanks."""
    try:
        return desk.answer(request, keep, follows_ledger=False)
    except ConfigError as error:
        return problem_response(409, str(error))


def _said(request: Request, because: str) -> Said:
    who = getattr(request.scope.get("principal"), "id", "loopback")
    return Said(because, who, time.time_ns() // 1000)


def _audit(request: Request, action: str, finding_id: str, detail: str, said: Said) -> None:
    """Write it down before it is committed: an entry of a word that then failed is better than a word of nobody."""
    entry = Entry(said.recorded_at, "change", said.who, action, finding_id, detail)
    request.app.state.access.registry.audit.add([entry])


async def _asked(request: Request, kind: type[A]) -> A | Response:
    """Return the body as what it must be, or the answer that says what is wrong with it; no more of it is read."""
    content = b""
    async for chunk in request.stream():
        content += chunk
        if len(content) > BODY_BYTES:
            return problem_response(413, f"say it in at most {BODY_BYTES:,} bytes")
    try:
        return kind.model_validate_json(content)
    except ValidationError as error:
        faults = [
            {"in": "body", "name": ".".join(map(str, fault["loc"])), "says": fault["msg"]}
            for fault in error.errors(include_url=False, include_input=False, include_context=False)
        ]
        first = f"{faults[0]['name'] or 'the body'}: {faults[0]['says']}"
        return problem_response(422, first, errors=faults)


def _body(kind: type[Asked]) -> dict[str, Any]:
    content = {"application/json": {"schema": kind.model_json_schema()}}
    return {"requestBody": {"required": True, "content": content}}
