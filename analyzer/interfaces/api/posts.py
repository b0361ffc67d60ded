"""How something is said over HTTP: one POST each, its body checked, kept in one transaction, and audited."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from fastapi import Request
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from agent.wire.bounded import TooMuchError, bounded_json
from analyzer.errors import ConfigError
from analyzer.findings.say import Statement
from analyzer.interfaces.api.parameters import Parameters, refusals
from analyzer.interfaces.api.request_service import RequestContext, RequestService
from analyzer.reports.document import Document
from analyzer.server_client import WRONG_USAGE
from collector.problem import problem_response
from collector.registry.audit import AuditEntry

A = TypeVar("A", bound=Parameters)
_BODY_BYTES = 8_192
_REFUSALS = refusals(400, 401, 403, 404, 409, 413, 422, 503)


@dataclass(frozen=True, slots=True)
class Post(Generic[A]):
    """One thing that can be said of something: how it is asked for, and how it is kept and answered."""

    name: str
    path: str
    asked: type[A]
    document: type[Document]
    keep: "Callable[[RequestContext, Request, str, A], Document]"
    about: str


async def answered(service: RequestService, request: Request, word: Post[A], subject_id: str) -> Response:
    """Return the answer to one thing that is said of `subject_id`.

    It is 409 where the words can be read and are refused: a date that has passed, a reason of blanks.
    """
    body = await body_of(request, word.asked)
    if isinstance(body, Response):
        return body

    def answer() -> Response:
        try:
            return service.answer(request, lambda it: word.keep(it, request, subject_id, body), follows_ledger=False)
        except ConfigError as error:
            return problem_response(409, str(error), reason=WRONG_USAGE)

    return await run_in_threadpool(answer)


def documented(word: Post[A]) -> dict[str, Any]:
    """Return what a route of this word says of itself."""
    content = {"application/json": {"schema": word.asked.model_json_schema()}}
    return {
        "methods": ["POST"],
        "name": word.name,
        "description": word.about,
        "response_model": word.document,
        "responses": _REFUSALS,
        "openapi_extra": {"requestBody": {"required": True, "content": content}},
        "tags": ["findings"],
    }


def said_by(request: Request, because: str) -> Statement:
    """Return who says it, and when."""
    who = getattr(request.scope.get("principal"), "signs_as", "loopback")
    return Statement(because, who, time.time_ns() // 1000)


def audit(request: Request, action: str, subject_id: str, detail: str, said: Statement) -> None:
    """Write it down before it is committed: an entry of a word that then failed is better than a word of nobody.

    No entry can be erased: a person stands in it by a pseudonym.
    """
    who = getattr(request.scope.get("principal"), "id", "loopback")
    entry = AuditEntry(said.recorded_at, "change", who, action, subject_id, detail)
    request.app.state.access.registry.audit.add([entry])


async def body_of(request: Request, kind: type[A], most_bytes: int = _BODY_BYTES) -> A | Response:
    """Return the body as what it must be, or the answer that says what is wrong with it; no more of it is read."""
    content = b""
    async for chunk in request.stream():
        content += chunk
        if len(content) > most_bytes:
            return problem_response(413, f"the body must not exceed {most_bytes:,} bytes")
    try:
        return kind.model_validate_json(bounded_json(content, most_bytes=most_bytes))
    except TooMuchError as error:
        return problem_response(413, f"the body is too large: {error}")
    except UnicodeDecodeError:
        return problem_response(422, "the body is not valid UTF-8")
    except ValidationError as error:
        faults = [
            {"in": "body", "name": ".".join(map(str, fault["loc"])), "says": fault["msg"]}
            for fault in error.errors(include_url=False, include_input=False, include_context=False)
        ]
        first = f"{faults[0]['name'] or 'the body'}: {faults[0]['says']}"
        return problem_response(422, first, errors=faults)
