"""Which table a file is: by what the user says, by its name, or by its columns."""

from collections.abc import Sequence
from pathlib import Path

from agent.wire.contract import Table
from agent.wire.tables import TABLES
from collector.errors import FileRefusedError


def table_of(path: Path, columns: Sequence[str], named: str | None) -> Table:
    """Return the table of the contract that a file holds rows of.

    Raises:
        FileRefusedError: the table that is named does not exist, or nothing tells which it is.
    """
    if named is not None:
        if named not in TABLES:
            raise FileRefusedError(f"there is no table {named}; there are {', '.join(TABLES)}")
        return TABLES[named]
    in_name = [name for name in TABLES if name in path.name.replace("-", "_")]
    return TABLES[max(in_name, key=len)] if in_name else _by_columns(path, set(columns))


def require_keys(table: Table, path: Path, columns: Sequence[str], node: str | None) -> None:
    """Check that the columns without which a row says nothing are there.

    Raises:
        FileRefusedError: some are missing, or one is there twice.
    """
    twice = [name for name in columns if columns.count(name) > 1]
    if twice:
        raise FileRefusedError(f"{path} has two columns {twice[0]}; nobody can tell which is meant")
    given = {*columns, "node"} if node else set(columns)
    missing = [column.name for column in table.columns if column.required and column.name not in given]
    if missing:
        way_out = "; --node gives one for the whole file" if "node" in missing else ""
        raise FileRefusedError(f"{path} lacks {', '.join(missing)}, which every row of {table.name} needs{way_out}")


def _by_columns(path: Path, columns: set[str]) -> Table:
    """Return the table that shares the most columns with the file, where that is one and it shares more than keys."""
    shared = {name: len(columns & set(table.names)) for name, table in TABLES.items()}
    best = max(shared.values())
    found = [name for name, count in shared.items() if count == best]
    keys = {column.name for column in TABLES[found[0]].columns if column.required}
    if len(found) > 1 or not columns & set(TABLES[found[0]].names) - keys:
        raise FileRefusedError(f"cannot tell which table {path} is; say it with --table, one of {', '.join(TABLES)}")
    return TABLES[found[0]]
