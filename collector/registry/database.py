"""A connection to the registry's database: SQLite or PostgreSQL, one transaction at a time, foreign errors renamed."""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Column, Connection, Engine, Executable, QueuePool, Table, create_engine, event, text
from sqlalchemy.exc import SQLAlchemyError

from agent.log_format import without_secrets
from collector.errors import RegistryError

SCHEMA = "gpuledger"  # in PostgreSQL, where the lake's tables are neighbours
_BUSY_SECONDS = 30.0  # how long one writer waits for another
_CONNECT_SECONDS = 5
_WAL_TRIES = 50  # SQLite does not wait for the lock under which a file becomes a WAL file
_WRITES = "gpuledger_writes"


class Database:
    """The engine behind a registry. `name` is what messages call it, without any password."""

    def __init__(self, engine: Engine, name: str) -> None:
        self.name = name
        self.is_postgres = engine.dialect.name == "postgresql"
        self.prefix = f"{SCHEMA}." if self.is_postgres else ""
        self._engine = engine.execution_options(schema_translate_map={None: SCHEMA if self.is_postgres else None})

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Give a transaction that reads.

        Raises:
            RegistryError: the database does not answer, or refuses.
        """
        with self._transaction(writes=False) as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Give a transaction that writes: all of it is durable after the block, or nothing of it was done.

        In SQLite it holds the file's one write lock, so keep it short.

        Raises:
            RegistryError: the database does not answer, or refuses.
        """
        with self._transaction(writes=True) as connection:
            yield connection

    def rows(self, statement: Executable) -> Sequence[Any]:
        """Return the rows of one query. Raises as reading()."""
        with self.reading() as connection:
            return connection.execute(statement).all()

    def change(self, statement: Executable) -> int:
        """Run one statement that changes rows, and return how many those were. Raises as writing()."""
        with self.writing() as connection:
            return int(connection.execute(statement).rowcount)

    def insert(self, table: Any) -> Any:  # noqa: ANN401  two dialects, each with its own class of one form
        """Return an INSERT that knows ON CONFLICT."""
        # Here: a site without PostgreSQL need not wait for its dialect at each start, a seventh of it.
        if self.is_postgres:
            from sqlalchemy.dialects.postgresql import insert as postgres_insert

            return postgres_insert(table)
        from sqlalchemy.dialects.sqlite import insert as sqlite_insert

        return sqlite_insert(table)

    def one_at_a_time(self, connection: Connection, number: int) -> None:
        """Wait until no other transaction that asks for this number goes on; in SQLite none that writes does."""
        if self.is_postgres:
            connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": number})

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()

    @contextmanager
    def _transaction(self, *, writes: bool) -> Iterator[Connection]:
        try:
            with self._engine.connect() as plain:
                connection = plain.execution_options(**{_WRITES: writes})
                with connection.begin():
                    yield connection
        except SQLAlchemyError as error:
            raise RegistryError(f"the registry {self.name} failed: {_first_line(error)}") from error


def values_of(thing: Any) -> dict[str, Any]:  # noqa: ANN401 - a dataclass with slots, named as its columns
    """Return what is written of a thing, by the names of its columns."""
    return {name: getattr(thing, name) for name in thing.__slots__}


def columns_of(kind: type, table: Table) -> list[Column[Any]]:
    """Return the columns that a thing of this kind is made of, in its order."""
    return [table.c[name] for name in kind.__slots__]  # type: ignore[attr-defined]


def sqlite_database(path: Path | None) -> Database:
    """Return the database of a file, made with rights for its owner alone, or one in memory.

    Raises:
        RegistryError: the file cannot be made or is none of SQLite's.
    """
    name = str(path) if path else "in memory"
    # In memory there is one connection, and whoever comes second waits for it.
    size = {} if path else {"poolclass": QueuePool, "pool_size": 1, "max_overflow": 0}
    engine = create_engine(
        f"sqlite:///{path or ''}",
        connect_args={"timeout": _BUSY_SECONDS, "check_same_thread": False},
        **size,
    )
    event.listen(engine, "connect", _set_up_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    if path is not None:
        _make_file(path)
        _become_wal(engine, name)
    return Database(engine, name)


def postgres_database(conninfo: str) -> Database:
    """Return the database that a libpq connection string or URL names.

    Raises:
        RegistryError: it is no connection string.
    """
    import psycopg
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    try:
        known = conninfo_to_dict(conninfo)
        full = make_conninfo(
            conninfo,
            client_encoding="utf8",  # of a database without one, the driver gives bytes for texts
            connect_timeout=known.get("connect_timeout") or _CONNECT_SECONDS,
            application_name=known.get("application_name") or "gpuledger",
        )
    except psycopg.ProgrammingError as error:
        raise RegistryError("the registry's PostgreSQL connection string is not valid; use dbname=… host=…") from error
    name = " ".join(f"{key}={known[key]}" for key in ("host", "port", "dbname") if known.get(key))
    engine = create_engine(
        "postgresql+psycopg://",
        creator=lambda: psycopg.connect(
            full, prepare_threshold=None
        ),  # a pool of transactions forgets what is prepared
        pool_pre_ping=True,  # the server may have been restarted meanwhile
        pool_size=4,
        max_overflow=4,
        pool_timeout=_BUSY_SECONDS,
    )
    return Database(engine, name or "in PostgreSQL")


def _set_up_sqlite(connection: Any, _: object) -> None:  # noqa: ANN401  what the driver hands over
    connection.isolation_level = None  # the driver must not begin transactions by itself: we say which kind
    connection.execute("PRAGMA synchronous = FULL")  # a key that was shown, or an entry of the audit, stays


def _begin_sqlite(connection: Connection) -> None:
    # A transaction that reads first and writes later would fail where another wrote in between.
    writes = connection.get_execution_options().get(_WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _make_file(path: Path) -> None:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise RegistryError(f"cannot open the registry {path}: {error.strerror}") from error


def _become_wal(engine: Engine, name: str) -> None:
    """Let readers and one writer work side by side; the file remembers it."""
    for attempt in range(_WAL_TRIES):
        try:
            raw = engine.raw_connection()
            try:
                raw.cursor().execute("PRAGMA journal_mode = WAL")
            finally:
                raw.close()
            return
        except Exception as error:
            if "locked" not in str(error) or attempt == _WAL_TRIES - 1:
                raise RegistryError(f"the registry {name} cannot be used: {_first_line(error)}") from error
            time.sleep(0.02)


def _first_line(error: Exception) -> str:
    cause = getattr(error, "orig", None) or error
    return without_secrets((str(cause).splitlines() or [type(cause).__name__])[0])
