"""What a copy of a store has in it, without changing a byte of it.

Its hot file is opened as it lies, its catalogue from a copy of the copy. Of a lake whose catalogue is a SQLite file:
which files that names, and where they lie below its data.
"""

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from collector.backup.manifest import Layout
from collector.errors import BackupError
from collector.store.database import Store
from collector.store.lake import LakeSettings, tables_with_rows
from collector.store.noted import NOTES
from collector.store.session import Session

_FILES = """
SELECT s.path, s.path_is_relative, t.path, t.path_is_relative, f.path, f.path_is_relative
FROM (SELECT table_id, path, path_is_relative FROM ducklake_data_file
      UNION SELECT table_id, path, path_is_relative FROM ducklake_delete_file) f
JOIN ducklake_table t USING (table_id) JOIN ducklake_schema s USING (schema_id)
"""


def named_files(catalogue: Path) -> list[Path]:
    """Return the paths, below the data's folder, of all files that a copy of a catalogue names, old snapshots' too.

    Only a copy may be asked, in a file that nobody else has open.

    Raises:
        BackupError: it is no catalogue, or it names files outside the data's folder.
    """
    with _read(catalogue) as read:
        return sorted({_below(row) for row in _rows(read)})


def noted_hashes(catalogue: Path) -> dict[str, str]:
    """Return the hashes that a copy of a catalogue notes, by the names of the files; that of an older release has none.

    Raises:
        BackupError: it is no catalogue.
    """
    with _read(catalogue) as read:
        if not read.execute("SELECT 1 FROM sqlite_master WHERE name = ?", [NOTES]).fetchall():
            return {}
        return dict(read.execute(f"SELECT name, sha256 FROM {NOTES} WHERE sha256 IS NOT NULL"))


@contextmanager
def _read(catalogue: Path) -> Iterator[sqlite3.Connection]:
    """Give a connection that changes nothing; what SQLite says of a file that is none is said of the catalogue."""
    try:
        with closing(sqlite3.connect(f"{catalogue.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as read:
            yield read
    except sqlite3.Error as error:
        raise BackupError(f"{catalogue} cannot be read as a catalogue: {error}") from error


def _rows(read: sqlite3.Connection) -> Iterator[tuple[str, int, str, int, str, int]]:
    yield from read.execute(_FILES)


def _below(row: tuple[str, int, str, int, str, int]) -> Path:
    schema, schema_relative, table, table_relative, file, file_relative = row
    path = Path(schema) / table / file
    if not (schema_relative and table_relative and file_relative) or path.is_absolute() or ".." in path.parts:
        raise BackupError(f"the lake has a file outside its own folder, which is not backed up: {file}")
    return path


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
