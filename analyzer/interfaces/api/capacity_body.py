"""The body of POST /v1/capacity-requests: a request and its profile, bounded and parsed, each key once."""

import asyncio
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Request
from pydantic import Field, StringConstraints, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from agent.wire.bounded import TooDeepError, TooMuchError, json_said
from analyzer.capacity.gate.request import FILE_BYTES as REQUEST_BYTES
from analyzer.capacity.gate.request import (
    GPUS_MOST,
    GROWTH_MOST,
    HOURS_MOST,
    NAME_MOST,
    WHY_MOST,
    WORK_MOST,
    once,
    request_of,
)
from analyzer.capacity.profile.canonical_json import FILE_BYTES as PROFILE_BYTES
from analyzer.errors import ConfigError
from analyzer.interfaces.api.faults import BusyError
from analyzer.interfaces.api.parameters import Opt, Parameters
from collector.problem import problem_response

_BODY_BYTES = REQUEST_BYTES + PROFILE_BYTES
HELD_AT_ONCE, _PARSED_AT_ONCE = 8, 2
RECEIVED_SECONDS = 60.0
Name = Annotated[str, StringConstraints(min_length=1, max_length=NAME_MOST)]
Gpus = Annotated[int, Field(ge=1, le=GPUS_MOST)]
_Growth = Annotated[float, Field(gt=0, le=GROWTH_MOST)]
Span = Annotated[float, Field(gt=0, le=HOURS_MOST)]


_PROFILE = "The JSON that gpuledger capacity profile wrote, with its signature; a pilot has none."


class RequestAsked(Parameters):
    """The keys of a request's file (docs/gate.md), and `weeks` or `hours`, one of the two."""

    team: Name
    gpus: Gpus = Field(description="More GPUs, beside those that the work has.")
    sku: Name
    weeks: Span | Opt = None
    hours: Span | Opt = None
    starts: Annotated[str, StringConstraints(pattern=r"^\d{4}-\d{2}-\d{2}$")]
    why: Annotated[str, StringConstraints(min_length=1, max_length=WHY_MOST)]
    work: Name | Annotated[list[Name], Field(min_length=1, max_length=WORK_MOST)] = Field(
        description="The name of the runs that it is for, or runs by their ids."
    )
    growth: _Growth | Opt = Field(None, description="How many times today's work.")
    gpus_per_run: Gpus | Opt = None
    today_gpus: Gpus | Opt = None
    purchase_option: Name | Opt = None
    needed_for: Name | Opt = None
    pilot: bool = False


class CapacityAsked(Parameters):
    """A request and its profile."""

    request: RequestAsked
    profile: dict[str, Any] | None = Field(None, description=_PROFILE)


@dataclass(frozen=True, slots=True)
class Posted:
    """What was sent, as it was said: numbers are not read as another type, nor texts as numbers."""

    request: dict[str, object]
    profile: object | None


def body_schema() -> dict[str, Any]:
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
            raise BusyError("as many requests for capacity are read as may at once: come again in a moment")
        self._held += 1
        try:
            async with asyncio.timeout(RECEIVED_SECONDS):
                content = await _received(request)
            if isinstance(content, Response):
                return content
            async with self._turns:
                return await run_in_threadpool(parsed, content)
        except TimeoutError as error:
            raise BusyError(f"the body did not come within {RECEIVED_SECONDS:.0f} seconds") from error
        finally:
            self._held -= 1


async def _received(request: Request) -> bytes | Response:
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > _BODY_BYTES:
            return problem_response(413, f"a request and its profile have at most {_BODY_BYTES:,} bytes")
    return bytes(content)


def parsed(content: bytes) -> Posted | Response:
    """Return what a body says, or the answer that says what is wrong with it."""
    try:
        said = json_said(content, most_bytes=_BODY_BYTES, object_pairs_hook=once, parse_constant=_no_number)
        CapacityAsked.model_validate(said)
    except TooDeepError:
        return problem_response(422, "the body is nested too deeply")
    except TooMuchError as error:
        return problem_response(413, f"that is no request with its profile: {error}")
    except ValidationError as error:
        return problem_response(422, _sentence(said, error))
    except ValueError as error:
        return problem_response(422, f"the body is no JSON as it must be: {str(error)[:200]}")
    return Posted(said["request"], said.get("profile"))


def _sentence(said: object, error: ValidationError) -> str:
    """Say what is wrong in the gate's own words where it has some, for it knows the nearest key."""
    asked = said.get("request") if isinstance(said, dict) else None
    if isinstance(asked, dict):
        try:
            request_of("request", asked)
        except ConfigError as refused:
            return str(refused)
    fault = error.errors(include_url=False, include_input=False, include_context=False)[0]
    return f"{'.'.join(map(str, fault['loc'])) or 'the body'}: {fault['msg']}"[:400]


def _no_number(word: str) -> object:
    raise ValueError(f"{word} is no number")
