"""The registry of one site, in one object; open it once a process."""

from pathlib import Path

from collector.registry.alarms import Alarms
from collector.registry.audit import Audit
from collector.registry.capacity import Bounds, CapacityRequests
from collector.registry.keys import Homes, Joins, Keys
from collector.registry.leases import Collectors, Leases
from collector.registry.mails import Mails
from collector.registry.tables import Database, migrate, postgres_database, sqlite_database

_SUFFIX = ".registry.sqlite"  # of the file beside a store
_POSTGRES = ("postgres:", "postgresql://", "postgres://")


class Registry:
    """What the site's collectors agree on. Safe to use from several threads."""

    def __init__(self, database: Database, bounds: Bounds) -> None:
        self.name = database.name
        self.collectors = Collectors(database)
        self.leases = Leases(database)
        self.keys = Keys(database)
        self.joins = Joins(database)
        self.homes = Homes(database)
        self.audit = Audit(database)
        self.mails = Mails(database)
        self.alarms = Alarms(database)
        self.capacity = CapacityRequests(database, bounds)
        self._database = database

    def close(self) -> None:
        """Close its connections."""
        self._database.close()

    def __enter__(self) -> "Registry":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_registry(where: str | Path | None, bounds: Bounds | None = None) -> Registry:
    """Open the registry and bring its schema up to date.

    `where` is a file, `postgres:dbname=… host=…` or a URL of PostgreSQL, or None for one in memory. `bounds` are
    those of what it keeps of capacity requests.

    Raises:
        RegistryError: it cannot be opened, or is of a newer release.
    """
    database = _database(where)
    try:
        migrate(database)
    except BaseException:
        database.close()
        raise
    return Registry(database, bounds or Bounds())


def registry_file(store: Path | None) -> Path | None:
    """Return the file of the registry that belongs to a store's file."""
    return store.with_name(store.name + _SUFFIX) if store is not None else None


def _database(where: str | Path | None) -> Database:
    if not isinstance(where, str) or not where.startswith(_POSTGRES):
        return sqlite_database(Path(where) if where is not None else None)
    url = where.startswith(_POSTGRES[1:])
    return postgres_database(where if url else where.removeprefix(_POSTGRES[0]))
