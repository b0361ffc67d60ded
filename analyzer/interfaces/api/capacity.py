"""GET and POST /v1/capacity-requests, one of them, and its waivers: kept in the registry, told to the audit."""

import time
from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from analyzer.capacity.gate.decided import Decided
from analyzer.capacity.gate.policy import read_policy
from analyzer.capacity.gate.policy_check import check_request, without_the_fleet
from analyzer.capacity.gate.request import request_of
from analyzer.capacity.gate.request_store import (
    KeptRequest,
    Teller,
    decide,
    identity_of,
    kept_request,
    kept_requests,
    waive,
)
from analyzer.capacity.gate.site import supply_of
from analyzer.capacity.gate.supply import History
from analyzer.capacity.profile.read import read_document
from analyzer.errors import ConfigError
from analyzer.ids import pattern
from analyzer.interfaces.api.capacity_model import (
    Bodies,
    CapacityDocument,
    CapacityItem,
    CapacityListAsked,
    CapacityPage,
    Posted,
    WaiverAsked,
    body_schema,
)
from analyzer.interfaces.api.parameters import READS, refusals
from analyzer.interfaces.api.posts import Post, answered, documented
from analyzer.server_client import WRONG_USAGE
from collector.problem import problem_response
from collector.registry import Registry

if TYPE_CHECKING:
    from analyzer.interfaces.api.request_service import RequestContext, RequestService

_PATH = "/capacity-requests"
_TAG: list[str | Enum] = ["capacity"]
FOR_EVER = 2**62
_RequestId = Annotated[str, Path(pattern=pattern("q"), description="The request's id, or enough of its beginning.")]
_REFUSALS = refusals(400, 401, 403, 404, 409, 413, 422, 503)


def capacity_routes(service: "RequestService") -> APIRouter:
    """Return the four routes."""
    router, bodies = APIRouter(), Bodies()

    @router.get(_PATH, response_model=CapacityPage, responses=READS, tags=_TAG)
    def list_capacity_requests(request: Request, asked: Annotated[CapacityListAsked, Query()]) -> Response:
        """Requests for more GPUs with what was decided on them, the newest first; a team's key sees its own."""
        return service.answer(request, lambda context: _page(context, request, asked), follows_ledger=False)

    @router.get(f"{_PATH}/{{request_id}}", response_model=CapacityDocument, responses=READS, tags=_TAG)
    def capacity_request(request: Request, request_id: _RequestId) -> Response:
        """One request: gates, the other offer, the choices, waivers, history."""

        def made(context: "RequestContext") -> CapacityDocument:
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


def _asked(service: "RequestService", request: Request, body: Posted) -> Response:
    try:
        return service.answer(request, lambda context: _decided(context, request, body), follows_ledger=False)
    except ConfigError as error:
        return problem_response(409, str(error), reason=WRONG_USAGE)
    except PermissionError as error:
        return problem_response(403, str(error))


def _decided(context: "RequestContext", request: Request, body: Posted) -> CapacityDocument:
    settings = context.reader.settings
    registry, policy = _registry(request), read_policy(settings.gates)
    asked = request_of("request", body.request)
    if not _sees(context)(asked.team):
        raise PermissionError("this key asks for its own teams alone")
    read = None if body.profile is None else read_document(body.profile, policy.keys)
    teller = _teller(request)
    identity = identity_of(registry, asked, read.sha256 if read else "")

    def judged() -> tuple[Decided, History | None]:
        session, sees = context.whole.session, _sees(context)
        supply = supply_of(session, settings, registry, asked, policy, identity, teller.at, sees)
        return check_request(asked, read, policy, supply, teller.at, identity), supply.history

    return _document(context, decide(registry, judged, teller))


def _page(context: "RequestContext", request: Request, asked: CapacityListAsked) -> CapacityPage:
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


def _waived(context: "RequestContext", request: Request, request_id: str, asked: WaiverAsked) -> CapacityDocument:
    told = waive(_registry(request), request_id, asked.gate, asked.reason, _teller(request), _sees(context))
    return _document(context, told)


def _document(context: "RequestContext", one: KeptRequest) -> CapacityDocument:
    return CapacityDocument(**context.head(), request=CapacityItem.of(seen_of(context, one)))


def seen_of(context: "RequestContext", one: KeptRequest) -> KeptRequest:
    """Return a kept request as who asks may see it: a team's key is told nothing of what the fleet has free."""
    return one if context.scope.teams is None else replace(one, decided=without_the_fleet(one.decided))


def _registry(request: Request) -> Registry:
    registry: Registry = request.app.state.access.registry
    return registry


def _sees(context: "RequestContext") -> Callable[[str], bool]:
    teams = context.scope.teams
    return lambda team: teams is None or team in teams


def _teller(request: Request) -> Teller:
    principal = request.scope.get("principal")
    who, role = getattr(principal, "id", "loopback"), getattr(principal, "role", "local")
    return Teller(who, role, time.time_ns() // 1000)


_ASK: dict[str, Any] = {
    "methods": ["POST"],
    "name": "ask_for_capacity",
    "description": "Ask for more GPUs: the request with its profile is judged by the site's gates, and kept with its "
    "verdict. The same request with the same profile keeps its id.",
    "response_model": CapacityDocument,
    "responses": _REFUSALS,
    "openapi_extra": {"requestBody": {"required": True, "content": {"application/json": {"schema": body_schema()}}}},
    "tags": _TAG,
}
_WAIVER = Post(
    "waived",
    "waivers",
    WaiverAsked,
    CapacityDocument,
    _waived,
    "Waive one gate of a request, with a reason. It takes the role approver.",
)
