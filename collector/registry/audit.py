"""The audit: who changed what, and who read money or names. Entries are added; the database refuses all else."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import Connection, delete, insert, select

from agent.wire.units import DAY_US
from collector.registry.tables import AUDIT, AUDIT_DAYS, Database, columns_of, values_of

AuditKind = Literal["change", "read", "refused"]


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One entry. Of a reading, `subject` is the route and `count` how often, in the hour that begins at `at`."""

    at: int
    kind: AuditKind
    actor: str  # a key's id and name, or cli: and the user of the machine
    action: str
    subject: str
    detail: str = ""
    count: int = 1


def record(connection: Connection, entry: AuditEntry) -> None:
    """Append an entry in the transaction of what it tells: both, or neither."""
    connection.execute(insert(AUDIT).values(**values_of(entry)))


class Audit:
    """The site's audit."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, entries: Sequence[AuditEntry]) -> None:
        """Append entries."""
        if entries:
            with self._database.writing() as connection:
                connection.execute(insert(AUDIT), [values_of(entry) for entry in entries])

    def since(self, at: int, limit: int = 10_000) -> list[AuditEntry]:
        """Return the entries from then on, the oldest first, at most the newest `limit`."""
        found = select(*columns_of(AuditEntry, AUDIT)).where(AUDIT.c.at >= at)
        newest = self._database.rows(found.order_by(AUDIT.c.at.desc(), AUDIT.c.id.desc()).limit(limit))
        return [AuditEntry(*row) for row in reversed(newest)]

    def expire(self, now: int) -> int:
        """Delete what is older than the database protects, and return how many entries that were."""
        return self._database.change(delete(AUDIT).where(AUDIT.c.at < now - (AUDIT_DAYS + 1) * DAY_US))
