"""The registry's own schema, in numbered versions, each applied in one transaction with the record of it."""

import time

from sqlalchemy import Connection, text

from collector.errors import RegistryError
from collector.registry.alarm_tables import ALARM_VERSION
from collector.registry.alarm_tables import STATEMENTS as ALARMS
from collector.registry.database import SCHEMA, Database
from collector.registry.mail_tables import MAIL_VERSION
from collector.registry.mail_tables import STATEMENTS as MAIL

AUDIT_DAYS = 400  # an entry of the audit cannot be deleted before; by then a year's review has seen it
_MIGRATING = 0x67706C65  # the number of PostgreSQL's lock under which one process migrates

# `{p}` is the schema's prefix and `{serial}` a number that counts by itself; the rest is SQL that both understand.
_TABLES = (
    "CREATE TABLE {p}collectors (number INTEGER PRIMARY KEY, name VARCHAR NOT NULL UNIQUE, url VARCHAR NOT NULL, "
    "identity VARCHAR NOT NULL, claimed_at BIGINT NOT NULL, alive_until BIGINT NOT NULL)",
    "CREATE TABLE {p}leases (stream VARCHAR PRIMARY KEY, collector INTEGER NOT NULL, epoch BIGINT NOT NULL, "
    "since BIGINT NOT NULL)",
    "CREATE INDEX leases_by_collector ON {p}leases (collector)",
    "CREATE TABLE {p}keys (id VARCHAR PRIMARY KEY, role VARCHAR NOT NULL, name VARCHAR NOT NULL, "
    "hash VARCHAR NOT NULL, node VARCHAR, teams VARCHAR, created_at BIGINT NOT NULL, created_by VARCHAR NOT NULL, "
    "expires_at BIGINT, revoked_at BIGINT, used_at BIGINT, replaces VARCHAR, joined_by VARCHAR, "
    "change BIGINT NOT NULL)",
    "CREATE INDEX keys_by_change ON {p}keys (change)",
    "CREATE INDEX keys_by_node ON {p}keys (node)",
    "CREATE TABLE {p}joins (id VARCHAR PRIMARY KEY, hash VARCHAR NOT NULL, node_glob VARCHAR NOT NULL, "
    "uses BIGINT NOT NULL, used BIGINT NOT NULL, replaces BOOLEAN NOT NULL, created_at BIGINT NOT NULL, "
    "created_by VARCHAR NOT NULL, expires_at BIGINT NOT NULL, revoked_at BIGINT)",
    "CREATE TABLE {p}counters (name VARCHAR PRIMARY KEY, value BIGINT NOT NULL)",
    "INSERT INTO {p}counters VALUES ('keys', 0), ('collectors', 0)",
    "CREATE TABLE {p}audit (id {serial}, at BIGINT NOT NULL, kind VARCHAR NOT NULL, actor VARCHAR NOT NULL, "
    "action VARCHAR NOT NULL, subject VARCHAR NOT NULL, detail VARCHAR NOT NULL, count BIGINT NOT NULL)",
    "CREATE INDEX audit_by_time ON {p}audit (at)",
)
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


_CAPACITY = (
    "CREATE TABLE {p}capacity_requests (id VARCHAR PRIMARY KEY, digest VARCHAR NOT NULL, team VARCHAR NOT NULL, "
    "pilot BOOLEAN NOT NULL, verdict VARCHAR NOT NULL, asked_at BIGINT NOT NULL, asked_by VARCHAR NOT NULL)",
    "CREATE INDEX capacity_by_time ON {p}capacity_requests (asked_at)",
    "CREATE TABLE {p}capacity_events (number {serial}, request_id VARCHAR NOT NULL, at BIGINT NOT NULL, "
    "kind VARCHAR NOT NULL, who VARCHAR NOT NULL, role VARCHAR NOT NULL, verdict VARCHAR NOT NULL, gate VARCHAR, "
    "reason VARCHAR, decided VARCHAR)",
    "CREATE INDEX capacity_events_by_request ON {p}capacity_events (request_id)",
)


_HOMES = (
    "CREATE TABLE {p}gpu_homes (gpu_uuid VARCHAR PRIMARY KEY, node VARCHAR NOT NULL, told_at BIGINT NOT NULL)",
    "CREATE INDEX gpu_homes_by_node ON {p}gpu_homes (node)",
    "CREATE TABLE {p}hosts (node VARCHAR PRIMARY KEY, first_sent_at BIGINT NOT NULL)",
)


def _first(database: Database) -> tuple[str, ...]:
    return _TABLES + (_POSTGRES_GUARDS if database.is_postgres else _SQLITE_GUARDS)


def _mails(_: Database) -> tuple[str, ...]:
    return MAIL


def _capacity(_: Database) -> tuple[str, ...]:
    return _CAPACITY


def _alarms(_: Database) -> tuple[str, ...]:
    return ALARMS


def _homes(_: Database) -> tuple[str, ...]:
    return _HOMES


VERSIONS = {1: _first, 2: _capacity, MAIL_VERSION: _mails, ALARM_VERSION: _alarms, 7: _homes}


def migrate(database: Database) -> None:
    """Apply what is pending, in order; several processes may do so at once.

    Raises:
        RegistryError: the registry was written by a newer release, or the database refuses.
    """
    with database.writing() as connection:
        _prepare(database, connection)
        found = connection.execute(text(f"SELECT number FROM {database.prefix}versions"))
        done = {int(number) for (number,) in found}
        if newer := done - VERSIONS.keys():
            raise RegistryError(
                f"the registry {database.name} has version {max(newer)}, which this release does not know; "
                "upgrade gpuledger"
            )
        for number in sorted(VERSIONS.keys() - done):
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
    serial = "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"
    for statement in VERSIONS[number](database):
        filled = statement.replace("{p}", database.prefix)
        filled = filled.replace("{serial}", serial if database.is_postgres else "INTEGER PRIMARY KEY AUTOINCREMENT")
        connection.exec_driver_sql(filled.replace("%", "%%") if database.is_postgres else filled)
    connection.execute(
        text(f"INSERT INTO {database.prefix}versions VALUES (:number, :now)"),
        {"number": number, "now": time.time_ns() // 1000},
    )
