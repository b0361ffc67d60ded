"""What the API says of requests for more GPUs, and the body that asks for them: bounded and parsed, each key once."""

import asyncio
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

from fastapi import Request
from pydantic import Field, StringConstraints, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from agent.wire.bounded import TooDeepError, TooMuchError, json_said
from analyzer.capacity.gate.decided import Decided, Verdict
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
from analyzer.capacity.gate.request_store import Event, KeptRequest
from analyzer.capacity.profile.canonical_json import FILE_BYTES as PROFILE_BYTES
from analyzer.errors import ConfigError
from analyzer.interfaces.api.faults import BusyError
from analyzer.interfaces.api.parameters import Opt, Paged, Parameters, Texts
from analyzer.reports.document import Document, Listing, Micros, Model, iso
from analyzer.settings.toml_entry import AND
from collector.problem import problem_response


class CapacityListAsked(Paged):
    """Which requests."""

    team: Texts = Field([])


class CapacityEventItem(Model):
    """One entry of a request's history."""

    at: Micros
    at_iso: str
    kind: Literal["decided", "waived"]
    who: str = Field(description="A key's id, or cli: and the user of the machine.")
    role: str = Field(description="The role of who said it.")
    verdict: Verdict = Field(description="That held from then on.")
    gate: str | None = Field(description="Of a waiver.")
    reason: str | None = Field(description="Of a waiver.")

    @classmethod
    def of(cls, event: Event) -> "CapacityEventItem":
        """Return an entry as the API writes it."""
        return cls.model_validate(asdict(event) | {"at_iso": iso(event.at)})


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
            history=[CapacityEventItem.of(event) for event in kept.history],
        )


class CapacityDocument(Document):
    """One request."""

    request: CapacityItem


class CapacityPage(Listing):
    """Requests, the newest first."""

    items: list[CapacityItem]


class WaiverAsked(Parameters):
    """That a gate is waived."""

    gate: str = Field(min_length=1, max_length=40, description="The gate's name.")
    reason: str = Field(min_length=1, max_length=500, description="Why; one sentence.")


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
            return str(refused).replace(AND, "; ")
    fault = error.errors(include_url=False, include_input=False, include_context=False)[0]
    return f"{'.'.join(map(str, fault['loc'])) or 'the body'}: {fault['msg']}"[:400]


def _no_number(word: str) -> object:
    raise ValueError(f"{word} is no number")
