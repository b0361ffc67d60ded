"""Open a copy without changing a byte of it: the hot file as it lies, the catalogue from a copy of the copy."""

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from collector.backup.layout import Layout
from collector.store.database import Store
from collector.store.lake import LakeSettings, tables_with_rows
from collector.store.session import Session

_MEMORY, _THREADS = "256MB", 1


@contextmanager
def open_backup(copy: Layout) -> Iterator[Store]:
    """Give the store of a backup, read-only; it may have been moved since it was made.

    Raises:
        StoreError: it cannot be opened.
    """
    with tempfile.TemporaryDirectory(prefix="gpuledger-backup-") as folder:
        lake = None
        if copy.catalogue.exists():
            catalogue = Path(folder) / "catalogue.sqlite"
            shutil.copyfile(copy.catalogue, catalogue)
            point(catalogue, copy.data)
            lake = LakeSettings(f"sqlite:{catalogue}", str(copy.data))
        with Store.open(copy.store, lake=lake, read_only=True, memory_limit=_MEMORY, threads=_THREADS) as store:
            yield store


def point(catalogue: Path, data: Path) -> None:
    """Write into a catalogue that nobody has open where its data lie now."""
    with closing(sqlite3.connect(catalogue)) as written, written:
        written.execute("UPDATE ducklake_metadata SET value = ? WHERE key = 'data_path'", [f"{data}/"])


def lake_rows(copy: Layout) -> dict[str, int]:
    """Return the rows of each table of a copy's lake, as a reader counts them.

    Those into which nobody ever wrote have none, and are not asked: most tables of a site.
    """
    with open_backup(copy) as store, store.session() as session:
        tables = session.rows(
            "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = 'lake' ORDER BY ALL"
        )
        filled = {schema: tables_with_rows(session, schema) for schema in {schema for schema, _ in tables}}
        places = {f"{schema}.{table}": f"lake.{schema}.{table}" for schema, table in tables if table in filled[schema]}
        counts = _counted(session, places)
        return {name: counts.get(name, 0) for name in (f"{schema}.{table}" for schema, table in tables)}


def hot_rows(copy: Layout, tables: Iterator[str] | list[str]) -> dict[str, int]:
    """Return the rows of these tables of a copy's hot file."""
    with open_backup(copy) as store, store.hot_session() as session:
        return _counted(session, {table: table for table in tables})


def _counted(session: Session, places: Mapping[str, str]) -> dict[str, int]:
    """Return the rows of each table, by its name: one question, since each would ask the catalogue anew."""
    if not places:
        return {}
    each = (f"SELECT '{name}', count(*) FROM {place}" for name, place in places.items())
    counts = dict(session.rows(" UNION ALL ".join(each)))
    return {name: counts[name] for name in places}
