"""Bring a store's schema up to date: numbered SQL files, each applied in one transaction with the record of it."""

from pathlib import Path
from typing import TYPE_CHECKING

from collector.errors import StoreError

if TYPE_CHECKING:
    from collector.store.database import Session

SCHEMA_DIRECTORY = Path(__file__).parent.parent / "schema"


def available() -> list[tuple[int, Path]]:
    """Return (number, file) of every migration, ascending."""
    return sorted((int(path.name.split("_")[0]), path) for path in SCHEMA_DIRECTORY.glob("[0-9]*_*.sql"))


def applied(session: "Session") -> set[int]:
    """Return the numbers that this store has applied; empty for a new store."""
    known = session.rows("SELECT 1 FROM duckdb_tables() WHERE table_name = 'migrations'")
    return {number for (number,) in session.rows("SELECT number FROM migrations")} if known else set()


def migrate(session: "Session") -> None:
    """Apply what is pending, in order.

    Raises:
        StoreError: the store was written by a newer release, or a migration fails.
    """
    done = applied(session)
    files = available()
    newer = done - {number for number, _ in files}
    if newer:
        raise StoreError(f"this store has migration {max(newer)}, which this release does not know; upgrade gpuledger")
    for number, path in files:
        if number in done:
            continue
        with session.transaction():
            session.execute(path.read_text())
            session.execute("INSERT INTO migrations VALUES (?, ?)", [number, path.name])
