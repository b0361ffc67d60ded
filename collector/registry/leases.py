"""The collectors of a site, and which of them takes the batches of which stream.

Each has a number for good, an address, and a time until which it counts as alive. A stream is one collector's at a
time, handed on when that falls silent. A lease holds for as long as its collector is alive (one row, renewed by its
heartbeat), so that 100,000 streams cost no more to keep than one. Whoever takes a stream from a silent collector gets a
higher epoch. The silent one may come back in the middle of sealing what it has: `guard` keeps its streams from being
taken while it commits, and tells which of them it still has. Clocks decide only *when* a stream may be taken, never
whether rows are stored twice.
"""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, case, insert, select, update

from collector.errors import RegistryError
from collector.registry.tables import COLLECTORS, COUNTERS, LEASES, NOBODY, Database, columns_of

_MOST = 256  # numbers fill the low byte of a batch's number


@dataclass(frozen=True, slots=True)
class Collector:
    """One collector as the others see it. Its leases hold until `alive_until`, microseconds UTC."""

    number: int
    name: str
    url: str
    alive_until: int


class Collectors:
    """The site's list of them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def claim_number(self, name: str, url: str, identity: str = "", now: int | None = None) -> int:
        """Return the number, 0 to 255, that belongs to this name for good, and note its address.

        A number is never given to another name: a store that comes back after a year may hold batches of it.
        `identity` tells the store behind the name: two stores must not number their batches alike.

        Raises:
            RegistryError: a collector of this name is alive with another identity, or 256 names have been given out.
        """
        moment = time.time_ns() // 1000 if now is None else now
        with self._database.writing() as connection:
            # One after another, or two names could be given one number.
            connection.execute(select(COUNTERS.c.value).where(COUNTERS.c.name == "collectors").with_for_update())
            rows = connection.execute(select(COLLECTORS)).all()
            own = next((row for row in rows if row.name == name), None)
            if own is None:
                number = _free({row.number for row in rows})
                values = {"number": number, "name": name, "claimed_at": moment, "alive_until": 0}
                connection.execute(insert(COLLECTORS).values(url=url, identity=identity, **values))
                return number
            if own.identity != identity and own.alive_until > moment:
                raise RegistryError(
                    f"a collector named {name!r} is running at {own.url} with another store; give each its own name"
                )
            changed = update(COLLECTORS).where(COLLECTORS.c.number == own.number)
            connection.execute(changed.values(url=url, identity=identity, claimed_at=moment))
            return int(own.number)

    def heartbeat(self, number: int, now: int, seconds: float) -> bool:
        """Stay alive, and keep every lease, until `seconds` after `now`; return whether it was alive until now.

        False means that others may have taken streams meanwhile: read `leases.held` again.
        """
        until = now + round(seconds * 1e6)
        own = update(COLLECTORS).where(COLLECTORS.c.number == number).values(alive_until=until)
        with self._database.writing() as connection:
            if connection.execute(own.where(COLLECTORS.c.alive_until > now)).rowcount:
                return True
            connection.execute(own)
            return False

    def listed(self) -> list[Collector]:
        """Return all that were ever there, by number."""
        found = select(*columns_of(Collector, COLLECTORS)).order_by(COLLECTORS.c.number)
        return [Collector(*row) for row in self._database.rows(found)]


def _free(taken: set[int]) -> int:
    free = next((number for number in range(_MOST) if number not in taken), None)
    if free is None:
        raise RegistryError(
            f"all {_MOST} collector numbers are in use; start collectors under stable names, like those of a "
            "StatefulSet, not under a new name at each start"
        )
    return free


_AT_ONCE = 500  # streams in one statement


@dataclass(frozen=True, slots=True)
class Lease:
    """Who owns a stream, and since when (microseconds UTC by the owner's clock).

    `taken_over_from` is the collector from which this very call took it, else None.
    """

    stream: str
    collector: int
    url: str
    epoch: int
    since: int
    is_mine: bool
    taken_over_from: int | None = None


class Leases:
    """The site's leases."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def acquire(self, streams: Iterable[str], collector: int, now: int) -> dict[str, Lease]:
        """Take those of these streams that nobody alive has, and return of each who has it now.

        All in one transaction; `now` is microseconds UTC. They hold for as long as the heartbeat says.

        Raises:
            RegistryError: nothing was taken.
        """
        wanted = sorted(set(streams))  # in one order, or two collectors could wait for each other
        leases: dict[str, Lease] = {}
        with self._database.writing() as connection:
            urls = dict(connection.execute(select(COLLECTORS.c.number, COLLECTORS.c.url)).all())
            for start in range(0, len(wanted), _AT_ONCE):
                leases |= self._acquired(connection, wanted[start : start + _AT_ONCE], collector, now, urls)
        return leases

    def release(self, streams: Iterable[str], collector: int) -> None:
        """Give back those of these streams that this collector has; the next to ask gets them."""
        wanted = sorted(set(streams))
        with self._database.writing() as connection:
            for start in range(0, len(wanted), _AT_ONCE):
                own = LEASES.c.stream.in_(wanted[start : start + _AT_ONCE]) & (LEASES.c.collector == collector)
                connection.execute(update(LEASES).where(own).values(collector=NOBODY))

    def held(self, collector: int) -> dict[str, int]:
        """Return the epoch of every stream that this collector has."""
        with self._database.reading() as connection:
            return _held(connection, collector, None, LEASES.c.epoch)

    @contextmanager
    def guard(self, collector: int, streams: Iterable[str] | None = None) -> Iterator[dict[str, int]]:
        """Hold this collector's streams while the block runs; give of those that it still has since when it has them.

        Nobody takes them meanwhile, even if the heartbeat is late; a process that dies lets go. Enter it just before
        the commit that must not be doubled: in SQLite all who write to the registry wait for the end of the block.

        Raises:
            RegistryError: the registry does not answer; what was to be committed must wait.
        """
        with self._database.writing() as connection:
            own = select(COLLECTORS.c.number).where(COLLECTORS.c.number == collector)
            # KEY SHARE lets the heartbeat of the same collector pass, and makes `_takeable` skip it.
            connection.execute(own.with_for_update(read=True, key_share=True))
            yield _held(connection, collector, streams, LEASES.c.since)

    def _acquired(
        self, connection: Connection, streams: list[str], collector: int, now: int, urls: dict[int, str]
    ) -> dict[str, Lease]:
        before = _owners(connection, streams)
        owners = {owner for owner, _, _ in before.values()} - {collector, NOBODY}
        free = [collector, NOBODY, *_takeable(connection, owners, now)]
        insert = self._database.insert(LEASES)
        mine = [{"stream": stream, "collector": collector, "epoch": 1, "since": now} for stream in streams]
        taken = insert.values(mine).on_conflict_do_update(
            index_elements=[LEASES.c.stream],
            set_={
                "collector": collector,
                "epoch": LEASES.c.epoch + case((LEASES.c.collector == collector, 0), else_=1),
                "since": case((LEASES.c.collector == collector, LEASES.c.since), else_=now),
            },
            where=LEASES.c.collector.in_(free),
        )
        connection.execute(taken)
        after = _owners(connection, streams)
        return {
            stream: Lease(
                stream, owner, urls.get(owner, ""), epoch, since, owner == collector, _taken_from(before, stream, owner)
            )
            for stream, (owner, epoch, since) in after.items()
        }


def _owners(connection: Connection, streams: list[str]) -> dict[str, tuple[int, int, int]]:
    """Return (owner, epoch, since) of those of these streams that somebody has had."""
    columns = (LEASES.c.stream, LEASES.c.collector, LEASES.c.epoch, LEASES.c.since)
    found = connection.execute(select(*columns).where(LEASES.c.stream.in_(streams)))
    return {stream: (owner, epoch, since) for stream, owner, epoch, since in found}


def _takeable(connection: Connection, owners: set[int], now: int) -> list[int]:
    """Return those of these collectors that are silent and not just committing; they stay locked until we are done."""
    if not owners:
        return []
    silent = COLLECTORS.c.number.in_(owners) & (COLLECTORS.c.alive_until <= now)
    found = select(COLLECTORS.c.number).where(silent).order_by(COLLECTORS.c.number)
    return list(connection.execute(found.with_for_update(skip_locked=True)).scalars())


def _held(
    connection: Connection, collector: int, streams: Iterable[str] | None, told: ColumnElement[int]
) -> dict[str, int]:
    own = select(LEASES.c.stream, told).where(LEASES.c.collector == collector)
    if streams is None:
        return dict(connection.execute(own).all())
    wanted = list(streams)
    held: dict[str, int] = {}
    for start in range(0, len(wanted), _AT_ONCE):
        some = own.where(LEASES.c.stream.in_(wanted[start : start + _AT_ONCE]))
        held |= dict(connection.execute(some).all())
    return held


def _taken_from(before: dict[str, tuple[int, int, int]], stream: str, owner: int) -> int | None:
    earlier, _, _ = before.get(stream, (NOBODY, 0, 0))
    return earlier if earlier not in (NOBODY, owner) else None
