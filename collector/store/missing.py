"""Bring a schema without migrations up to date by what is missing: of a lake, and of the tables of the tiers."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collector.store.session import Session


def columns_there(session: "Session", database: str, schema: str) -> dict[str, set[str]]:
    """Return the names of the columns of every table of a schema.

    Raises:
        StoreError: the store does not answer.
    """
    found: dict[str, set[str]] = {}
    for table, column in session.rows(
        "SELECT table_name, column_name FROM duckdb_columns() WHERE database_name = ? AND schema_name = ?",
        [database, schema],
    ):
        found.setdefault(table, set()).add(column)
    return found


def add_missing(
    session: "Session", where: str, tables: Mapping[str, Sequence[str]], there: Mapping[str, set[str]]
) -> list[str]:
    """Make the tables and columns that are not there, and return the tables; what is not known is left alone.

    A column that comes later may be null: the rows before it have none.

    Raises:
        StoreError: the store refused.
    """
    for table, columns in tables.items():
        if table not in there:
            session.execute(f"CREATE TABLE {where}.{table} ({', '.join(columns)})")
        for column in columns if table in there else ():
            if column.split()[0] not in there[table]:
                session.execute(f"ALTER TABLE {where}.{table} ADD COLUMN {column.removesuffix(' NOT NULL')}")
    return [table for table in tables if table not in there]
