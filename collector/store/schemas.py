"""Bring the schemas up to date: a hot file's by numbered SQL files, a lake's and the tiers' by what is missing.

The files are applied in one transaction with the record of them. A lake has no migrations of its own. Several
collectors, of several releases, attach it at once; each adds the tables and columns that it knows and that are not
there, and leaves alone what it does not know. Columns are only ever added. Its tables are the contract's and the
receipts as they are declared.

The tables of the tiers and of their maintenance follow from the contract, and are made where the samples are. A store
without maintenance (`gpuledger run`, a file that is only read) has none of them but what the ledger asks for.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

from agent.wire.contract import SCHEMA_VERSION, Column
from agent.wire.tables import TABLES
from collector.errors import StoreError
from collector.store.session import OpenStore, Session
from collector.tier_tables import tier_tables

SCHEMA_DIRECTORY = Path(__file__).parent / "schema"


def available() -> list[tuple[int, Path]]:
    """Return (number, file) of every migration, ascending."""
    return sorted((int(path.name.split("_")[0]), path) for path in SCHEMA_DIRECTORY.glob("[0-9]*_*.sql"))


def _applied(session: Session) -> set[int]:
    """Return the numbers that this store has applied; empty for a new store."""
    return {number for (number,) in session.rows_if_there("SELECT number FROM migrations") or ()}


def migrate(session: Session) -> None:
    """Apply what is pending, in order.

    Raises:
        StoreError: the store was written by a newer release, or a migration fails; all that they did is undone.
    """
    if waiting := _pending(session):
        with session.transaction():
            for _, path in waiting:
                session.execute(path.read_text())
            numbers, names = zip(*((number, path.name) for number, path in waiting), strict=True)
            session.execute("INSERT INTO migrations SELECT unnest(?), unnest(?)", [numbers, names])


def require_current(session: Session) -> None:
    """Check that a store which is only read needs no migration.

    Raises:
        StoreError: the store is of a newer release or of an older one.
    """
    if waiting := _pending(session):
        raise StoreError(f"this store lacks migration {waiting[0][0]}; start gpuledger serve on it once to upgrade it")


def _pending(session: Session) -> list[tuple[int, Path]]:
    """Return (number, file) of what this store has yet to apply.

    Raises:
        StoreError: the store was written by a newer release.
    """
    done = _applied(session)
    files = available()
    newer = done - {number for number, _ in files}
    if newer:
        raise StoreError(f"this store has migration {max(newer)}, which this release does not know; upgrade gpuledger")
    return [(number, path) for number, path in files if number not in done]


# By table and column in their order, what type it is.
Columns = Mapping[str, Mapping[str, str]]
_COLUMNS = """
SELECT database_name || '.' || schema_name, table_name, column_name, data_type FROM duckdb_columns()
WHERE NOT internal AND NOT starts_with(database_name, '__') ORDER BY database_oid, schema_oid, table_oid, column_index
"""


def columns_there(session: Session) -> dict[str, Columns]:
    """Return the columns of every table of every schema, by its name: `hot.main`, `lake.books`.

    One question to all of them: each asks every attached catalogue.
    """
    found: dict[str, dict[str, dict[str, str]]] = defaultdict(lambda: defaultdict(dict))
    for schema, table, column, kind in session.rows(_COLUMNS):
        found[schema][table][column] = kind
    return {schema: {table: dict(columns) for table, columns in tables.items()} for schema, tables in found.items()}


def add_missing(session: Session, where: str, tables: Mapping[str, Sequence[str]], there: Columns) -> list[str]:
    """Make the tables and columns that are not there, and return the tables; what is not known is left alone.

    A column that comes later may be null: the rows before it have none.
    """
    for table, columns in tables.items():
        if table not in there:
            session.execute(f"CREATE TABLE {where}.{table} ({', '.join(columns)})")
        for column in columns if table in there else ():
            if column.split()[0] not in there[table]:
                session.execute(f"ALTER TABLE {where}.{table} ADD COLUMN {column.removesuffix(' NOT NULL')}")
    return [table for table in tables if table not in there]


# From when on a table still has its rows, each time that some were dropped: the highest counts. What the ledger asks of
# samples that are gone: when and where each GPU was seen, and which runs served. Every store has these three.
EXPIRED: dict[str, tuple[str, ...]] = {
    "retention": (
        "table_name VARCHAR",
        "kept_from BIGINT",
        "dropped_rows BIGINT",
        "reason VARCHAR",
        "recorded_at BIGINT",
    ),
    "gpus_seen": ("gpu_uuid VARCHAR", "node VARCHAR", "parent_uuid VARCHAR", "first_at BIGINT", "last_at BIGINT"),
    "services_seen": (
        "run_id VARCHAR",
        "first_at BIGINT",
        "last_at BIGINT",
        "model_first VARCHAR",
        "model_last VARCHAR",
    ),
}
# Up to which batch of each collector it is known what hours its rows touch, and the newest hour that is rolled up; the
# hours that wait to be; what each job did last, and when it is due.
_MAINTENANCE: dict[str, tuple[str, ...]] = {
    "tier_marks": ("collector BIGINT", "upto BIGINT"),
    "tier_due": ("hour BIGINT",),
    "upkeep": (
        "job VARCHAR",
        "outcome VARCHAR",
        "said VARCHAR",
        "finished_at BIGINT",
        "succeeded_at BIGINT",
        "due_at BIGINT",
    ),
}


def samples_schema(store: OpenStore) -> str:
    """Return the schema that holds the samples: the lake's, or the file's own."""
    if store.lake is not None:
        return "lake.main"
    if store.hot is None:
        raise AssertionError("BUG: a store has a hot file, a lake or both")
    return str(store.hot)


def make_tier_tables(store: OpenStore) -> None:
    """Make what is missing. Two who do it at once conflict, and the loser tries again later.

    Raises:
        StoreError: the store refused; nothing was made.
    """
    where = samples_schema(store)
    with store.turn, store.session() as session:
        there = columns_there(session).get(where, {})
        with session.transaction():
            if "upkeep" in add_missing(session, where, {**EXPIRED, **tier_tables(), **_MAINTENANCE}, there):
                session.execute(f"INSERT INTO {where}.upkeep (job) VALUES ('*')")  # lake/keeper.py has it as _ALL


# Samples compress best by GPU, then time; a lake file of a day then serves one run's week with few row groups.
_RECEIPTS = (
    "batch BIGINT",
    "agent VARCHAR",
    "stream VARCHAR",
    "sequence BIGINT",
    "body_hash VARCHAR",
    "sent_at BIGINT",
    "received_at BIGINT",
    "schema_version BIGINT",
    "row_count BIGINT",
)
RECEIPTS = ", ".join(column.split()[0] for column in _RECEIPTS)
# Up to which batch each collector has sealed: the newest row counts. It commits with what it speaks of.
_MARKERS = ("collector BIGINT", "upto BIGINT", "sealed_at BIGINT")
_SETTINGS = {
    "parquet_version": "2",
    "parquet_compression": "zstd",
}  # the defaults are V1 and Snappy: 20.4 for 16.7 B/row
_TYPES = {"string": "VARCHAR", "int64": "BIGINT", "float64": "DOUBLE", "bool": "BOOLEAN"}
_TRIES = 10


def column_sql(column: Column) -> str:
    """Return the definition of one column of the contract."""
    return f"{column.name} {_TYPES[column.type]}{' NOT NULL' if column.required else ''}"


@cache
def declared() -> Mapping[str, tuple[str, ...]]:
    """Return the definitions of the columns of each table that belongs into a lake."""
    tables = {
        name: (*(column_sql(column) for column in table.columns_at(SCHEMA_VERSION)), "batch BIGINT NOT NULL")
        for name, table in TABLES.items()
    }
    return {**tables, "receipts": _RECEIPTS, "markers": _MARKERS, **EXPIRED}


@cache
def nothing_of(table: str) -> str:
    """Return a query for no row of a table that belongs into a lake, with its columns."""
    nulls = ", ".join("NULL::{1} AS {0}".format(*column.split()) for column in declared()[table])
    return f"SELECT {nulls} WHERE false"


def sort_key(table: str) -> str:
    """Return what the rows of a table are ordered by in a file: what names their subject, then their time."""
    names = [column.name for column in TABLES[table].columns if column.required and column.type == "string"]
    subject = [name for name in names if name != "node"] + ["node"] * ("node" in names)
    return ", ".join([*subject, *(["started_at"] if "started_at" in TABLES[table].names else [])])


def is_whole(tables: Mapping[str, Sequence[str]], there: Columns) -> bool:
    """Return whether all of these tables and columns are there."""
    return all(column.split()[0] in there.get(table, ()) for table, columns in tables.items() for column in columns)


def make_lake_tables(session: Session, there: Mapping[str, Columns]) -> None:
    """Make what is missing of what was there a moment ago."""
    if not is_whole(declared(), there.get("lake.main", {})):
        add_in_transaction(session, _add_missing_of_lake)


def add_in_transaction(session: Session, step: Callable[[Session], None]) -> None:
    """Let something be added in one transaction. Two who do it at once conflict; the loser looks again."""
    for left in reversed(range(_TRIES)):
        try:
            with session.transaction():
                step(session)
            return
        except StoreError:
            if not left:
                raise


def _add_missing_of_lake(session: Session) -> None:
    there = columns_there(session).get("lake.main", {})
    if not there:
        for name, value in _SETTINGS.items():
            session.execute(f"CALL lake.set_option('{name}', '{value}')")
    add_missing(session, "lake.main", declared(), there)
