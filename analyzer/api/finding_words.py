"""POST /v1/findings/{id}/judgement and /mute: who owns a finding says whether it is right. The audit says who did."""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar

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


@dataclass(frozen=True, slots=True)
class _Word(Generic[A]):
    """One thing that can be said of a finding: how it is asked for, and how it is kept and answered."""

    name: str
    path: str
    asked: type[A]
    document: type[Document]
    keep: "Callable[[Reading, Request, str, A], Document]"
    about: str


def finding_word_routes(desk: "Desk") -> APIRouter:
    """Return the two routes."""
    router = APIRouter()
    _add(router, desk, _JUDGEMENT)
    _add(router, desk, _MUTE)
    return router


def _add(router: APIRouter, desk: "Desk", word: _Word[A]) -> None:
    async def post(request: Request, finding_id: FindingId) -> Response:
        asked = await _asked(request, word.asked)
        if isinstance(asked, Response):
            return asked
        return await run_in_threadpool(_answer, desk, request, lambda it: word.keep(it, request, finding_id, asked))

    router.add_api_route(
        f"/findings/{{finding_id}}/{word.path}",
        post,
        methods=["POST"],
        name=word.name,
        description=word.about,
        response_model=word.document,
        responses=_REFUSALS,
        openapi_extra=_body(word.asked),
        tags=["findings"],
    )


def _judge(reading: "Reading", request: Request, finding_id: str, asked: JudgementAsked) -> JudgementDocument:
    period, said = reading.period(asked.since, asked.until), _said(request, asked.because)
    kept = judge(reading.whole.session, reading.findings(period), period, finding_id, asked.verdict, said)
    _audit(request, "judge", kept.claim.finding_id, f"{kept.verdict}, of {kept.period_label}", said)
    return JudgementDocument(**reading.head(), judgement=WordItem.of(kept))


def _mute(reading: "Reading", request: Request, finding_id: str, asked: MuteAsked) -> MuteDocument:
    period, said = reading.period(asked.since, None), _said(request, asked.because)
    zone = reading.reader.settings.timezone
    kept = mute(reading.whole.session, reading.findings(period), period, finding_id, asked.until, zone, said)
    _audit(request, "mute", kept.finding_id, f"until {asked.until}", said)
    return MuteDocument(**reading.head(), mute=MuteItem.of(kept))


_JUDGEMENT = _Word(
    "judgement",
    "judgement",
    JudgementAsked,
    JudgementDocument,
    _judge,
    "Say whether a finding is right. Words are added: the last one on a finding and a period counts.",
)
_MUTE = _Word(
    "muted",
    "mute",
    MuteAsked,
    MuteDocument,
    _mute,
    "Leave a finding out of lists for a while. Its time stays in every sum.",
)


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
