"""Bring a store's schema up to date: numbered SQL files, applied in one transaction with the record of them."""

from pathlib import Path
from typing import TYPE_CHECKING

from collector.errors import StoreError

if TYPE_CHECKING:
    from collector.store.session import Session

SCHEMA_DIRECTORY = Path(__file__).parent / "schema"


def available() -> list[tuple[int, Path]]:
    """Return (number, file) of every migration, ascending."""
    return sorted((int(path.name.split("_")[0]), path) for path in SCHEMA_DIRECTORY.glob("[0-9]*_*.sql"))


def _applied(session: "Session") -> set[int]:
    """Return the numbers that this store has applied; empty for a new store."""
    known = session.rows("SELECT 1 FROM duckdb_tables() WHERE table_name = 'migrations'")
    return {number for (number,) in session.rows("SELECT number FROM migrations")} if known else set()


def migrate(session: "Session") -> None:
    """Apply what is pending, in order.

    Raises:
        StoreError: the store was written by a newer release, or a migration fails; all that they did is undone.
    """
    if waiting := _pending(session):
        with session.transaction():
            for _, path in waiting:
                session.execute(path.read_text())
            numbers, names = zip(*((number, path.name) for number, path in waiting), strict=True)
            session.execute("INSERT INTO migrations SELECT unnest(?), unnest(?)", [numbers, names])


def require_current(session: "Session") -> None:
    """Check that a store which is only read needs no migration.

    Raises:
        StoreError: the store is of a newer release or of an older one.
    """
    if waiting := _pending(session):
        raise StoreError(
            f"this store lacks migration {waiting[0][0]}; start gpuledger serve on it once, which brings it up to date"
        )


def _pending(session: "Session") -> list[tuple[int, Path]]:
    """Return (number, file) of what this store has yet to apply.

    Raises:
        StoreError: the store was written by a newer release.
    """
    done = _applied(session)
    files = available()
    newer = done - {number for number, _ in files}
    if newer:
        raise StoreError(f"this store has migration {max(newer)}, which this release does not know; upgrade gpuledger")
    return [(number, path) for number, path in files if number not in done]
