"""The registry's tables, once: what statements name, and the versions in which they are made.

Each version is applied in one transaction with the record of it. Times are microseconds UTC. The database is SQLite or
PostgreSQL: one transaction at a time, foreign errors renamed.
"""

import os
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Engine,
    Executable,
    Identity,
    Index,
    Integer,
    MetaData,
    QueuePool,
    String,
    Table,
    UniqueConstraint,
    create_engine,
    event,
    text,
)
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.schema import CreateIndex, CreateTable

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
        # Who never closes it leaves no connection open: from 3.13 on Python complains of SQLite's.
        weakref.finalize(self, engine.dispose).atexit = False

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


NOBODY = -1  # the owner of a stream that was given back

_METADATA = MetaData()


def _text(name: str, **options: Any) -> Column[str]:  # noqa: ANN401 - as Column takes them
    return Column(name, String, **{"nullable": False} | options)


def _number(name: str, **options: Any) -> Column[int]:  # noqa: ANN401 - as Column takes them
    return Column(name, BigInteger, **{"nullable": False} | options)


def _few(name: str, **options: Any) -> Column[int]:  # noqa: ANN401 - as Column takes them
    return Column(name, Integer, **{"nullable": False} | options)


def _yes(name: str) -> Column[bool]:
    return Column(name, Boolean, nullable=False)


def _key(name: str = "id") -> Column[str]:
    return Column(name, String, primary_key=True)


def _serial(name: str) -> Column[int]:
    """Return a number that counts by itself."""
    return Column(name, BigInteger().with_variant(Integer, "sqlite"), Identity(always=True), primary_key=True)


COLLECTORS = Table(
    "collectors",
    _METADATA,
    Column("number", Integer, primary_key=True, autoincrement=False),
    _text("name", unique=True),
    _text("url"),
    _text("identity"),
    _number("claimed_at"),
    _number("alive_until"),
)
LEASES = Table(
    "leases",
    _METADATA,
    _key("stream"),
    _few("collector"),
    _number("epoch"),
    _number("since"),
    Index("leases_by_collector", "collector"),
)
KEYS = Table(
    "keys",
    _METADATA,
    _key(),
    _text("role"),
    _text("name"),
    _text("hash"),
    _text("node", nullable=True),
    _text("teams", nullable=True),
    _number("created_at"),
    _text("created_by"),
    _number("expires_at", nullable=True),
    _number("revoked_at", nullable=True),
    _number("used_at", nullable=True),
    _text("replaces", nullable=True),
    _text("joined_by", nullable=True),
    _number("change"),
    Index("keys_by_change", "change"),
    Index("keys_by_node", "node"),
)
JOINS = Table(
    "joins",
    _METADATA,
    _key(),
    _text("hash"),
    _text("node_glob"),
    _number("uses"),
    _number("used"),
    _yes("replaces"),
    _number("created_at"),
    _text("created_by"),
    _number("expires_at"),
    _number("revoked_at", nullable=True),
)
COUNTERS = Table("counters", _METADATA, _key("name"), _number("value"))
AUDIT = Table(
    "audit",
    _METADATA,
    _serial("id"),
    _number("at"),
    _text("kind"),
    _text("actor"),
    _text("action"),
    _text("subject"),
    _text("detail"),
    _number("count"),
    Index("audit_by_time", "at"),
    sqlite_autoincrement=True,
)
CAPACITY_REQUESTS = Table(
    "capacity_requests",
    _METADATA,
    _key(),
    _text("digest"),
    _text("team"),
    _yes("pilot"),
    _text("verdict"),
    _number("asked_at"),
    _text("asked_by"),
    Index("capacity_by_time", "asked_at"),
)
CAPACITY_EVENTS = Table(
    "capacity_events",
    _METADATA,
    _serial("number"),
    _text("request_id"),
    _number("at"),
    _text("kind"),
    _text("who"),
    _text("role"),
    _text("verdict"),
    _text("gate", nullable=True),
    _text("reason", nullable=True),
    _text("decided", nullable=True),
    Index("capacity_events_by_request", "request_id"),
    sqlite_autoincrement=True,
)
MAIL_SECRETS = Table("mail_secrets", _METADATA, _key("name"), _text("value"))
MAIL_SUBSCRIPTIONS = Table(  # who gets which mails, and who has stopped them
    "mail_subscriptions",
    _METADATA,
    _key(),
    _text("list"),
    _text("address"),
    _number("created_at"),
    _number("stopped_at", nullable=True),
    _text("stopped_by", nullable=True),
    UniqueConstraint("list", "address"),
)
MAIL_SENDS = Table(  # what was sent, and what waits
    "mail_sends",
    _METADATA,
    _key("subscription"),
    _key("period"),
    _text("state"),
    _number("period_end"),
    _number("made_at"),
    _few("attempts"),
    _few("lost"),
    _number("next_at"),
    _number("claimed_at", nullable=True),
    _number("done_at", nullable=True),
    _text("told"),
    _text("body", nullable=True),
    Index("mail_sends_by_state", "state", "next_at"),
)
ALARMS = Table(  # which are open, and which were said
    "alarms",
    _METADATA,
    _key(),
    Column("opened_at", BigInteger, primary_key=True, autoincrement=False),
    _text("team", nullable=True),
    _yes("urgent"),
    _number("said_at", nullable=True),
    _number("ended_at", nullable=True),
    _text("body"),
    Index("alarms_by_end", "ended_at"),
)
Index(
    "alarms_lasting",
    ALARMS.c.id,
    unique=True,
    sqlite_where=ALARMS.c.ended_at.is_(None),
    postgresql_where=ALARMS.c.ended_at.is_(None),
)
ALARM_POSTS = Table(  # what waits for the webhook
    "alarm_posts",
    _METADATA,
    _key(),
    _text("state"),
    _number("made_at"),
    _few("attempts"),
    _number("next_at"),
    _number("done_at", nullable=True),
    _text("told"),
    _text("body", nullable=True),
    Index("alarm_posts_by_state", "state", "next_at"),
)
GPU_HOMES = Table(
    "gpu_homes", _METADATA, _key("gpu_uuid"), _text("node"), _number("told_at"), Index("gpu_homes_by_node", "node")
)
HOSTS = Table("hosts", _METADATA, _key("node"), _number("first_sent_at"))


AUDIT_DAYS = 400  # an entry of the audit cannot be deleted before; by then a year's review has seen it
_MIGRATING = 0x67706C65  # the number of PostgreSQL's lock under which one process migrates

# `{p}` is the schema's prefix; the rest is SQL that both understand.
_COUNTERS = ("INSERT INTO {p}counters VALUES ('keys', 0), ('collectors', 0)",)
_SQLITE_GUARDS = (
    "CREATE TRIGGER audit_stands BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END",
    # What REPLACE takes away fires no trigger for deletes.
    "CREATE TRIGGER audit_keeps BEFORE INSERT ON audit WHEN EXISTS (SELECT 1 FROM audit WHERE id = new.id) "
    "BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END",
    f"CREATE TRIGGER audit_stays BEFORE DELETE ON audit "
    f"WHEN old.at > (CAST(strftime('%s', 'now') AS INTEGER) - {AUDIT_DAYS * 86400}) * 1000000 "
    "BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END",
)
_POSTGRES_GUARDS = (
    "CREATE FUNCTION {p}audit_refuses() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
    f"IF TG_OP = 'DELETE' AND OLD.at <= (extract(epoch FROM now()) - {AUDIT_DAYS * 86400}) * 1000000 "
    "THEN RETURN OLD; END IF; RAISE EXCEPTION 'the audit is append-only'; END $$",
    "CREATE TRIGGER audit_stands BEFORE UPDATE OR DELETE ON {p}audit FOR EACH ROW EXECUTE FUNCTION {p}audit_refuses()",
    "CREATE TRIGGER audit_stays BEFORE TRUNCATE ON {p}audit FOR EACH STATEMENT EXECUTE FUNCTION {p}audit_refuses()",
)

# What each version adds. A table that is there is never made anew: a column of a later version is a statement.
_TABLES: Mapping[int, tuple[Table, ...]] = {
    1: (COLLECTORS, LEASES, KEYS, JOINS, COUNTERS, AUDIT),
    2: (CAPACITY_REQUESTS, CAPACITY_EVENTS),
    3: (MAIL_SECRETS, MAIL_SUBSCRIPTIONS, MAIL_SENDS),
    6: (ALARMS, ALARM_POSTS),
    7: (GPU_HOMES, HOSTS),
}
VERSIONS = tuple(_TABLES)


def migrate(database: Database) -> None:
    """Apply what is pending, in order; several processes may do so at once.

    Raises:
        RegistryError: the registry was written by a newer release, or the database refuses.
    """
    with database.writing() as connection:
        _prepare(database, connection)
        found = connection.execute(text(f"SELECT number FROM {database.prefix}versions"))
        done = {int(number) for (number,) in found}
        if newer := done - set(VERSIONS):
            raise RegistryError(
                f"the registry {database.name} has version {max(newer)}, which this release does not know; "
                "upgrade gpuledger"
            )
        for number in sorted(set(VERSIONS) - done):
            _apply(database, connection, number)


def _prepare(database: Database, connection: Connection) -> None:
    database.one_at_a_time(connection, _MIGRATING)
    if database.is_postgres:
        # IF NOT EXISTS asks for the right to create even where it is there, which a careful site has not given.
        there = connection.execute(text("SELECT 1 FROM pg_namespace WHERE nspname = :name"), {"name": SCHEMA}).first()
        if there is None:
            connection.exec_driver_sql(f"CREATE SCHEMA {SCHEMA}")
    connection.exec_driver_sql(
        f"CREATE TABLE IF NOT EXISTS {database.prefix}versions (number INTEGER PRIMARY KEY, applied_at BIGINT NOT NULL)"
    )


def _apply(database: Database, connection: Connection, number: int) -> None:
    for table in _TABLES[number]:
        connection.execute(CreateTable(table))
        for index in sorted(table.indexes, key=lambda index: str(index.name)):
            connection.execute(CreateIndex(index))
    guards = _POSTGRES_GUARDS if database.is_postgres else _SQLITE_GUARDS
    for statement in (*_COUNTERS, *guards) if number == 1 else ():
        filled = statement.replace("{p}", database.prefix)
        connection.exec_driver_sql(filled.replace("%", "%%") if database.is_postgres else filled)
    connection.execute(
        text(f"INSERT INTO {database.prefix}versions VALUES (:number, :now)"),
        {"number": number, "now": time.time_ns() // 1000},
    )
