"""The lake's files as its catalogue knows them: of which table, how large, and what span of time they hold.

And one maintenance transaction where the samples are: in the lake, or in the file of a store without one.
"""

import ctypes
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from collector.errors import StoreError
from collector.store.database import Store
from collector.store.lake import CATALOGUE, tables_with_rows
from collector.store.session import Session


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of one turn of a job. `again` asks for the next turn soon: there is more than one turn may do."""

    said: str
    done: int = 0  # hours, files, rows: what the job counts
    again: bool = False


def sync(folder: Path | None) -> None:
    """Return once everything that was written to the folder's file system would survive a power cut.

    None stands for an object store, which keeps what it has accepted.

    Raises:
        StoreError: the file system says that it could not.
    """
    if folder is None:
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            _syncfs(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise StoreError(f"cannot sync {folder} to disk: {error.strerror}") from error


def _syncfs(descriptor: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "syncfs"):  # outside Linux
        os.sync()
    elif library.syncfs(descriptor):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


@contextmanager
def writing(store: Store) -> Iterator[Session]:
    """Yield a session in a transaction; its files are on the disk before the catalogue names them.

    Raises:
        StoreError: the store refused, or another's commit was in the way; nothing was kept, and later is soon enough.
    """
    with store.turn, store.session() as session, session.transaction():
        yield session
        sync(store.lake.folder if store.lake is not None else None)


def written(session: Session, tables: Iterable[str]) -> list[str]:
    """Return those of these tables of samples and tiers into which a row was ever committed; of a store without a lake
    all of them.

    A lake asks its catalogue anew for each table that a statement names, which takes longer than to find no row in it.
    In a transaction that has read of the lake before, every table that has a row for it is among them.
    """
    if not session.search_path.startswith("lake."):
        return list(tables)
    there = tables_with_rows(session, "main")
    return [table for table in tables if table in there]


@dataclass(frozen=True, slots=True)
class LakeFile:
    """One Parquet file. Its rows begin from `first` to `last`, both inclusive, by the clock of its table."""

    table: str
    name: str  # of the file, without the folder
    bytes: int
    rows: int
    first: int
    last: int
    has_deletes: bool


def files(session: Session, clocks: dict[str, str]) -> list[LakeFile]:
    """Return the files of these tables of lake.main, oldest first; `clocks` names of each the column that says when.

    Files that tell no times are left out: they have no rows.
    """
    told = ", ".join(f"('{table}', '{clock}')" for table, clock in clocks.items())
    rows = session.rows(
        f"""
        SELECT t.table_name, parse_filename(f.path), f.file_size_bytes, f.record_count, s.min_value::BIGINT,
            s.max_value::BIGINT,
            EXISTS (SELECT 1 FROM {CATALOGUE}.ducklake_delete_file d
                WHERE d.data_file_id = f.data_file_id AND d.end_snapshot IS NULL)
        FROM {CATALOGUE}.ducklake_data_file f
        JOIN {CATALOGUE}.ducklake_table t ON t.table_id = f.table_id AND t.end_snapshot IS NULL
        JOIN {CATALOGUE}.ducklake_schema h ON h.schema_id = t.schema_id AND h.schema_name = 'main'
        JOIN {CATALOGUE}.ducklake_column c ON c.table_id = f.table_id AND c.end_snapshot IS NULL
        JOIN {CATALOGUE}.ducklake_file_column_stats s ON s.data_file_id = f.data_file_id AND s.column_id = c.column_id
        JOIN (VALUES {told}) k(table_name, clock) ON k.table_name = t.table_name AND k.clock = c.column_name
        WHERE f.end_snapshot IS NULL AND s.min_value IS NOT NULL
        ORDER BY s.min_value::BIGINT, f.path
        """
    )
    return [LakeFile(*row) for row in rows]


def paths(session: Session, table: str) -> dict[str, str]:
    """Return the path of each file of a table of lake.main by its name, as this transaction sees them."""
    listed = session.rows(f"SELECT parse_filename(data_file), data_file FROM ducklake_list_files('lake', '{table}')")
    return dict(listed)


def _inlined(session: Session) -> list[tuple[str, str]]:
    """Return schema and name of every table that has rows in the catalogue itself, where small commits leave them."""
    rows = session.rows(
        f"""
        SELECT DISTINCT h.schema_name, t.table_name, i.table_name
        FROM {CATALOGUE}.ducklake_inlined_data_tables i
        JOIN {CATALOGUE}.ducklake_table t ON t.table_id = i.table_id AND t.end_snapshot IS NULL
        JOIN {CATALOGUE}.ducklake_schema h ON h.schema_id = t.schema_id AND h.end_snapshot IS NULL ORDER BY ALL
        """
    )
    each = [f'SELECT {n} WHERE EXISTS (FROM {CATALOGUE}."{kept_in}")' for n, (_, _, kept_in) in enumerate(rows)]
    # One question, since each would ask the catalogue anew.
    held = sorted(n for (n,) in session.rows(" UNION ALL ".join(each))) if each else []
    return list(dict.fromkeys(rows[n][:2] for n in held))


def flush(store: Store) -> None:
    """Write what small commits left in the catalogue into files.

    Table by table, where there is anything: of all at once DuckLake asks every table that there is.
    """
    with store.turn, store.session() as session:
        for schema, table in _inlined(session):
            session.rows(
                f"CALL ducklake_flush_inlined_data('lake', table_name => '{table}', schema_name => '{schema}')"
            )


def scattered(session: Session, most: int) -> list[tuple[str, str]]:
    """Return schema and name of every table that has more than so many files."""
    return [
        (schema, table)
        for schema, table in session.rows(
            f"""
            SELECT h.schema_name, t.table_name FROM {CATALOGUE}.ducklake_data_file f
            JOIN {CATALOGUE}.ducklake_table t ON t.table_id = f.table_id AND t.end_snapshot IS NULL
            JOIN {CATALOGUE}.ducklake_schema h ON h.schema_id = t.schema_id AND h.end_snapshot IS NULL
            WHERE f.end_snapshot IS NULL GROUP BY ALL HAVING count(*) > {most} ORDER BY ALL
            """
        )
    ]
