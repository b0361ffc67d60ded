"""Capacity requests over the API: GET and POST /v1/capacity-requests, one of them, and its overrides."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from pydantic import Field, StringConstraints, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from agent.wire.bounded import TooDeepError, TooMuchError
from analyzer.capacity.gate.decided import Decided, Verdict
from analyzer.capacity.gate.policy import read_policy
from analyzer.capacity.gate.policy_check import check_request, without_the_fleet
from analyzer.capacity.gate.request import FILE_BYTES as REQUEST_BYTES
from analyzer.capacity.gate.request import (
    GPUS_MOST,
    GROWTH_MOST,
    HOURS_MOST,
    NAME_MOST,
    WHY_MOST,
    WORK_MOST,
    request_of,
)
from analyzer.capacity.gate.request_store import (
    KeptRequest,
    Teller,
    decide,
    identity_of,
    kept_request,
    kept_requests,
    waive,
)
from analyzer.capacity.gate.supply import History, supply_of
from analyzer.capacity.profile.canonical_json import FILE_BYTES as PROFILE_BYTES
from analyzer.capacity.profile.signature import read_document
from analyzer.errors import ConfigError
from analyzer.ids import pattern
from analyzer.interfaces.api.parameters import READS, BusyError, Opt, Paged, Parameters, Texts, refusals
from analyzer.interfaces.api.request_service import Post, RequestContext, RequestService, answered, documented
from analyzer.reports.document import Document, Listing, Micros, Model, iso
from analyzer.server_client import WRONG_USAGE
from analyzer.settings.bounded import strict_json
from analyzer.settings.toml_entry import AND
from collector.problem import problem_response
from collector.registry import Registry


class _CapacityListAsked(Paged):
    """Which requests."""

    team: Texts = Field([])


class CapacityEventItem(Model):
    """One entry of a request's history."""

    at: Micros
    at_iso: str
    kind: Literal["decided", "waived"]
    who: str = Field(description="A key's id, or cli: and the user of the machine.")
    role: str = Field(description="The role of who said it.")
    verdict: Verdict = Field(description="That was valid from then on.")
    gate: str | None = Field(description="Of an override.")
    reason: str | None = Field(description="Of an override.")


class CapacityItem(Model):
    """One request. Amounts of money within `decided` are millionths, shares thousandths, times microseconds UTC."""

    id: str
    team: str
    asked_at: Micros
    asked_at_iso: str
    asked_by: str
    verdict: Verdict
    decided: Decided
    history: list[CapacityEventItem]

    @classmethod
    def of(cls, kept: KeptRequest) -> "CapacityItem":
        """Return a request as the API writes it."""
        return cls(
            id=kept.decided.request_id,
            team=kept.decided.request.team,
            asked_at=kept.asked_at,
            asked_at_iso=iso(kept.asked_at),
            asked_by=kept.asked_by,
            verdict=kept.decided.verdict,
            decided=kept.decided,
            history=[CapacityEventItem.model_validate(event) for event in kept.history],
        )


class CapacityDocument(Document):
    """One request."""

    request: CapacityItem


class CapacityPage(Listing):
    """Requests, the newest first."""

    items: list[CapacityItem]


class WaiverAsked(Parameters):
    """The override of a policy check."""

    gate: str = Field(min_length=1, max_length=40, description="The policy check's name.")
    reason: str = Field(min_length=1, max_length=500, description="The reason, in one sentence.")


_BODY_BYTES = REQUEST_BYTES + PROFILE_BYTES
HELD_AT_ONCE, _PARSED_AT_ONCE = 8, 2
RECEIVED_SECONDS = 60.0
Name = Annotated[str, StringConstraints(min_length=1, max_length=NAME_MOST)]
Gpus = Annotated[int, Field(ge=1, le=GPUS_MOST)]
_Growth = Annotated[float, Field(gt=0, le=GROWTH_MOST)]
Span = Annotated[float, Field(gt=0, le=HOURS_MOST)]


_PROFILE = "The JSON that gpuledger capacity profile wrote, with its signature; a pilot needs none."


class RequestAsked(Parameters):
    """The keys of a request's file (docs/gate.md), and `weeks` or `hours`, one of the two."""

    team: Name
    gpus: Gpus = Field(description="Additional GPUs, beyond those the work already has.")
    sku: Name
    weeks: Span | Opt = None
    hours: Span | Opt = None
    starts: Annotated[str, StringConstraints(pattern=r"^\d{4}-\d{2}-\d{2}$")]
    why: Annotated[str, StringConstraints(min_length=1, max_length=WHY_MOST)]
    work: Name | Annotated[list[Name], Field(min_length=1, max_length=WORK_MOST)] = Field(
        description="The name of the runs it is for, or their ids."
    )
    growth: _Growth | Opt = Field(None, description="Growth as a multiple of today's work.")
    gpus_per_run: Gpus | Opt = None
    today_gpus: Gpus | Opt = None
    purchase_option: Name | Opt = None
    needed_for: Name | Opt = None
    pilot: bool = False


class _CapacityAsked(Parameters):
    """A request and its profile."""

    request: RequestAsked
    profile: dict[str, Any] | None = Field(None, description=_PROFILE)


@dataclass(frozen=True, slots=True)
class Posted:
    """What was sent, as it was said: numbers are not read as another type, nor texts as numbers."""

    request: dict[str, object]
    profile: object | None


def _body_schema() -> dict[str, Any]:
    """Return the body's schema in one piece, as the OpenAPI document has it."""
    profile = {"anyOf": [{"type": "object"}, {"type": "null"}], "description": _PROFILE}
    parts = {"request": RequestAsked.model_json_schema(), "profile": profile}
    return {"type": "object", "properties": parts, "required": ["request"], "additionalProperties": False}


class Bodies:
    """Receives the bodies of one server: few at once, each in bounded time, and parsed on a thread.

    A body holds megabytes, and parsing one takes long enough that nobody else would be answered meanwhile.
    """

    def __init__(self) -> None:
        self._held = 0
        self._turns = asyncio.Semaphore(_PARSED_AT_ONCE)

    async def posted(self, request: Request) -> Posted | Response:
        """Return a body, or the answer that says what is wrong with it; no more of it is read than there may be.

        Raises:
            BusyError: as many are held as may be at once, or this one did not come in time.
        """
        if self._held >= HELD_AT_ONCE:
            raise BusyError("too many concurrent capacity requests; retry in a few seconds")
        self._held += 1
        try:
            async with asyncio.timeout(RECEIVED_SECONDS):
                content = await _received(request)
            if isinstance(content, Response):
                return content
            async with self._turns:
                return await run_in_threadpool(parsed, content)
        except TimeoutError as error:
            raise BusyError(f"the body did not arrive within {RECEIVED_SECONDS:.0f} seconds") from error
        finally:
            self._held -= 1


async def _received(request: Request) -> bytes | Response:
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > _BODY_BYTES:
            return problem_response(413, f"a request with its profile must not exceed {_BODY_BYTES:,} bytes")
    return bytes(content)


def parsed(content: bytes) -> Posted | Response:
    """Return what a body says, or the answer that says what is wrong with it."""
    try:
        said = strict_json(content, _BODY_BYTES)
        _CapacityAsked.model_validate(said)
    except TooDeepError:
        return problem_response(422, "the body is nested too deeply")
    except TooMuchError as error:
        return problem_response(413, f"not a valid request with its profile: {error}")
    except ValidationError as error:
        return problem_response(422, _sentence(said, error))
    except ValueError as error:
        return problem_response(422, f"the body is not valid JSON: {str(error)[:200]}")
    return Posted(said["request"], said.get("profile"))


def _sentence(said: object, error: ValidationError) -> str:
    """Say what is wrong in the gate's own words where it has some, for it knows the nearest key."""
    asked = said.get("request") if isinstance(said, dict) else None
    if isinstance(asked, dict):
        try:
            request_of("request", asked)
        except ConfigError as refused:
            return str(refused).replace(AND, "; ")
    fault = error.errors(include_url=False, include_input=False, include_context=False)[0]
    return f"{'.'.join(map(str, fault['loc'])) or 'the body'}: {fault['msg']}"[:400]


_PATH = "/capacity-requests"
_TAG: list[str | Enum] = ["capacity"]
FOR_EVER = 2**62
_RequestId = Annotated[str, Path(pattern=pattern("q"), description="The request's id, or a unique prefix of it.")]
_REFUSALS = refusals(400, 401, 403, 404, 409, 413, 422, 503)


def capacity_routes(service: RequestService) -> APIRouter:
    """Return the four routes."""
    router, bodies = APIRouter(), Bodies()

    @router.get(_PATH, response_model=CapacityPage, responses=READS, tags=_TAG)
    def list_capacity_requests(request: Request, asked: Annotated[_CapacityListAsked, Query()]) -> Response:
        """Capacity requests with their decisions, newest first; a team's key sees its own."""
        return service.answer(request, lambda context: _page(context, request, asked), follows_ledger=False)

    @router.get(f"{_PATH}/{{request_id}}", response_model=CapacityDocument, responses=READS, tags=_TAG)
    def capacity_request(request: Request, request_id: _RequestId) -> Response:
        """One capacity request: policy checks, the alternative offer, the choices, overrides, history."""

        def made(context: RequestContext) -> CapacityDocument:
            return _document(context, kept_request(_registry(request), request_id, _sees(context)))

        return service.answer(request, made, follows_ledger=False)

    async def ask(request: Request) -> Response:
        body = await bodies.posted(request)
        if isinstance(body, Response):
            return body
        return await run_in_threadpool(_asked, service, request, body)

    router.add_api_route(_PATH, ask, **_ASK)

    async def post_waiver(request: Request, request_id: _RequestId) -> Response:
        return await answered(service, request, _WAIVER, request_id)

    router.add_api_route(f"{_PATH}/{{request_id}}/waivers", post_waiver, **{**documented(_WAIVER), "tags": _TAG})
    return router


def _asked(service: RequestService, request: Request, body: Posted) -> Response:
    try:
        return service.answer(request, lambda context: _decided(context, request, body), follows_ledger=False)
    except ConfigError as error:
        return problem_response(409, str(error), reason=WRONG_USAGE)
    except PermissionError as error:
        return problem_response(403, str(error))


def _decided(context: RequestContext, request: Request, body: Posted) -> CapacityDocument:
    settings = context.reader.settings
    registry, policy = _registry(request), read_policy(settings.gates)
    asked = request_of("request", body.request)
    if not _sees(context)(asked.team):
        raise PermissionError("this key may request capacity for its own teams only")
    read = None if body.profile is None else read_document(body.profile, policy.keys)
    teller = _teller(request)
    identity = identity_of(registry, asked, read.sha256 if read else "")

    def judged() -> tuple[Decided, History | None]:
        session, sees = context.whole.session, _sees(context)
        supply = supply_of(session, settings, registry, asked, policy, identity, teller.at, sees)
        return check_request(asked, read, policy, supply, teller.at, identity), supply.history

    return _document(context, decide(registry, judged, teller))


def _page(context: RequestContext, request: Request, asked: _CapacityListAsked) -> CapacityPage:
    place = context.place(asked.cursor, (int, str))
    before: Any = None if place is None else place.key
    wanted = set(asked.team) or None
    seen = None if context.scope.teams is None else set(context.scope.teams)
    teams = seen if wanted is None else wanted if seen is None else wanted & seen
    found = kept_requests(
        _registry(request), 0, FOR_EVER, None if teams is None else sorted(teams), asked.limit + 1, before
    )
    shown = found[: asked.limit]
    last = (shown[-1].asked_at, shown[-1].decided.request_id) if len(found) > len(shown) else None
    return CapacityPage(
        **context.head(),
        next_cursor=None if last is None else context.next(last, None),
        items=[CapacityItem.of(seen_of(context, one)) for one in shown],
    )


def _waived(context: RequestContext, request: Request, request_id: str, asked: WaiverAsked) -> CapacityDocument:
    told = waive(_registry(request), request_id, asked.gate, asked.reason, _teller(request), _sees(context))
    return _document(context, told)


def _document(context: RequestContext, one: KeptRequest) -> CapacityDocument:
    return CapacityDocument(**context.head(), request=CapacityItem.of(seen_of(context, one)))


def seen_of(context: RequestContext, one: KeptRequest) -> KeptRequest:
    """Return a kept request as who asks may see it: a team's key is told nothing of what the fleet has free."""
    return one if context.scope.teams is None else replace(one, decided=without_the_fleet(one.decided))


def _registry(request: Request) -> Registry:
    registry: Registry = request.app.state.access.registry
    return registry


def _sees(context: RequestContext) -> Callable[[str], bool]:
    teams = context.scope.teams
    return lambda team: teams is None or team in teams


def _teller(request: Request) -> Teller:
    principal = request.scope.get("principal")
    who, role = getattr(principal, "signs_as", "loopback"), getattr(principal, "role", "local")
    return Teller(who, role, time.time_ns() // 1000)


_ASK: dict[str, Any] = {
    "methods": ["POST"],
    "name": "ask_for_capacity",
    "description": "Request more GPUs: the request with its profile is checked against the site's policy, and kept "
    "with its verdict. The same request with the same profile keeps its id.",
    "response_model": CapacityDocument,
    "responses": _REFUSALS,
    "openapi_extra": {"requestBody": {"required": True, "content": {"application/json": {"schema": _body_schema()}}}},
    "tags": _TAG,
}
_WAIVER = Post(
    "waived",
    "waivers",
    WaiverAsked,
    CapacityDocument,
    _waived,
    "Override one policy check of a request, with a reason. Requires the role approver.",
)
