"""Keys as they rest: an id, a role, a scope and the hash of a secret that nobody can get back from it.

The hash is one SHA-256, and no slow one with salt: those protect what people choose. Our secrets are 256 random bits,
of which no table can be made and no guess will hit; a slow hash would only make each request slow.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, Row, func, insert, select, update

from collector.errors import RegistryError
from collector.registry.audit import AuditEntry, record
from collector.registry.database import Database
from collector.registry.tables import COUNTERS, KEYS

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
            insert_key(connection, key)
            record(connection, _entry(key, "add key"))

    def listed(self) -> list[AccessKey]:
        """Return all keys, the oldest first."""
        with self._database.reading() as connection:
            return [_key(row) for row in connection.execute(select(KEYS).order_by(KEYS.c.created_at, KEYS.c.id))]

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
            closed = revoke_keys(connection, ids, now)
            for key_id in ids if closed else ():
                record(connection, AuditEntry(now, "change", by, "revoke key", key_id))
            return closed

    def rotate(self, successor: AccessKey, overlap_until: int) -> None:
        """Add a successor (`replaces` says of which key); the old one goes on until then at most."""
        with self._database.writing() as connection:
            insert_key(connection, successor)
            record(connection, _entry(successor, "rotate key"))
            old = (KEYS.c.id == successor.replaces) & (
                (KEYS.c.expires_at.is_(None)) | (KEYS.c.expires_at > overlap_until)
            )
            change = next_change(connection)
            connection.execute(update(KEYS).where(old).values(expires_at=overlap_until, change=change))

    def used(self, ids: Sequence[str], now: int) -> None:
        """Note that these keys opened something. No change that collectors need to read."""
        with self._database.writing() as connection:
            connection.execute(update(KEYS).where(KEYS.c.id.in_(list(ids))).values(used_at=now))


def insert_key(connection: Connection, key: AccessKey) -> None:
    """Add a key within a transaction."""
    if (
        connection.execute(select(func.count()).select_from(KEYS).where(KEYS.c.revoked_at.is_(None))).scalar_one()
        >= _MOST_KEYS
    ):
        raise RegistryError(
            f"there are {_MOST_KEYS:,} keys; revoke those that nobody uses: gpuledger admin access list"
        )
    values = {name: getattr(key, name) for name in AccessKey.__slots__}
    values["teams"] = json.dumps(key.teams) if key.teams is not None else None
    connection.execute(insert(KEYS).values(**values, change=next_change(connection)))


def revoke_keys(connection: Connection, ids: Sequence[str], now: int) -> int:
    """Close keys within a transaction; return how many were open."""
    open_ones = KEYS.c.id.in_(list(ids)) & KEYS.c.revoked_at.is_(None)
    closed = update(KEYS).where(open_ones).values(revoked_at=now, change=next_change(connection))
    return int(connection.execute(closed).rowcount)


def keys_of(connection: Connection, node: str, now: int) -> list[AccessKey]:
    """Return the live keys of a host."""
    found = select(KEYS).where((KEYS.c.node == node) & (KEYS.c.role == "agent"))
    return [key for row in connection.execute(found) if (key := _key(row)).live(now)]


def next_change(connection: Connection) -> int:
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
