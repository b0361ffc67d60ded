"""Fleets that are made and analysed once for several tests, each of which gets a copy: a pass takes longer by far."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

import pyarrow

from tests.analyzer.ledger.fleet import Fleet

_IN_EVERY_STORE = "migrations"

Parameters = ParamSpec("Parameters")


def made_once(make: Callable[Parameters, Fleet]) -> Callable[Parameters, Fleet]:
    """Return what gives each caller a fleet of its own with all that `make` put into one; arguments can be hashed."""
    made: dict[object, tuple[int, dict[str, str], dict[str, pyarrow.Table]]] = {}

    @wraps(make)
    def copy(*args: Parameters.args, **named: Parameters.kwargs) -> Fleet:
        asked = (args, *named.items())
        if asked not in made:
            made[asked] = _contents(make(*args, **named))
        batches, tables, rows = made[asked]
        fleet = Fleet(batches=batches)
        with fleet.store.session() as session, session.transaction():
            there = {name for (name,) in session.rows("SELECT table_name FROM duckdb_tables()")}
            for table in tables.keys() - there:
                session.execute(tables[table])
            for table, content in rows.items():
                session.insert(table, content)
        return fleet

    return copy


def _contents(fleet: Fleet) -> tuple[int, dict[str, str], dict[str, pyarrow.Table]]:
    """Close the fleet's store; return the number of its batches, what makes its tables, and the rows of the filled."""
    with fleet.store as store, store.session() as session:
        told = session.rows("SELECT table_name, sql, estimated_size FROM duckdb_tables() WHERE NOT temporary")
        filled = [name for name, _, size in told if size and name != _IN_EVERY_STORE]
        rows = {name: session.arrow(f"SELECT * FROM {name}") for name in filled}
    return fleet.batches, {name: sql for name, sql, _ in told}, rows
