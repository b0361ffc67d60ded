"""Keys as they rest, the join tokens that bring new hosts theirs, and of which host each GPU is.

A key is an id, a role, a scope and the hash of a secret that nobody can get back from it. The hash is one SHA-256, and
no slow one with salt: those protect what people choose. Our secrets are 256 random bits, of which no table can be made
and no guess will hit; a slow hash would only make each request slow.

A GPU is of the host that first told of it, until the operator moves it.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from sqlalchemy import Connection, Row, Select, func, insert, select, update

from collector.errors import JoinError, RegistryError
from collector.registry.audit import AuditEntry, record
from collector.registry.tables import COUNTERS, GPU_HOMES, HOSTS, JOINS, KEYS, Database, columns_of, values_of

_MOST_KEYS = 200_000  # that are open, and that a collector holds in memory; a host has one


@dataclass(frozen=True, slots=True)
class AccessKey:
    """One key without its secret. `teams` None is all, `node` is that of an agent's key; times in microseconds UTC."""

    id: str
    role: str
    name: str
    hash: str  # sha256 of the secret, in hex
    created_at: int
    created_by: str
    node: str | None = None
    teams: tuple[str, ...] | None = None
    expires_at: int | None = None
    revoked_at: int | None = None
    used_at: int | None = None  # when it last opened something, within the hour
    replaces: str | None = None  # the key whose successor it is
    joined_by: str | None = None  # the join token that brought it

    def live(self, now: int) -> bool:
        """Return whether it opens anything at this time."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


class Keys:
    """The site's keys. Each change has a number, so that a collector reads only what is new."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, key: AccessKey) -> None:
        """Add a key; the audit says that `key.created_by` did."""
        with self._database.writing() as connection:
            _insert_key(connection, key)
            record(connection, _entry(key, "add key"))

    def listed(self) -> list[AccessKey]:
        """Return all keys, the oldest first."""
        return [_key(row) for row in self._database.rows(select(KEYS).order_by(KEYS.c.created_at, KEYS.c.id))]

    def changed(self, after: int) -> tuple[list[AccessKey], int]:
        """Return what was added or changed after a change, and the number of the last change.

        Changes are numbered under one lock, so that none becomes visible after a later one.
        """
        with self._database.reading() as connection:
            last = connection.execute(select(COUNTERS.c.value).where(COUNTERS.c.name == "keys")).scalar_one()
            if last == after:
                return [], after
            new = select(KEYS).where((KEYS.c.change > after) & (KEYS.c.change <= last))
            return [_key(row) for row in connection.execute(new)], int(last)

    def revoke(self, ids: Sequence[str], now: int, by: str) -> int:
        """Close these keys for good; return how many were open."""
        with self._database.writing() as connection:
            closed = _revoke_keys(connection, ids, now)
            for key_id in ids if closed else ():
                record(connection, AuditEntry(now, "change", by, "revoke key", key_id))
            return closed

    def rotate(self, successor: AccessKey, overlap_until: int) -> None:
        """Add a successor (`replaces` says of which key); the old one goes on until then at most."""
        with self._database.writing() as connection:
            _insert_key(connection, successor)
            record(connection, _entry(successor, "rotate key"))
            old = (KEYS.c.id == successor.replaces) & (
                (KEYS.c.expires_at.is_(None)) | (KEYS.c.expires_at > overlap_until)
            )
            change = _next_change(connection)
            connection.execute(update(KEYS).where(old).values(expires_at=overlap_until, change=change))

    def used(self, ids: Sequence[str], now: int) -> None:
        """Note that these keys opened something. No change that collectors need to read."""
        self._database.change(update(KEYS).where(KEYS.c.id.in_(list(ids))).values(used_at=now))


def _insert_key(connection: Connection, key: AccessKey) -> None:
    """Add a key within a transaction."""
    if (
        connection.execute(select(func.count()).select_from(KEYS).where(KEYS.c.revoked_at.is_(None))).scalar_one()
        >= _MOST_KEYS
    ):
        raise RegistryError(
            f"there are {_MOST_KEYS:,} keys; revoke those that nobody uses: gpuledger admin access list"
        )
    values = values_of(key) | {"teams": json.dumps(key.teams) if key.teams is not None else None}
    connection.execute(insert(KEYS).values(**values, change=_next_change(connection)))


def _revoke_keys(connection: Connection, ids: Sequence[str], now: int) -> int:
    """Close keys within a transaction; return how many were open."""
    open_ones = KEYS.c.id.in_(list(ids)) & KEYS.c.revoked_at.is_(None)
    closed = update(KEYS).where(open_ones).values(revoked_at=now, change=_next_change(connection))
    return int(connection.execute(closed).rowcount)


def keys_of(connection: Connection, node: str, now: int) -> list[AccessKey]:
    """Return the live keys of a host."""
    found = select(KEYS).where((KEYS.c.node == node) & (KEYS.c.role == "agent"))
    return [key for row in connection.execute(found) if (key := _key(row)).live(now)]


def _next_change(connection: Connection) -> int:
    """Return the number of a change; who asks next waits until this transaction has ended."""
    own = COUNTERS.c.name == "keys"
    connection.execute(update(COUNTERS).where(own).values(value=COUNTERS.c.value + 1))
    return int(connection.execute(select(COUNTERS.c.value).where(own)).scalar_one())


def _entry(key: AccessKey, action: str) -> AuditEntry:
    """Return what the audit says of a new key: no more than what the list of keys shows."""
    scope = "" if key.teams is None else f" of {', '.join(key.teams)}"
    detail = f"{key.role}{scope} {key.name}" + (f", in place of {key.replaces}" if key.replaces else "")
    return AuditEntry(key.created_at, "change", key.created_by, action, key.id, detail.strip())


def _key(row: Row[tuple[object, ...]]) -> AccessKey:
    values = {name: getattr(row, name) for name in AccessKey.__slots__}
    values["teams"] = tuple(json.loads(row.teams)) if row.teams is not None else None
    return AccessKey(**values)


@dataclass(frozen=True, slots=True)
class Join:
    """One join token without its secret. `replaces`: hosts that have a key may get a new one, and lose the old."""

    id: str
    hash: str  # sha256 of the secret, in hex
    node_glob: str
    uses: int
    created_at: int
    created_by: str
    expires_at: int
    used: int = 0
    replaces: bool = False
    revoked_at: int | None = None


class Joins:
    """The site's join tokens."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, join: Join) -> None:
        """Add a join token; from then on nobody comes in without a key, not even over loopback."""
        detail = f"{join.node_glob}, {join.uses} uses" + (", replaces" if join.replaces else "")
        with self._database.writing() as connection:
            _next_change(connection)
            record(
                connection, AuditEntry(join.created_at, "change", join.created_by, "add join token", join.id, detail)
            )
            connection.execute(insert(JOINS).values(**values_of(join)))

    def listed(self) -> list[Join]:
        """Return all join tokens, the oldest first."""
        return [Join(*row) for row in self._database.rows(_joins().order_by(JOINS.c.created_at, JOINS.c.id))]

    def find(self, id: str) -> Join | None:  # noqa: A002  the field's name
        """Return one, or None."""
        rows = self._database.rows(_joins().where(JOINS.c.id == id))
        return Join(*rows[0]) if rows else None

    def revoke(self, id: str, now: int, by: str) -> int:  # noqa: A002  the field's name
        """Close a join token; return 1, or 0 where it was not open."""
        open_one = (JOINS.c.id == id) & JOINS.c.revoked_at.is_(None)
        with self._database.writing() as connection:
            closed = int(connection.execute(update(JOINS).where(open_one).values(revoked_at=now)).rowcount)
            if closed:
                record(connection, AuditEntry(now, "change", by, "revoke join token", id))
            return closed

    def enrol(self, join_id: str, key: AccessKey, node: str, now: int) -> None:
        """Add a key of a host and count the use of its join token, both or neither.

        An answer may have been lost: a key that this token brought to this host and that was never shown is replaced,
        and costs no further use.

        Raises:
            JoinError: the token is used up, over or not for this host, or the host has a key.
        """
        with self._database.writing() as connection:
            _next_change(connection)  # one after another, or a host could get two keys at once
            row = connection.execute(_joins().where(JOINS.c.id == join_id).with_for_update()).first()
            join = _checked(Join(*row) if row is not None else None, node, now)
            own = keys_of(connection, node, now)
            lost = [old.id for old in own if old.joined_by == join.id and old.used_at is None]
            _settle(connection, join, [old.id for old in own], lost, node, now)
            _insert_key(connection, replace(key, node=node, joined_by=join.id))
            record(connection, AuditEntry(now, "change", f"join:{join.id}", "enrol", key.id, node))


def _settle(connection: Connection, join: Join, own: list[str], lost: list[str], node: str, now: int) -> None:
    """Close the keys that the new one replaces, and count the use."""
    if len(lost) < len(own) and not join.replaces:
        raise JoinError(
            409, "enrolled", f"{node} has a key already; revoke that one, or use a join token created with --replace"
        )
    if own:
        _revoke_keys(connection, own, now)
    if lost:
        return
    if join.used >= join.uses:
        raise JoinError(403, "used_up", "this join token is used up; create another: gpuledger admin access join")
    connection.execute(update(JOINS).where(JOINS.c.id == join.id).values(used=JOINS.c.used + 1))


def _checked(join: Join | None, node: str, now: int) -> Join:
    if join is None or join.revoked_at is not None:
        raise JoinError(403, "join_token", "no such join token; create one: gpuledger admin access join")
    if now >= join.expires_at:
        raise JoinError(403, "expired", "this join token has expired; create another: gpuledger admin access join")
    if not fnmatchcase(node, join.node_glob):
        raise JoinError(403, "node", f"this join token is for hosts named {join.node_glob}, not for {node}")
    return join


def _joins() -> Select[Any]:
    return select(*columns_of(Join, JOINS))


MOST_GPUS = 1024  # of one host, MIG instances that are no more included: what is invented has an end
_AT_ONCE = 500  # names in one statement


class Homes:
    """The site's list of GPUs and hosts."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of(self, gpus: Collection[str]) -> dict[str, str]:
        """Return the host of each of these that is known."""
        found: dict[str, str] = {}
        names = sorted(gpus)
        with self._database.reading() as connection:
            for start in range(0, len(names), _AT_ONCE):
                part = GPU_HOMES.c.gpu_uuid.in_(names[start : start + _AT_ONCE])
                rows = connection.execute(select(GPU_HOMES.c.gpu_uuid, GPU_HOMES.c.node).where(part))
                found.update((row.gpu_uuid, row.node) for row in rows)
        return found

    def claim(self, node: str, gpus: Collection[str], now: int) -> dict[str, str]:
        """Note as this host's those that nobody has told of before; return of each that is known whose it is.

        One that is missing in the answer is one too many of this host.
        """
        with self._database.writing() as connection:
            own = select(func.count()).select_from(GPU_HOMES).where(GPU_HOMES.c.node == node)
            room = MOST_GPUS - int(connection.execute(own).scalar_one())
            new = [{"gpu_uuid": gpu, "node": node, "told_at": now} for gpu in sorted(gpus)][: max(room, 0)]
            if new:
                connection.execute(self._database.insert(GPU_HOMES).on_conflict_do_nothing(), new)
        return self.of(gpus)

    def move(self, gpu: str, node: str, now: int, by: str) -> None:
        """Say that a GPU is in another host now; what that host tells of it is believed from then on."""
        with self._database.writing() as connection:
            moved = self._database.insert(GPU_HOMES).values(gpu_uuid=gpu, node=node, told_at=now)
            connection.execute(
                moved.on_conflict_do_update(index_elements=["gpu_uuid"], set_={"node": node, "told_at": now})
            )
            record(connection, AuditEntry(now, "change", by, "move gpu", gpu, node))

    def first_heard(self, node: str, sent_at: int) -> int:
        """Return when the first batch that was ever taken of a host was sealed; this one, where there was none."""
        with self._database.writing() as connection:
            first = self._database.insert(HOSTS).values(node=node, first_sent_at=sent_at)
            connection.execute(first.on_conflict_do_nothing())
            row = connection.execute(select(HOSTS.c.first_sent_at).where(HOSTS.c.node == node)).one()
            return int(row.first_sent_at)
