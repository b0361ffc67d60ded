"""Make the DDL of the contract, by schema version: 0001_contract.sql is version 1, later files what was added."""

from agent.wire.contract import Column, Table
from agent.wire.tables import TABLES

_TYPES = {"string": "VARCHAR", "int64": "BIGINT", "float64": "DOUBLE", "bool": "BOOLEAN"}


def column_sql(column: Column) -> str:
    """Return one column's definition."""
    return f"{column.name} {_TYPES[column.type]}{' NOT NULL' if column.required else ''}"


def table_sql(table: Table, version: int) -> str:
    """Return a table's definition as of a version; `batch` is the number of the receipt that brought the row."""
    columns = ",\n    ".join([*map(column_sql, table.columns_at(version)), "batch BIGINT NOT NULL"])
    return f"-- A row is {table.row}.\nCREATE TABLE {table.name} (\n    {columns}\n);\n"


def contract_sql(version: int) -> str:
    """Return what a version of the contract added: tables that it began, columns that it appended."""
    return "\n".join(filter(None, (_added(table, version) for table in TABLES.values())))


def _added(table: Table, version: int) -> str:
    if not table.columns_at(version - 1):
        return table_sql(table, version) if table.columns_at(version) else ""
    new = [column for column in table.columns if column.since == version]
    return "".join(f"ALTER TABLE {table.name} ADD COLUMN {column_sql(column)};\n" for column in new)
