"""One request's way to the ledger: who asks, which state of it, one snapshot, and nothing made that is known."""

import hashlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fastapi import Request
from starlette.responses import Response

from analyzer.errors import LedgerError
from analyzer.findings.finding import Finding
from analyzer.findings.health.all_notices import PeriodNotices
from analyzer.interfaces.api.parameters import (
    BusyError,
    CursorKey,
    CursorPosition,
    PeopleError,
    cursor_position,
    cursor_text,
    period_of,
)
from analyzer.ledger.coverage import EMPTY, Unjudged, unjudged
from analyzer.period import Period
from analyzer.queries.generation import ByGeneration, Generations, ReadingCache
from analyzer.queries.ledger_query import PEOPLE
from analyzer.recommendations.advise import LossSource
from analyzer.recommendations.lifecycle.lifecycle_tables import Offer
from analyzer.recommendations.recommendation import Recommendation
from analyzer.reports.document import VERSION, Document
from analyzer.reports.filtered_reader import confined
from analyzer.reports.reader import Reader
from analyzer.reports.request import LedgerFilter
from analyzer.settings.settings import Settings
from collector.registry.roles import Right
from collector.store.session import Session

if TYPE_CHECKING:
    from analyzer.findings.health.notice import Notice
    from analyzer.recommendations.lifecycle.prediction import Prediction
    from analyzer.recommendations.recommendation import Recommendation


@dataclass(frozen=True, slots=True)
class Scope:
    """Who asks: the teams that may be seen, None is all of them and what nobody held; and whether they judge.

    Whoever judges findings and decides on recommendations sees people by name, too.
    """

    teams: tuple[str, ...] | None = None
    loss_source: bool = True

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
        if not self.loss_source and PEOPLE & set(dimensions):
            raise PeopleError("users are shown only to keys with the role owner or admin; group by team instead")

    def sees(self, item: "Finding | Notice | Prediction | Recommendation") -> bool:
        """Return whether a finding, notice or recommendation may be shown; what has no team is the site's alone."""
        return self.teams is None or item.team in self.teams


_HEADERS = {"Cache-Control": "private, no-cache", "Vary": "Authorization", "X-Content-Type-Options": "nosniff"}
_NOT_MODIFIED = 304
_AT_ONCE = 8
_PATIENCE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class RequestContext:
    """The ledger as one request sees it: `session` is confined to what may be seen, within one snapshot."""

    reader: Reader
    whole: Reader  # of all teams: its findings and advice pass through `findings` and `advice` alone
    scope: Scope
    generation: str
    query: str
    kept: ReadingCache

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
            raise LedgerError(EMPTY)
        return period_of(self.reader.calendar, since, until, first, last)

    def findings(self, period: Period) -> list[Finding]:
        """Return the findings of a period that may be seen; the whole list is made once a generation."""
        return [finding for finding in self._all_findings(period) if self.scope.sees(finding)]

    def advice(self, period: Period) -> list[Recommendation]:
        """Return what is recommended now, of what may be seen."""
        return [advice for advice in self.all_advice(period) if advice.stands]

    def all_advice(self, period: Period) -> list[Recommendation]:
        """Return the recommendations of a period that may be seen, also what is held back or instead of another."""
        made = self.kept.get(
            ("advice", self.generation, period.start, period.end),
            lambda: self.whole.all_advice(self._all_findings(period), period),
        )
        return [advice for advice in made if self.scope.sees(advice)]

    def offered(self, typed: str, period: Period) -> Offer:
        """Return the reading that offers a recommendation under this id, as far as it may be seen."""
        known = Offer(self.all_advice(period), self.findings(period), period)
        if known.has(typed):
            return known
        found = self.whole.offered(typed, period)
        sees = self.scope.sees
        return Offer(
            [one for one in found.advice if sees(one)], [one for one in found.findings if sees(one)], found.period
        )

    def looked(self, period: Period) -> PeriodNotices:
        """Return the notices of a period that may be seen; what could not be judged is the whole site's to know."""
        made = self.whole.looked(period)
        if self.scope.teams is None:
            return made
        return PeriodNotices(tuple(notice for notice in made.notices if self.scope.sees(notice)), ())

    def has_looked(self, period: Period) -> bool:
        """Whether somebody has looked for notices in this state of the ledger, so that nobody waits for them."""
        return self.whole.has_looked(period)

    def unjudged(self, period: Period) -> list[Unjudged]:
        """Return every rule that lacked a signal, as the list of findings counts them; the whole site's to know."""
        if self.scope.teams is not None:
            return []
        return [*unjudged(self.whole.session, period), *self.looked(period).unjudged]

    def of_run(self, run_id: str, period: Period) -> list[Finding]:
        """Return the findings of one run in its own hours, under the ids that they have in the fleet's list."""
        found = self.whole.loss_source.findings(self.whole.session, period.start, period.end, run_id)
        return [finding for finding in found if run_id in finding.run_ids and self.scope.sees(finding)]

    def advice_for(self, found: list[Finding], period: Period) -> list[Recommendation]:
        """Return what answers these findings of one run, most saved first."""
        return self.whole.run_advice(found, period)

    def _all_findings(self, period: Period) -> list[Finding]:
        return self.whole.findings(period)


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
        self._kept = ReadingCache()
        self._turns = threading.BoundedSemaphore(at_once)
        self._patience = patience_seconds

    def answer(
        self, request: Request, make: Callable[[RequestContext], Document], *, follows_ledger: bool = True
    ) -> Response:
        """Return the document, or 304 where who asks has it; what does not change with the ledger has no ETag."""
        scope = Scope.of(request.scope)
        with self._whole() as (whole, generation):
            tag = {"ETag": _tag(generation, request, scope)} if follows_ledger else {}
            if follows_ledger and _has(request.headers, tag["ETag"]):
                return Response(status_code=_NOT_MODIFIED, headers=_HEADERS | tag)
            with self._seen(whole, scope) as own:
                document = make(self._reading(scope, _query(request, scope), whole, own, generation))
        body = document.model_dump_json(exclude_unset=True)
        return Response(body, media_type="application/json", headers=_HEADERS | tag)

    @contextmanager
    def context(self, scope: Scope, query: str = "") -> Iterator[RequestContext]:
        """Yield the ledger as this scope may see it: what pages are made from, as documents are."""
        with self._whole() as (whole, generation), self._seen(whole, scope) as own:
            yield self._reading(scope, query, whole, own, generation)

    def generation(self) -> str:
        """Return which state of the ledger is the present one."""
        with self._open() as whole:
            return self._generations.of(whole)

    @contextmanager
    def _whole(self) -> Iterator[tuple[Session, str]]:
        """Yield everything in one snapshot, and which generation of the ledger that is."""
        with self._turn(), self._open() as whole, whole.transaction():
            yield whole, self._generations.of(whole)

    def _reading(self, scope: Scope, query: str, whole: Session, own: Session, generation: str) -> RequestContext:
        reader = Reader(own, self._settings, self._loss_source)
        of_all = Reader(whole, self._settings, self._loss_source, kept=self._made)
        return RequestContext(reader, of_all, scope, generation, query, self._kept)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Wait until few enough read the ledger: each of them takes of the memory that DuckDB has."""
        if not self._turns.acquire(timeout=self._patience):
            raise BusyError("too many concurrent requests; retry in a few seconds")
        try:
            yield
        finally:
            self._turns.release()

    @contextmanager
    def _seen(self, whole: Session, scope: Scope) -> Iterator[Session]:
        """Yield what may be seen: everything, or a session of its own that sees less."""
        if scope.teams is None:
            yield whole
            return
        with confined(whole, LedgerFilter(teams=scope.teams)) as own:
            yield own


def _tag(generation: str, request: Request, scope: Scope) -> str:
    what = f"{generation} {scope} {request.url.path} {request.url.query}"
    return f'W/"{hashlib.sha256(what.encode()).hexdigest()[:24]}"'


def _has(headers: Mapping[str, str], tag: str) -> bool:
    """Whether If-None-Match names this state; weakly, as RFC 9110 has it for reading."""
    named = {part.strip().removeprefix("W/") for part in headers.get("if-none-match", "").split(",")}
    return tag.removeprefix("W/") in named


def _query(request: Request, scope: Scope) -> str:
    """Return what a cursor is bound to: the listing, what is asked of it and who may see what; not how much at once."""
    asked = sorted(
        (name, value) for name, value in request.query_params.multi_items() if name not in ("cursor", "limit")
    )
    return repr((request.url.path, asked, scope.teams))
