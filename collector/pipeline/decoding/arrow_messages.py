"""One table's Arrow message to a validated record batch; hostile bytes must end in a sentence, never in a crash.

A message travels without its schema. Columns are only ever appended to a table, so the number of columns that a
message carries says which prefix of the table's columns it holds: an older agent sent fewer, a newer one sent more,
of which the known prefix is read and the rest is left alone.
"""

import struct
from dataclasses import dataclass
from functools import cache

import pyarrow as pa
import pyarrow.ipc

from agent.wire.contract import SCHEMA_VERSION, Table
from agent.wire.tables import TABLES
from collector.errors import BatchError

_TYPES = {"string": pa.string(), "int64": pa.int64(), "float64": pa.float64(), "bool": pa.bool_()}

# Slots of the flatbuffers Message and RecordBatch (Arrow columnar format, Message.fbs).
_MESSAGE_HEADER, _BATCH_NODES, _BATCH_BUFFERS, _BATCH_COMPRESSION = 2, 1, 2, 3
_INT32, _UINT16, _UINT32 = struct.Struct("<i"), struct.Struct("<H"), struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class Message:
    """One table of a batch, validated. `beyond` columns of a newer agent were not read.

    `buffers` are the offset and the length of each buffer in `body`, in turn: three of a text column (nulls, offsets,
    bytes), two of any other (nulls, values).
    """

    rows: pa.RecordBatch
    beyond: int
    body: pa.Buffer
    buffers: tuple[int, ...]


def arrow_schema(table: Table, columns: int | None = None) -> pa.Schema:
    """Return the Arrow schema of a table's first columns, or of all of them."""
    return _schema(table.name, columns)


@cache
def _schema(table: str, columns: int | None) -> pa.Schema:
    fields = [pa.field(c.name, _TYPES[c.type], nullable=not c.required) for c in TABLES[table].columns[:columns]]
    return pa.schema(fields)


def read_message(table: Table, message: memoryview, schema_version: int) -> Message:
    """Return the rows of one table.

    Raises:
        BatchError: 400, it is no Arrow record batch of this table.
    """
    try:
        parsed = pyarrow.ipc.read_message(pa.py_buffer(message))  # verifies the metadata, which we may then walk
        if parsed.type != "record batch":
            raise _refused(table, f"is an Arrow {parsed.type} not a record batch")
        sent, buffers = _layout(table, parsed)
        beyond = _columns_beyond(table, sent, schema_version)
        rows = pyarrow.ipc.read_record_batch(parsed, arrow_schema(table, sent - beyond))
        rows.validate(full=True)  # without it mutated bodies crashed the process in every run tried (spikes.md)
    except (pa.ArrowException, OSError, EOFError, ValueError, struct.error) as error:
        raise _refused(table, f"is not valid Arrow: {_one_line(error)}") from error
    return Message(rows, beyond, parsed.body or pa.py_buffer(b""), buffers)


def message_schema(table: Table, message: pyarrow.ipc.Message, schema_version: int) -> pa.Schema:
    """Return the schema of the columns that we know of a message which was validated before."""
    metadata = memoryview(message.metadata)
    sent, _ = _vector(metadata, _slot(metadata, _record_batch(metadata), _BATCH_NODES))
    return arrow_schema(table, sent - _columns_beyond(table, sent, schema_version))


def _columns_beyond(table: Table, sent: int, schema_version: int) -> int:
    """Return how many of the columns are newer than us; the number must suit the version that is claimed."""
    known, oldest = _widths(table.name)
    least = oldest if schema_version < SCHEMA_VERSION else known
    most = sent if schema_version > SCHEMA_VERSION else known
    if not least <= sent <= most:
        raise _refused(table, f"has {sent} columns where schema version {SCHEMA_VERSION} has {known}")
    return max(0, sent - known)


@cache
def _widths(table: str) -> tuple[int, int]:
    """Return how many columns we know, and how many every version that ever was had at least."""
    columns = TABLES[table].columns
    return len(columns), max(index for index, column in enumerate(columns) if column.required) + 1


def _layout(table: Table, message: pyarrow.ipc.Message) -> tuple[int, tuple[int, ...]]:
    """Return the columns and the buffers of a message, and refuse what would unpack to more than was declared."""
    metadata = memoryview(message.metadata)
    batch = _record_batch(metadata)
    if _slot(metadata, batch, _BATCH_COMPRESSION):
        raise _refused(table, "is compressed within; only the whole batch may be, so that its size is known first")
    nodes, _ = _vector(metadata, _slot(metadata, batch, _BATCH_NODES))
    count, start = _vector(metadata, _slot(metadata, batch, _BATCH_BUFFERS))
    return nodes, struct.unpack_from(f"<{2 * count}q", metadata, start)


def _record_batch(metadata: memoryview) -> int:
    return _follow(metadata, _slot(metadata, _follow(metadata, 0), _MESSAGE_HEADER))


def _vector(metadata: memoryview, slot: int) -> tuple[int, int]:
    """Return the length of a flatbuffers vector and where its elements begin; 0 where it is absent."""
    if not slot:
        return 0, 0
    at = _follow(metadata, slot)
    return int(_UINT32.unpack_from(metadata, at)[0]), at + 4


def _slot(metadata: memoryview, at: int, number: int) -> int:
    """Return where a flatbuffers table that lies `at` keeps its field of this number; 0 where it has none."""
    vtable = at - _INT32.unpack_from(metadata, at)[0]
    entry = 4 + 2 * number
    if entry >= _UINT16.unpack_from(metadata, vtable)[0]:
        return 0
    offset: int = _UINT16.unpack_from(metadata, vtable + entry)[0]
    return at + offset if offset else 0


def _follow(metadata: memoryview, at: int) -> int:
    return at + int(_UINT32.unpack_from(metadata, at)[0])


def _refused(table: Table, what: str) -> BatchError:
    return BatchError(400, "schema", f"table {table.name} {what}")


def _one_line(error: BaseException) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__
