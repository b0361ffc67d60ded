"""What is noted of every file of the lake: its hash when it was written, and when it was last found as it was.

It lies in the lake's catalogue, beside DuckLake's own tables: whoever has the catalogue, a backup too, has the hashes
of the files that it names. A file is read whole apart from every store: a damaged one can end DuckDB's connection for
good.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb

from collector.store.lake import CATALOGUE
from collector.store.session import OpenStore, Session, literal, spare_the_search

_MEMORY = "256MB"


def unreadable(path: Path) -> str | None:
    """Return in a few words why a Parquet file cannot be read to its end, every value of it; None where it can."""
    spare_the_search()
    config: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": _MEMORY,
        "threads": "1",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "preserve_insertion_order": "false",
    }
    connection = duckdb.connect(":memory:", config=config)
    try:
        connection.execute(f"SELECT bit_xor(hash(f)) FROM read_parquet({literal(path)}) f").fetchall()
    except duckdb.OutOfMemoryException:
        return None  # its bytes ask for more than we give: that tells nothing of the file
    except duckdb.Error as error:
        return str(error).splitlines()[0]
    finally:
        connection.close()
    return None


NOTES, LOST = "gpuledger_files", "gpuledger_lost"
_TABLES = {
    NOTES: "name VARCHAR, sha256 VARCHAR, checked_at BIGINT, trouble VARCHAR",
    LOST: "table_name VARCHAR, name VARCHAR, first_at BIGINT, last_at BIGINT, row_count BIGINT, reason VARCHAR, "
    "recorded_at BIGINT",
}


@dataclass(frozen=True, slots=True)
class Named:
    """A file that the catalogue names, and what is noted of it. `path` is below the data's folder, unless absolute.

    `sha256` is None where it was not noted yet, `trouble` where it was as it had been written at `checked_at`.
    """

    table: str
    path: Path
    bytes: int
    begun: int  # the snapshot that brought it
    sha256: str | None
    checked_at: int  # microseconds UTC; 0 is never
    trouble: str | None

    @property
    def name(self) -> str:
        """Its name without folders, which no other file has."""
        return self.path.name


@dataclass(frozen=True, slots=True)
class Note:
    """What a look at a file has to say."""

    name: str
    sha256: str | None
    checked_at: int
    trouble: str | None


def make_notes(session: Session) -> None:
    """Make the tables of notes in the catalogue, where they are missing."""
    for table, columns in _TABLES.items():
        if not is_there(session, table):
            session.execute(f"CREATE TABLE IF NOT EXISTS {CATALOGUE}.{table} ({columns})")


def is_there(session: Session, table: str) -> bool:
    """Say whether the catalogue has a table of notes: an older release made none, and a store may have no lake.

    DuckDB lists no table of a catalogue; so it is asked.
    """
    return session.rows_if_there(f"SELECT 1 FROM {CATALOGUE}.{table} LIMIT 0") is not None


_NAMED = f"""
WITH named AS (
    SELECT table_id, path, file_size_bytes, begin_snapshot FROM {CATALOGUE}.ducklake_data_file
    UNION ALL SELECT table_id, path, file_size_bytes, begin_snapshot FROM {CATALOGUE}.ducklake_delete_file
), folders AS (
    SELECT DISTINCT t.table_id, t.table_name, t.path AS folder, s.path AS above
    FROM {CATALOGUE}.ducklake_table t JOIN {CATALOGUE}.ducklake_schema s USING (schema_id)
)
SELECT d.table_name, d.above, d.folder, f.path, f.file_size_bytes, f.begin_snapshot, n.sha256,
    coalesce(n.checked_at, 0), n.trouble
FROM named f JOIN folders d USING (table_id) LEFT JOIN {{notes}} n ON n.name = parse_filename(f.path)
WHERE f.begin_snapshot > {{since}} ORDER BY f.begin_snapshot DESC, f.path
"""
_NO_NOTES = "(SELECT NULL::VARCHAR AS name, NULL::VARCHAR AS sha256, 0 AS checked_at, NULL::VARCHAR AS trouble LIMIT 0)"


def named_files(session: Session, *, since: int = -1) -> list[Named]:
    """Return every file that the catalogue names and that a snapshot after `since` has brought, the newest first."""
    rows = session.rows_if_there(_NAMED.format(notes=f"{CATALOGUE}.{NOTES}", since=since))
    if rows is None:  # none was ever noted
        rows = session.rows(_NAMED.format(notes=_NO_NOTES, since=since))
    files = (
        Named(table, Path(above or "") / (folder or "") / path, size, begun, *rest)
        for table, above, folder, path, size, begun, *rest in rows
    )
    return list({file.path: file for file in files}.values())


_PATHS = f"""
SELECT s.path, t.path, f.path FROM (
    SELECT table_id, path FROM {CATALOGUE}.ducklake_data_file
    UNION ALL SELECT table_id, path FROM {CATALOGUE}.ducklake_delete_file
) f JOIN {CATALOGUE}.ducklake_table t USING (table_id) JOIN {CATALOGUE}.ducklake_schema s USING (schema_id)
"""


def paths_of_files(session: Session) -> list[Path]:
    """Return where every file lies that the catalogue names, as `Named.path`; each opening asks it."""
    return [Path(above or "", folder or "", path) for above, folder, path in session.rows(_PATHS)]


@dataclass(frozen=True, slots=True)
class Lost:
    """Rows that the lake has lost. `first_at` and `last_at` are None where the file told no times; inclusive."""

    table: str
    name: str
    first_at: int | None
    last_at: int | None
    rows: int | None
    reason: str
    recorded_at: int


def lost(session: Session) -> list[Lost]:
    """Return what was set aside, the oldest first; nothing of a store without a lake."""
    if not is_there(session, LOST):
        return []
    return [Lost(*row) for row in session.rows(f"SELECT * FROM {CATALOGUE}.{LOST} ORDER BY recorded_at, name")]


def write_lost(session: Session, part: Lost) -> None:
    """Write down rows that the lake has lost, within the caller's transaction."""
    session.execute(
        f"INSERT INTO {CATALOGUE}.{LOST} VALUES (?, ?, ?, ?, ?, ?, ?)",
        [part.table, part.name, part.first_at, part.last_at, part.rows, part.reason, part.recorded_at],
    )


def write_notes(store: OpenStore, notes: Sequence[Note]) -> None:
    """Write down what was seen of these files, in place of what was noted before."""
    if not notes:
        return
    with store.turn, store.session() as session, session.transaction():
        make_notes(session)
        names = [note.name for note in notes]
        session.execute(f"DELETE FROM {CATALOGUE}.{NOTES} WHERE list_contains(?, name)", [names])
        for note in notes:
            row = [note.name, note.sha256, note.checked_at, note.trouble]
            session.execute(f"INSERT INTO {CATALOGUE}.{NOTES} VALUES (?, ?, ?, ?)", row)


def forget_unnamed(store: OpenStore) -> None:
    """Forget what is noted of files that the catalogue names no more."""
    with store.turn, store.session() as session, session.transaction():
        if not is_there(session, NOTES):
            return
        named = {file.name for file in named_files(session)}
        known = {name for (name,) in session.rows(f"SELECT name FROM {CATALOGUE}.{NOTES}")}
        if gone := sorted(known - named):
            session.execute(f"DELETE FROM {CATALOGUE}.{NOTES} WHERE list_contains(?, name)", [gone])


def newest_snapshot(session: Session) -> int:
    """Return the number of the lake's newest snapshot."""
    (newest,) = session.row(f"SELECT coalesce(max(snapshot_id), -1) FROM {CATALOGUE}.ducklake_snapshot")
    return int(newest)
