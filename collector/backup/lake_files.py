"""The files of a lake whose catalogue is a SQLite file: which it names, and where they lie below its data."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from collector.errors import BackupError
from collector.store.noted import NOTES

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
