"""The registry's own schema, in numbered versions, each applied in one transaction with the record of it."""

import time
from collections.abc import Mapping

from sqlalchemy import Connection, Table, text
from sqlalchemy.schema import CreateIndex, CreateTable

from collector.errors import RegistryError
from collector.registry.database import SCHEMA, Database
from collector.registry.tables import (
    ALARM_POSTS,
    ALARMS,
    AUDIT,
    CAPACITY_EVENTS,
    CAPACITY_REQUESTS,
    COLLECTORS,
    COUNTERS,
    GPU_HOMES,
    HOSTS,
    JOINS,
    KEYS,
    LEASES,
    MAIL_SECRETS,
    MAIL_SENDS,
    MAIL_SUBSCRIPTIONS,
)

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
