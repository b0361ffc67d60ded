"""Open the DuckDB store and talk to it. With migrations.py the only importer of duckdb."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from collector.errors import StoreError
from collector.store.migrations import migrate

if TYPE_CHECKING:
    import pyarrow as pa

# A log of 1 GB ingests as fast but stalls for seconds when it is folded in; 64 MB keeps answers prompt (bench/).
WAL_AUTOCHECKPOINT = "64MB"


class Session:
    """One cursor on the store: use it in one thread, close it when done."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection) -> None:
        self._cursor = cursor

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the cursor back."""
        self._cursor.close()

    def execute(self, sql: str, parameters: Sequence[object] | dict[str, object] = ()) -> None:
        """Run one statement for its effect."""
        try:
            self._cursor.execute(sql, parameters)
        except duckdb.Error as error:
            raise StoreError(f"the store refused a statement: {error}") from error

    def rows(self, sql: str, parameters: Sequence[object] | dict[str, object] = ()) -> list[tuple[Any, ...]]:
        """Run one query and return all its rows; for results that are small by design."""
        try:
            return self._cursor.execute(sql, parameters).fetchall()
        except duckdb.Error as error:
            raise StoreError(f"the store refused a query: {error}") from error

    def row(self, sql: str, parameters: Sequence[object] | dict[str, object] = ()) -> tuple[Any, ...]:
        """Run one query that always has a first row, and return it."""
        return self.rows(sql, parameters)[0]

    def arrow(self, sql: str, parameters: Sequence[object] | dict[str, object] = ()) -> "pa.Table":
        """Run one query and return its rows as an Arrow table."""
        try:
            return self._cursor.execute(sql, parameters).to_arrow_table()
        except duckdb.Error as error:
            raise StoreError(f"the store refused a query: {error}") from error

    def insert(self, table: str, rows: "pa.Table") -> None:
        """Append an Arrow table by column name; columns that it lacks become null."""
        columns = ", ".join(rows.column_names)
        self._cursor.register("arriving", rows)
        try:
            self._cursor.execute(f"INSERT INTO {table} ({columns}) SELECT {columns} FROM arriving")
        except duckdb.Error as error:
            raise StoreError(f"{table} refused {rows.num_rows} rows: {error}") from error
        finally:
            self._cursor.unregister("arriving")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit everything inside together, or nothing of it."""
        self.execute("BEGIN")
        try:
            yield
        except BaseException:
            self._cursor.rollback()
            raise
        self.execute("COMMIT")


class Store:
    """The hot DuckDB file, or a temporary store in memory where `path` is None."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection

    @classmethod
    def open(
        cls, path: Path | None, *, read_only: bool = False, memory_limit: str = "1GB", threads: int = 2
    ) -> "Store":
        """Open the store, bring its schema up to date, and return it.

        Raises:
            StoreError: the file is missing, locked by another process, or of a newer release.
        """
        config = {
            "memory_limit": memory_limit,
            "threads": str(threads),
            "wal_autocheckpoint": WAL_AUTOCHECKPOINT,
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "preserve_insertion_order": "false",
        }
        if read_only:
            del config["wal_autocheckpoint"]
            if path is None or not path.exists():
                raise StoreError(f"there is no store at {path}; make one with gpuledger serve or gpuledger demo")
        try:
            connection = duckdb.connect(str(path) if path else ":memory:", read_only=read_only, config=config)
        except duckdb.Error as error:
            raise StoreError(f"cannot open the store {path}: {error}") from error
        store = cls(connection)
        if not read_only:
            with store.session() as session:
                migrate(session)
        return store

    def session(self) -> Session:
        """Return a new cursor; each thread needs its own."""
        return Session(self._connection.cursor())

    def checkpoint(self) -> None:
        """Fold the log into the file."""
        with self.session() as session:
            session.execute("CHECKPOINT")

    def close(self) -> None:
        """Close the store; its log is folded in."""
        self._connection.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
