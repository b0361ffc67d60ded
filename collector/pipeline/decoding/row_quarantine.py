"""Rows that cannot be true are told from the others of their batch, which they do not cost.

A batch is authentic and well-formed or it is refused whole: its envelope, its schema, its Arrow. What a row says is
another matter. One impossible reading (a driver that reports 2^63 watts, a clock that was set back between a reading
and its sealing) used to cost all tables of its batch, for ever: an agent sets aside what is refused with 422. Such rows
are now put aside here, with what they say and why they are not believed, and the sender is told how many.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa

from agent.wire.contract import Table
from agent.wire.tables import TABLES
from collector.pipeline.decoding.arrow_messages import Message
from collector.pipeline.decoding.fast_validation import all_fine, suspects
from collector.pipeline.decoding.range_checks import Clock, Mask, Reason, any_of, faults, pc

_TOLD_OF_A_TABLE = 10  # rows put aside that are kept with what they say; further ones are only counted
_LONGEST_VALUE = 200  # characters of a text that are kept


@dataclass(frozen=True, slots=True)
class Aside:
    """A row that was put aside: its table and column, why in a sentence, and what it says as JSON.

    Nulls are left out, and what may name a person: evidence of a fault needs no names.
    """

    table: str
    column: str
    reason: str
    content: str


@dataclass(frozen=True, slots=True)
class Sifted:
    """The rows of a table that may be true, how many may not, and the first of those."""

    rows: pa.RecordBatch
    count: int = 0
    asides: tuple[Aside, ...] = ()


def sift(tables: Mapping[str, Message], clock: Clock) -> dict[str, Sifted]:
    """Return which rows of the tables of a batch are believed."""
    if all_fine([(TABLES[name], message) for name, message in tables.items()], clock):
        return {name: Sifted(message.rows) for name, message in tables.items()}
    return {name: _sifted(TABLES[name], message, clock) for name, message in tables.items()}


def _sifted(table: Table, message: Message, clock: Clock) -> Sifted:
    columns = suspects(table, message, clock)
    broken = list(faults(table, message.rows, clock, columns)) if columns else []
    return parted(table, message.rows, broken)


def parted(table: Table, rows: pa.RecordBatch, broken: Sequence[tuple[Reason, Mask]]) -> Sifted:
    """Return the rows of a table that break none of these rules, each of which comes with the rows that break it."""
    if not broken:
        return Sifted(rows)
    bad = any_of((mask for _, mask in broken), rows.num_rows)
    told = pc.indices_nonzero(bad).slice(0, _TOLD_OF_A_TABLE).to_pylist()
    asides = tuple(_aside(table, rows, index, broken) for index in told)
    return Sifted(rows.filter(pc.invert(bad)), int(bad.true_count), asides)


def _aside(table: Table, rows: pa.RecordBatch, index: int, broken: Sequence[tuple[Reason, Mask]]) -> Aside:
    rule = next(rule for rule, mask in broken if mask[index].as_py())
    (row,) = rows.slice(index, 1).to_pylist()
    value = row[rule.column]
    named = _names_people(table.name)
    shown = "null" if value is None else "not shown" if rule.column in named else f"{value!r:.60}"
    reason = f"{table.name}.{rule.column} in row {index} is {shown}: {rule.says}"
    content = {name: _shown(value) for name, value in row.items() if value is not None and name not in named}
    return Aside(table.name, rule.column, reason, json.dumps(content, ensure_ascii=False))


@cache
def _names_people(table: str) -> frozenset[str]:
    return frozenset(column.name for column in TABLES[table].columns if column.sensitivity == "identity")


def _shown(value: Any) -> Any:  # noqa: ANN401 - any value that a column may hold
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no such numbers
    return value[:_LONGEST_VALUE] if isinstance(value, str) else value
