"""Rows and columns of the contract to Arrow record-batch messages, by nanoarrow: a GPU host carries no pyarrow.

A message travels without its schema, which both sides know from tables.py. New columns are only ever appended to a
table, so that an older reader reads the prefix it knows, and a newer one asks `columns_at` for what was sent.
"""

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Protocol, TypeAlias, runtime_checkable

import nanoarrow as na
from nanoarrow.ipc import StreamWriter

from agent.errors import EnvelopeError
from agent.wire.contract import Column, Table

_TYPES = {"string": na.string, "int64": na.int64, "float64": na.float64, "bool": na.bool_}
_BUFFER_FORMATS = {"int64": ("q", "l"), "float64": ("d",)}  # numpy says "l" for int64 on Linux


_Native: TypeAlias = Any  # an object of nanoarrow, which carries no types
Buffer: TypeAlias = Any  # whatever memoryview() takes; collections.abc.Buffer comes with Python 3.12


@runtime_checkable
class ArrowArray(Protocol):
    """Anything with the Arrow C data interface: how bulk senders pass strings without making Python objects."""

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        """Return the capsules of schema and array."""
        ...


@dataclass(frozen=True, slots=True)
class Masked:
    """A column with nulls in bulk: `values` and packed `valid` bits, least significant first, both buffers."""

    values: Buffer
    valid: Buffer


# A sequence of Python values, a buffer of int64 or float64 (numpy), the same with nulls, or an Arrow array.
ColumnValues: TypeAlias = Sequence[object] | Buffer | Masked | ArrowArray


def message(table: Table, columns: Mapping[str, ColumnValues]) -> tuple[int, bytes]:
    """Return the rows and the record-batch message of these columns; columns that are missing become null.

    Raises:
        EnvelopeError: a column is not of this table, has another length, or holds values of another type.
    """
    strangers = columns.keys() - set(table.names)
    if strangers:
        raise EnvelopeError(f"table {table.name} has no column {min(strangers)}")
    given = {name: _array(table, name, values) for name, values in columns.items()}
    lengths = {array.length for array in given.values()}
    if len(lengths) != 1:
        raise EnvelopeError(f"the columns of {table.name} have {len(lengths)} different lengths")
    (rows,) = lengths
    batch = na.c_array_from_buffers(_schema(table), rows, [None], children=_children(table, given, rows))
    out = io.BytesIO()
    writer = StreamWriter.from_writable(out)
    writer.write_array(batch, write_schema=False)
    writer.release()  # not close(): that would append an end-of-stream marker to the message
    return rows, out.getvalue()


def columns_of(table: Table, rows: Sequence[Mapping[str, object]]) -> dict[str, list[object]]:
    """Turn rows into the columns that any of them has; what a row lacks is None.

    Raises:
        EnvelopeError: a row has a column that the table does not know.
    """
    told = set().union(*rows)
    if strangers := told.difference(table.names):
        raise EnvelopeError(f"table {table.name} has no column {min(strangers)}")
    return {name: [row.get(name) for row in rows] for name in table.names if name in told}


@cache
def _kind(type_name: str) -> _Native:
    return na.c_schema(_TYPES[type_name]())


@cache
def _schema(table: Table) -> _Native:
    return na.c_schema(na.struct({column.name: _TYPES[column.type]() for column in table.columns}))


def _children(table: Table, given: Mapping[str, _Native], rows: int) -> list[_Native]:
    """Return an array for every column of the table, in its order."""
    for column in table.columns:
        if column.required and (column.name not in given or given[column.name].null_count):
            raise EnvelopeError(f"{table.name}.{column.name} is required, and rows lack it")
    return [given[column.name] if column.name in given else _nulls(column.type, rows) for column in table.columns]


@lru_cache(maxsize=16)
def _nulls(type_name: str, rows: int) -> _Native:
    """Return a column that is null throughout. From a list, the padding bits would be whatever memory held before."""
    bits = bytes(-(-rows // 8))
    values = {"string": [bytes(4 * (rows + 1)), b""], "bool": [bits]}.get(type_name, [bytes(8 * rows)])
    return na.c_array_from_buffers(_kind(type_name), rows, [bits, *values], null_count=rows)


def _array(table: Table, name: str, values: ColumnValues) -> _Native:
    column = table.column(name)
    if isinstance(values, list) and values and values.count(None) == len(values):  # as are most columns of most hosts
        return _nulls(column.type, len(values))
    try:
        return _any_array(column, values)
    except (TypeError, ValueError, OverflowError) as error:
        raise EnvelopeError(f"{table.name}.{name} is not {column.type}: {error}") from error


def _any_array(column: Column, values: ColumnValues) -> _Native:
    kind = _kind(column.type)
    if isinstance(values, Masked):
        data = _buffer(column, values.values)
        return na.c_array_from_buffers(kind, len(data), [values.valid, data])
    if isinstance(values, list | tuple):
        return na.c_array(_finite(values) if column.type == "float64" else values, kind)
    if hasattr(values, "__arrow_c_array__"):  # isinstance() of a protocol costs as much as the rest of a column
        array = na.c_array(values)
        if array.schema.format != kind.format:
            raise TypeError(f"an Arrow array of {array.schema.format!r}")
        return array
    data = _buffer(column, values)
    return na.c_array_from_buffers(kind, len(data), [None, data])


def _finite(values: Sequence[object]) -> Sequence[object]:
    """Refuse what is no number: unknown is None, and a NaN would poison every mean that it enters."""
    for value in values:
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{value} is not a number; use None for unknown")
    return values


def _buffer(column: Column, values: Buffer) -> memoryview:
    view = memoryview(values)
    if view.format not in _BUFFER_FORMATS.get(column.type, ()) or view.ndim != 1 or not view.c_contiguous:
        raise TypeError(f"a buffer of {view.format!r} with {view.ndim} dimensions")
    return view
