"""Make the DDL of the contract's tables; 0001_contract.sql is its output for schema version 1, kept as released."""

from agent.wire.contract import Column, Table
from agent.wire.tables import TABLES

_TYPES = {"string": "VARCHAR", "int64": "BIGINT", "float64": "DOUBLE", "bool": "BOOLEAN"}


def column_sql(column: Column) -> str:
    """Return one column's definition."""
    return f"    {column.name} {_TYPES[column.type]}{' NOT NULL' if column.required else ''}"


def table_sql(table: Table) -> str:
    """Return one table's definition; `batch` is the number of the receipt that brought the row."""
    columns = ",\n".join([*map(column_sql, table.columns), "    batch BIGINT NOT NULL"])
    return f"-- A row is {table.row}.\nCREATE TABLE {table.name} (\n{columns}\n);\n"


def contract_sql() -> str:
    """Return the definitions of all tables of the contract, with the receipts that make a batch count once."""
    return "\n".join(table_sql(table) for table in TABLES.values())
