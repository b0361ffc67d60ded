"""Join tokens: what a new host shows once, to get a key of its own."""

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from sqlalchemy import Connection, Row, insert, select, update

from collector.errors import JoinError
from collector.registry.audit import AuditEntry, record
from collector.registry.database import Database
from collector.registry.keys import AccessKey, insert_key, keys_of, next_change, revoke_keys
from collector.registry.tables import JOINS


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
            next_change(connection)
            record(
                connection, AuditEntry(join.created_at, "change", join.created_by, "add join token", join.id, detail)
            )
            connection.execute(insert(JOINS).values(**{name: getattr(join, name) for name in Join.__slots__}))

    def listed(self) -> list[Join]:
        """Return all join tokens, the oldest first."""
        with self._database.reading() as connection:
            return [_join(row) for row in connection.execute(select(JOINS).order_by(JOINS.c.created_at, JOINS.c.id))]

    def find(self, id: str) -> Join | None:  # noqa: A002  the field's name
        """Return one, or None."""
        with self._database.reading() as connection:
            row = connection.execute(select(JOINS).where(JOINS.c.id == id)).first()
            return _join(row) if row is not None else None

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
            next_change(connection)  # one after another, or a host could get two keys at once
            row = connection.execute(select(JOINS).where(JOINS.c.id == join_id).with_for_update()).first()
            join = _checked(_join(row) if row is not None else None, node, now)
            own = keys_of(connection, node, now)
            lost = [old.id for old in own if old.joined_by == join.id and old.used_at is None]
            _settle(connection, join, [old.id for old in own], lost, node, now)
            insert_key(connection, replace(key, node=node, joined_by=join.id))
            record(connection, AuditEntry(now, "change", f"join:{join.id}", "enrol", key.id, node))


def _settle(connection: Connection, join: Join, own: list[str], lost: list[str], node: str, now: int) -> None:
    """Close the keys that the new one replaces, and count the use."""
    if len(lost) < len(own) and not join.replaces:
        raise JoinError(
            409, "enrolled", f"{node} has a key already; revoke that one, or use a join token made with --replace"
        )
    if own:
        revoke_keys(connection, own, now)
    if lost:
        return
    if join.used >= join.uses:
        raise JoinError(403, "used_up", "this join token is used up; make another: gpuledger admin access join")
    connection.execute(update(JOINS).where(JOINS.c.id == join.id).values(used=JOINS.c.used + 1))


def _checked(join: Join | None, node: str, now: int) -> Join:
    if join is None or join.revoked_at is not None:
        raise JoinError(403, "join_token", "no such join token; make one: gpuledger admin access join")
    if now >= join.expires_at:
        raise JoinError(403, "expired", "this join token is over; make another: gpuledger admin access join")
    if not fnmatchcase(node, join.node_glob):
        raise JoinError(403, "node", f"this join token is for hosts named {join.node_glob}, not for {node}")
    return join


def _join(row: Row[tuple[object, ...]]) -> Join:
    return Join(**{name: getattr(row, name) for name in Join.__slots__})
