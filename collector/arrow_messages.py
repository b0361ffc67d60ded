"""One table's Arrow message to a validated record batch; hostile bytes must end in a sentence, never in a crash.

A message travels without its schema. Columns are only ever appended to a table, so the number of columns that a
message carries says which prefix of the table's columns it holds: an older agent sent fewer, a newer one sent more,
of which the known prefix is read and the rest is left alone.
"""

import struct
from functools import cache

import pyarrow as pa
import pyarrow.ipc

from agent.wire.contract import SCHEMA_VERSION, Table
from agent.wire.tables import TABLES
from collector.errors import BatchError

_TYPES = {"string": pa.string(), "int64": pa.int64(), "float64": pa.float64(), "bool": pa.bool_()}

# Slots of the flatbuffers Message and RecordBatch (Arrow columnar format, Message.fbs).
_MESSAGE_HEADER, _BATCH_NODES, _BATCH_COMPRESSION = 2, 1, 3


def arrow_schema(table: Table, columns: int | None = None) -> pa.Schema:
    """Return the Arrow schema of a table's first columns, or of all of them."""
    return _schema(table.name, columns)


@cache
def _schema(table: str, columns: int | None) -> pa.Schema:
    fields = [pa.field(c.name, _TYPES[c.type], nullable=not c.required) for c in TABLES[table].columns[:columns]]
    return pa.schema(fields)


def read_message(table: Table, message: memoryview, schema_version: int) -> tuple[pa.RecordBatch, int]:
    """Return the rows of one table and the number of columns that a newer agent sent beyond those we know.

    Raises:
        BatchError: 400, it is no Arrow record batch of this table.
    """
    try:
        parsed = pyarrow.ipc.read_message(pa.py_buffer(message))  # verifies the metadata, which we may then walk
        if parsed.type != "record batch":
            raise _refused(table, f"is an Arrow {parsed.type} and no record batch")
        sent = _column_count(table, parsed)
        beyond = _columns_beyond(table, sent, schema_version)
        rows = pyarrow.ipc.read_record_batch(parsed, arrow_schema(table, sent - beyond))
        rows.validate(full=True)  # without it mutated bodies crashed the process in every run tried (spikes.md)
    except (pa.ArrowException, OSError, EOFError, ValueError, struct.error) as error:
        raise _refused(table, f"is not valid Arrow: {_one_line(error)}") from error
    return rows, beyond


def _columns_beyond(table: Table, sent: int, schema_version: int) -> int:
    """Return how many of the columns are newer than us; the number must suit the version that is claimed."""
    known = len(table.columns)
    oldest = max(index for index, column in enumerate(table.columns) if column.required) + 1
    least, most = known, known
    if schema_version < SCHEMA_VERSION:
        least = oldest
    if schema_version > SCHEMA_VERSION:
        most = sent
    if not least <= sent <= most:
        raise _refused(table, f"has {sent} columns where schema version {SCHEMA_VERSION} has {known}")
    return max(0, sent - known)


def _column_count(table: Table, message: pyarrow.ipc.Message) -> int:
    """Return the number of columns in a message, and refuse what would unpack to more than was declared."""
    metadata = message.metadata
    batch = _follow(metadata, _slot(metadata, _follow(metadata, 0), _MESSAGE_HEADER))
    if _slot(metadata, batch, _BATCH_COMPRESSION):
        raise _refused(table, "is compressed within; only the whole batch may be, so that its size is known first")
    nodes = _slot(metadata, batch, _BATCH_NODES)
    return int(struct.unpack_from("<I", metadata, _follow(metadata, nodes))[0]) if nodes else 0


def _slot(metadata: pa.Buffer, at: int, number: int) -> int:
    """Return where a flatbuffers table that lies `at` keeps its field of this number; 0 where it has none."""
    vtable = at - struct.unpack_from("<i", metadata, at)[0]
    entry = 4 + 2 * number
    if entry >= struct.unpack_from("<H", metadata, vtable)[0]:
        return 0
    offset: int = struct.unpack_from("<H", metadata, vtable + entry)[0]
    return at + offset if offset else 0


def _follow(metadata: pa.Buffer, at: int) -> int:
    return at + int(struct.unpack_from("<I", metadata, at)[0])


def _refused(table: Table, what: str) -> BatchError:
    return BatchError(400, "schema", f"table {table.name} {what}")


def _one_line(error: BaseException) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__
