"""The registry's tables, once: what statements name, and the versions in which they are made.

Each version is applied in one transaction with the record of it. Times are microseconds UTC.
"""

import time
from collections.abc import Mapping
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Identity,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    UniqueConstraint,
    text,
)
from sqlalchemy.schema import CreateIndex, CreateTable

from collector.errors import RegistryError
from collector.registry.database import SCHEMA, Database

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
