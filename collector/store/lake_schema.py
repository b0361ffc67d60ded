"""The lake's tables: the contract's and the receipts as they are declared, brought up to date by what is missing.

A lake has no migrations of its own. Several collectors, of several releases, attach it at once; each adds the tables
and columns that it knows and that are not there, and leaves alone what it does not know. Columns are only ever added.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from agent.wire.contract import SCHEMA_VERSION, Column
from agent.wire.tables import TABLES
from collector.errors import StoreError
from collector.store.missing import add_missing, columns_there
from collector.store.tier_schema import EXPIRED

if TYPE_CHECKING:
    from collector.store.session import Session

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


def declared() -> dict[str, tuple[str, ...]]:
    """Return the definitions of the columns of each table that belongs into a lake."""
    tables = {
        name: (*(column_sql(column) for column in table.columns_at(SCHEMA_VERSION)), "batch BIGINT NOT NULL")
        for name, table in TABLES.items()
    }
    return {**tables, "receipts": _RECEIPTS, "markers": _MARKERS, **EXPIRED}


def sort_key(table: str) -> str:
    """Return what the rows of a table are ordered by in a file: what names their subject, then their time."""
    names = [column.name for column in TABLES[table].columns if column.required and column.type == "string"]
    subject = [name for name in names if name != "node"] + ["node"] * ("node" in names)
    return ", ".join([*subject, *(["started_at"] if "started_at" in TABLES[table].names else [])])


def make_tables(session: "Session") -> None:
    """Make what is missing.

    Raises:
        StoreError: the catalogue refuses.
    """
    add_in_transaction(session, _add_missing)


def add_in_transaction(session: "Session", step: Callable[["Session"], None]) -> None:
    """Let something be added in one transaction. Two who do it at once conflict; the loser looks again.

    Raises:
        StoreError: the catalogue refuses.
    """
    for left in reversed(range(_TRIES)):
        try:
            with session.transaction():
                step(session)
            return
        except StoreError:
            if not left:
                raise


def _add_missing(session: "Session") -> None:
    there = columns_there(session, "lake", "main")
    if not there:
        for name, value in _SETTINGS.items():
            session.execute(f"CALL lake.set_option('{name}', '{value}')")
    add_missing(session, "lake.main", declared(), there)
