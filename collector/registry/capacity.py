"""Requests for more GPUs: each with its history of decisions and waivers, which is added to and never changed.

What a decision says is its maker's: here it is a text. Who asked, decided and waived is in the audit too, in the same
transaction.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection, Select, case, delete, func, insert, select, update

from agent.wire.units import DAY_US
from collector.errors import FullError, RegistryError
from collector.registry.audit import AuditEntry, record
from collector.registry.tables import CAPACITY_EVENTS, CAPACITY_REQUESTS, Database, values_of

_MOST_LISTED = 100_000
_EXPIRED_AT_ONCE = 1_000
_ONE_BY_ONE = 0x67706371  # the number of PostgreSQL's lock under which requests are added and waived
_MOST_EVENTS = 1_000  # of one request
_EventKind = Literal["decided", "waived"]


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many requests are kept of one team, and for how many days after the last entry of their history."""

    of_a_team: int = 1000
    days: int = 400


@dataclass(frozen=True, slots=True)
class PilotsSeen:
    """How many pilots of its team a decision has counted, from a moment on."""

    since: int
    count: int


@dataclass(frozen=True, slots=True)
class CapacityRequest:
    """One request. `digest` is of what was asked and of its profile; `verdict` is the one that holds now."""

    id: str
    digest: str
    team: str
    pilot: bool
    verdict: str
    asked_at: int
    asked_by: str


@dataclass(frozen=True, slots=True)
class CapacityEvent:
    """One entry of a request's history: a decision with its text, or the waiver of one gate with its reason."""

    request_id: str
    at: int
    kind: _EventKind
    who: str
    role: str
    verdict: str
    gate: str | None = None
    reason: str | None = None
    decided: str | None = None


class CapacityRequests:
    """The site's requests."""

    def __init__(self, database: Database, bounds: Bounds) -> None:
        self._database = database
        self.bounds = bounds

    def add(self, request: CapacityRequest, event: CapacityEvent, seen: PilotsSeen | None = None) -> bool:
        """Add a decision on a request, and the request where it is new: both or neither.

        False, and nothing is added, where the team has not as many pilots any more as the decision has `seen`: of two
        that are asked for at once, the second is decided again.

        Raises:
            FullError: the team has as many requests as are kept of one.
            RegistryError: another request has this id.
        """
        with self._database.writing() as connection:
            self._database.one_at_a_time(connection, _ONE_BY_ONE)
            if seen is not None and _pilots(connection, request.team, seen.since, request.id) != seen.count:
                return False
            _expire(connection, event.at, self.bounds.days)
            new = self._database.insert(CAPACITY_REQUESTS).values(**values_of(request)).on_conflict_do_nothing()
            if connection.execute(new).rowcount and _count(connection, request.team) > self.bounds.of_a_team:
                raise FullError(_full(request.team, self.bounds))
            # Who waives meanwhile waits here, and then sees that the history has gone on.
            own = select(CAPACITY_REQUESTS).where(CAPACITY_REQUESTS.c.id == request.id).with_for_update()
            there = connection.execute(own).one()
            if there.digest != request.digest:
                raise RegistryError(f"{request.id} is a different request; submit it again")
            _append(connection, event, "ask for capacity", f"{request.team}: {event.verdict}")
            return True

    def waive(self, event: CapacityEvent, after: int) -> bool:
        """Add a waiver to a request's history; False where the history has gone on since its entry number `after`."""
        with self._database.writing() as connection:
            # Two who waive at once wait for one another, and for a pilot that is being counted.
            self._database.one_at_a_time(connection, _ONE_BY_ONE)
            own = select(CAPACITY_REQUESTS.c.id).where(CAPACITY_REQUESTS.c.id == event.request_id).with_for_update()
            if connection.execute(own).first() is None or _last(connection, event.request_id) != after:
                return False
            _append(connection, event, "waive gate", f"{event.gate}: {event.reason}")
            return True

    def find(self, id: str) -> CapacityRequest | None:  # noqa: A002  the field's name
        """Return one, or None."""
        rows = self._database.rows(select(CAPACITY_REQUESTS).where(CAPACITY_REQUESTS.c.id == id))
        return CapacityRequest(*rows[0]) if rows else None

    def ids(self, beginning: str) -> list[str]:
        """Return the ids that begin so, in order, a hundred at most."""
        own = CAPACITY_REQUESTS.c.id
        found = select(own).where(own.startswith(beginning, autoescape=True)).order_by(own).limit(100)
        return [id_ for (id_,) in self._database.rows(found)]

    def listed(
        self,
        since: int,
        until: int,
        teams: Sequence[str] | None = None,
        limit: int = _MOST_LISTED,
        before: tuple[int, str] | None = None,
    ) -> list[CapacityRequest]:
        """Return those asked in a span, the newest first; of these teams alone, and before this place of the list."""
        at, own = CAPACITY_REQUESTS.c.asked_at, CAPACITY_REQUESTS.c.id
        found = select(CAPACITY_REQUESTS).where((at >= since) & (at < until))
        if teams is not None:
            found = found.where(CAPACITY_REQUESTS.c.team.in_(list(teams)))
        if before is not None:
            found = found.where((at < before[0]) | ((at == before[0]) & (own < before[1])))
        rows = self._database.rows(found.order_by(at.desc(), own.desc()).limit(limit))
        return [CapacityRequest(*row) for row in rows]

    def history(self, id: str) -> list[tuple[int, CapacityEvent]]:  # noqa: A002  the field's name
        """Return a request's history, the oldest first, each entry with its number; the last decision has its text."""
        events = CAPACITY_EVENTS.c
        own = events.request_id == id
        # Older texts stay where they are: a thousand of them would be read for every line of a list.
        last = select(func.max(events.number)).where(own & (events.kind == "decided")).scalar_subquery()
        text = case((events.number == last, events.decided))
        columns = (each for each in events if each is not events.decided)
        found: Select[Any] = select(*columns, text).where(own).order_by(events.number)
        return [(row[0], CapacityEvent(*row[1:])) for row in self._database.rows(found)]

    def pilots(self, team: str, since: int, but: str) -> int:
        """Return how many pilots of a team have passed since then, or were decided again, but the one of this id."""
        with self._database.reading() as connection:
            return _pilots(connection, team, since, but)

    def expire(self, now: int) -> int:
        """Delete the requests whose last entry is older than is kept, a bounded part of them, and return how many."""
        with self._database.writing() as connection:
            self._database.one_at_a_time(connection, _ONE_BY_ONE)
            return _expire(connection, now, self.bounds.days)


def _append(connection: Connection, event: CapacityEvent, action: str, detail: str) -> None:
    own = CAPACITY_EVENTS.c.request_id == event.request_id
    if connection.execute(select(func.count()).select_from(CAPACITY_EVENTS).where(own)).scalar_one() >= _MOST_EVENTS:
        raise RegistryError(
            f"{event.request_id} has {_MOST_EVENTS:,} entries, which is the maximum: submit a new request"
        )
    connection.execute(insert(CAPACITY_EVENTS).values(**values_of(event)))
    holds = update(CAPACITY_REQUESTS).where(CAPACITY_REQUESTS.c.id == event.request_id).values(verdict=event.verdict)
    connection.execute(holds)
    record(connection, AuditEntry(event.at, "change", event.who, action, event.request_id, detail))


def _count(connection: Connection, team: str) -> int:
    own = CAPACITY_REQUESTS.c.team == team
    return int(connection.execute(select(func.count()).select_from(CAPACITY_REQUESTS).where(own)).scalar_one())


def _full(team: str, bounds: Bounds) -> str:
    counted = f"{bounds.of_a_team:,} capacity request{'' if bounds.of_a_team == 1 else 's'}"
    return (
        f"{team} has {counted}, the maximum per team (capacity_requests); each is removed {bounds.days:,} "
        f"days after its last entry (capacity_days)"
    )


def _pilots(connection: Connection, team: str, since: int, but: str) -> int:
    table, event = CAPACITY_REQUESTS.c, CAPACITY_EVENTS.c
    wanted = (table.team == team) & table.pilot & (table.verdict == "PASS") & (table.id != but)
    lately = select(event.number).where((event.request_id == table.id) & (event.at >= since)).exists()
    found = select(func.count()).select_from(CAPACITY_REQUESTS).where(wanted & lately)
    return int(connection.execute(found).scalar_one())


def _expire(connection: Connection, now: int, days: int) -> int:
    """Delete old requests with their histories; what was asked, decided and waived stays in the audit for its time."""
    before, request, event = now - days * DAY_US, CAPACITY_REQUESTS.c, CAPACITY_EVENTS.c
    later = select(event.number).where((event.request_id == request.id) & (event.at >= before)).exists()
    found = select(request.id).where((request.asked_at < before) & ~later).order_by(request.asked_at)
    old = [id_ for (id_,) in connection.execute(found.limit(_EXPIRED_AT_ONCE))]
    if old:
        connection.execute(delete(CAPACITY_EVENTS).where(event.request_id.in_(old)))
        connection.execute(delete(CAPACITY_REQUESTS).where(request.id.in_(old)))
        told = f"{len(old):,} without an entry for {days:,} days"
        record(connection, AuditEntry(now, "change", "gpuledger", "forget capacity requests", "capacity", told))
    return len(old)


def _last(connection: Connection, id_: str) -> int:
    last = select(func.max(CAPACITY_EVENTS.c.number)).where(CAPACITY_EVENTS.c.request_id == id_)
    return int(connection.execute(last).scalar_one() or 0)
