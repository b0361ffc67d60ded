"""One request's way to the ledger: who asks, which state of it, one snapshot, and nothing made that is known."""

import hashlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from fastapi import Request
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from agent.wire.bounded import TooMuchError, bounded_json
from analyzer.errors import ConfigError, EmptyLedgerError
from analyzer.findings.say import Statement
from analyzer.interfaces.api.parameters import (
    BusyError,
    CursorKey,
    CursorPosition,
    GoneError,
    Parameters,
    PeopleError,
    cursor_position,
    cursor_text,
    period_of,
    refusals,
)
from analyzer.period import Period
from analyzer.queries.generation import ByGeneration, Generations
from analyzer.queries.ledger_query import PEOPLE
from analyzer.recommendations.advise import LossSource
from analyzer.reports.document import VERSION, Document
from analyzer.reports.filtered_reader import filtered
from analyzer.reports.reader import Reader
from analyzer.reports.request import LedgerFilter
from analyzer.server_client import WRONG_USAGE
from analyzer.settings.settings import Settings
from collector.problem import problem_response
from collector.registry.audit import AuditEntry
from collector.registry.roles import Right
from collector.store.session import Session

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Scope:
    """Who asks: the teams that may be seen, None is all of them and what nobody held; and whether they may decide.

    Whoever judges findings and decides on recommendations sees people by name, too.
    """

    teams: tuple[str, ...] | None = None
    may_decide: bool = True

    @classmethod
    def of(cls, scope: Mapping[str, Any]) -> "Scope":
        """Return the scope of an ASGI request, which the gate has written there; without a gate it is all."""
        principal = scope.get("principal")
        if principal is None:
            return cls()
        return cls(None if principal.teams is None else tuple(sorted(principal.teams)), principal.may(Right.JUDGE))

    def check(self, dimensions: Iterable[str]) -> None:
        """See that none of these dimensions names people to who may not know them.

        Raises:
            PeopleError: one does.
        """
        if not self.may_decide and PEOPLE & set(dimensions):
            raise PeopleError("users are shown only to keys with the role owner or admin; group by team instead")


_HEADERS = {"Cache-Control": "private, no-cache", "Vary": "Authorization", "X-Content-Type-Options": "nosniff"}
_NOT_MODIFIED = 304
_AT_ONCE = 8
_PATIENCE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class RequestContext:
    """The ledger as one request sees it, within one snapshot: `reader` reads what may be seen."""

    reader: Reader
    whole: Reader  # of all teams: what is kept of judgements and decisions, and the samples, which name no team
    scope: Scope
    generation: str
    query: str

    @property
    def session(self) -> Session:
        """What may be seen."""
        return self.reader.session

    @property
    def currency(self) -> str:
        """The ledger's one currency."""
        return self.reader.settings.currency

    def head(self) -> dict[str, Any]:
        """Return what every document begins with."""
        site = self.reader.settings
        known = {"version": VERSION, "generation": self.generation}
        return {**known, "currency": site.currency, "timezone": site.timezone}

    def place(self, cursor: str | None, kinds: tuple[type, ...]) -> CursorPosition | None:
        """Return where a cursor of this listing leads."""
        return None if cursor is None else cursor_position(cursor, self.query, kinds)

    def begin(
        self, cursor: str | None, kinds: tuple[type, ...], since: str | None, until: str | None
    ) -> tuple[CursorKey | None, Period]:
        """Return after which key a page begins, None for the first, and of which period it is: its cursor's, if any.

        Raises:
            LedgerError: the ledger is empty, or there is no such period or page.
        """
        place = self.place(cursor, kinds)
        period = place.period if place and place.period else self.period(since, until)
        return place.key if place else None, period

    def page(
        self, items: Sequence[T], key: Callable[[T], CursorKey], after: CursorKey | None, period: Period, limit: int
    ) -> tuple[list[T], str | None]:
        """Return the page of a list that begins after a key, and the cursor of the next one; None on the last.

        Raises:
            GoneError: what stood before it is no longer in the list.
        """
        keys = [key(item) for item in items]
        if after is not None and after not in keys:
            raise GoneError("the list has changed: start again without a cursor")
        begin = 0 if after is None else keys.index(after) + 1
        end = min(begin + limit, len(items))
        return list(items[begin:end]), self.next(keys[end - 1], period) if end < len(items) else None

    def next(self, key: CursorKey, period: Period | None) -> str:
        """Return the cursor of the page that begins after this key."""
        return cursor_text(self.query, CursorPosition(key, period))

    def period(self, since: str | None, until: str | None) -> Period:
        """Return the period that is meant; without a word, the last complete week that the ledger knows.

        Raises:
            LedgerError: the ledger is empty, or there is no such period.
        """
        if since is None and until is None:
            return self.reader.period(None)
        first, last = self.session.row("SELECT min(hour), max(hour) + 3600000000 FROM ledger_hours")
        if first is None:
            raise EmptyLedgerError
        return period_of(self.reader.calendar, since, until, first, last)


class RequestService:
    """Answers the requests of one site."""

    def __init__(
        self,
        open_session: Callable[[], Session],
        settings: Settings,
        loss_source: LossSource | None = None,
        *,
        kept: ByGeneration | None = None,
        at_once: int = _AT_ONCE,
        patience_seconds: float = _PATIENCE_SECONDS,
    ) -> None:
        self._open = open_session
        self._settings = settings
        self._loss_source = loss_source or LossSource.own()
        self._generations = Generations(settings)
        self._made = kept or ByGeneration(self._generations)
        self._turns = threading.BoundedSemaphore(at_once)
        self._patience = patience_seconds

    def answer(
        self, request: Request, make: Callable[[RequestContext], Document], *, follows_ledger: bool = True
    ) -> Response:
        """Return the document, or 304 where who asks has it; what does not change with the ledger has no ETag."""
        scope = Scope.of(request.scope)
        with self._whole() as (whole, generation):
            tag = {"ETag": _tag(generation, request, scope)} if follows_ledger else {}
            if follows_ledger and names_tag(request.headers, tag["ETag"]):
                return Response(status_code=_NOT_MODIFIED, headers=_HEADERS | tag)
            with self._context(whole, scope, _query(request, scope), generation) as context:
                document = make(context)
        body = document.model_dump_json(exclude_unset=True)
        return Response(body, media_type="application/json", headers=_HEADERS | tag)

    @contextmanager
    def context(self, scope: Scope, query: str = "") -> Iterator[RequestContext]:
        """Yield the ledger as this scope may see it: what pages are made from, as documents are."""
        with self._whole() as (whole, generation), self._context(whole, scope, query, generation) as context:
            yield context

    def generation(self) -> str:
        """Return which state of the ledger is the present one."""
        with self._open() as whole:
            return self._generations.of(whole)

    @contextmanager
    def _whole(self) -> Iterator[tuple[Session, str]]:
        """Yield everything in one snapshot, and which generation of the ledger that is."""
        with self._turn(), self._open() as whole, whole.transaction():
            yield whole, self._generations.of(whole)

    @contextmanager
    def _context(self, session: Session, scope: Scope, query: str, generation: str) -> Iterator[RequestContext]:
        whole = Reader(session, self._settings, self._loss_source, kept=self._made)
        with filtered(whole, LedgerFilter(teams=scope.teams)) as reader:
            yield RequestContext(reader, whole, scope, generation, query)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Wait until few enough read the ledger: each of them takes of the memory that DuckDB has."""
        if not self._turns.acquire(timeout=self._patience):
            raise BusyError("too many concurrent requests; retry in a few seconds")
        try:
            yield
        finally:
            self._turns.release()


def _tag(generation: str, request: Request, scope: Scope) -> str:
    what = f"{generation} {scope} {request.url.path} {request.url.query}"
    return f'W/"{hashlib.sha256(what.encode()).hexdigest()[:24]}"'


def names_tag(headers: Mapping[str, str], tag: str) -> bool:
    """Whether If-None-Match names this state; weakly, as RFC 9110 has it for reading."""
    named = {part.strip().removeprefix("W/") for part in headers.get("if-none-match", "").split(",")}
    return tag.removeprefix("W/") in named


def _query(request: Request, scope: Scope) -> str:
    """Return what a cursor is bound to: the listing, what is asked of it and who may see what; not how much at once."""
    asked = sorted(
        (name, value) for name, value in request.query_params.multi_items() if name not in ("cursor", "limit")
    )
    return repr((request.url.path, asked, scope.teams))


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
