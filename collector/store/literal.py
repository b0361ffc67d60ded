"""A text within a statement, where DuckDB takes no parameter: ATTACH, LOAD, secrets, views, conditions on files."""

from pathlib import Path


def literal(text: str | Path) -> str:
    """Return a text as SQL writes it, quotes included."""
    return "'" + str(text).replace("'", "''") + "'"
