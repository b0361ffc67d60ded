"""Rows as columns: from the simulator's arrays to what a batch carries."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from agent.wire.tables import TABLES
from simulator.activity import BoolArray, IntArray
from simulator.site import Site

Array: TypeAlias = npt.NDArray[Any]

# Numbers as arrays, masked where some are null; text and flags as lists. A column that is null throughout is left out.
Column: TypeAlias = Array | list[Any]

Columns: TypeAlias = dict[str, Column]


@dataclass(frozen=True, slots=True)
class Block:
    """Rows of one table of one host, ascending by start. Within the simulator NaN stands for null; it never leaves."""

    starts: IntArray  # milliseconds since the site's start
    ends: IntArray
    columns: dict[str, Array]

    def where(self, mask: BoolArray) -> "Block":
        """Return the rows that the mask picks."""
        if mask.all():
            return self
        picked = {name: values[mask] for name, values in self.columns.items()}
        return Block(self.starts[mask], self.ends[mask], picked)

    def between(self, start: int, end: int) -> "Block":
        """Return the rows that start in this stretch."""
        first, last = np.searchsorted(self.starts, (start, end))
        part = slice(int(first), int(last))
        picked = {name: values[part] for name, values in self.columns.items()}
        return Block(self.starts[part], self.ends[part], picked)


def joined(blocks: Iterable[Block]) -> Block | None:
    """Return the rows of blocks with the same columns as one, ascending by start; None where there are none."""
    blocks = [block for block in blocks if len(block.starts)]
    if not blocks:
        return None
    starts = np.concatenate([block.starts for block in blocks])
    order = np.argsort(starts, kind="stable")
    ends = np.concatenate([block.ends for block in blocks])[order]
    names = blocks[0].columns
    together = {name: np.concatenate([block.columns[name] for block in blocks])[order] for name in names}
    return Block(starts[order], ends, together)


def of_wire(site: Site, table: str, node: str, block: Block) -> Columns:
    """Return the columns of a block as a batch carries them."""
    made: Columns = {
        "node": [node] * len(block.starts),
        "started_at": site.started_at + block.starts * 1_000,
        "ended_at": site.started_at + block.ends * 1_000,
    }
    for name, values in block.columns.items():
        column = _column_of(TABLES[table].column(name).type, values)
        if column is not None:
            made[name] = column
    return made


def of_rows(table: str, rows: Sequence[Mapping[str, object]]) -> Columns:
    """Return rows as the columns that a batch carries."""
    made: Columns = {}
    for column in TABLES[table].columns:
        values = [row.get(column.name) for row in rows]
        is_number = column.type in ("int64", "float64")  # whole numbers here stay under 2**53
        listed = [np.nan if value is None else value for value in values] if is_number else values
        found = _column_of(column.type, np.array(listed, dtype=np.float64 if is_number else object))
        if found is not None:
            made[column.name] = found
    return made


def _column_of(kind: str, values: Array) -> Column | None:
    """Return a column of this type of the contract; None where it is null throughout."""
    if values.dtype == object or values.dtype == np.bool_:
        listed = values.tolist()
        return None if all(value is None for value in listed) else listed
    null = np.isnan(values)
    nulls = np.count_nonzero(null)
    if nulls == len(values):
        return None
    numbers = np.where(null, 0.0, values) if nulls else values
    typed = numbers.astype(np.int64) if kind == "int64" else np.ascontiguousarray(numbers, dtype=np.float64)
    return np.ma.MaskedArray(typed, mask=null) if nulls else typed
