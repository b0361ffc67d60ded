"""Rows of every table that are true, made from the contract alone: what hostile input begins as."""

import random
from typing import Any

from agent.wire.contract import Column
from agent.wire.tables import TABLES

STEP = 10_000_000  # microseconds
Row = dict[str, Any]


def true_rows(table: str, count: int, now: int, dice: random.Random) -> list[Row]:
    """Return rows of a table, every column with a value or null, whose intervals lie in the hour before `now`."""
    return [_row(table, index, now - dice.randrange(360) * STEP, dice) for index in range(count)]


def _row(table: str, index: int, end: int, dice: random.Random) -> Row:
    row = {column.name: _value(column, index, dice) for column in TABLES[table].columns}
    starts = dict.fromkeys(("started_at", "owned_from"), end - STEP)
    times = starts | dict.fromkeys(("ended_at", "owned_until"), end) | {"submitted_at": end - 2 * STEP}
    return row | {name: moment for name, moment in times.items() if name in row}


def _value(column: Column, index: int, dice: random.Random) -> Any:  # noqa: ANN401 - as the column says
    if not column.required and dice.random() < 0.2:
        return None
    if column.type == "string":
        return f"{column.name}-{index}"
    if column.type == "bool":
        return dice.random() < 0.5
    low, high = column.range or (0, 100)
    most = min(high, low + 1000)
    return dice.randint(int(low), int(most)) if column.type == "int64" else dice.uniform(low, most)
