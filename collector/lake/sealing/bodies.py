"""A body that was validated when it came, unpacked again. Its checksum says that it is still the same."""

import pyarrow as pa
import pyarrow.ipc

from agent.wire import EnvelopeError
from agent.wire.envelope import open_envelope
from agent.wire.tables import TABLES
from collector.errors import BatchError
from collector.pipeline.decoding.arrow_messages import message_schema

_MAX_BYTES = 2**31  # it was within the limit of its time, which may have been another


class BrokenBodyError(Exception):
    """A body that was kept is damaged."""


def unpack(body: bytes) -> dict[str, pa.RecordBatch]:
    """Return the rows of each table that we know.

    Raises:
        BrokenBodyError: the disk did not keep it as it was.
    """
    try:
        header, messages = open_envelope(body, _MAX_BYTES)
        return {
            part.name: _rows(part.name, messages[part.name], header.schema_version)
            for part in header.tables
            if part.name in TABLES
        }
    except (EnvelopeError, BatchError, pa.ArrowException) as error:
        raise BrokenBodyError(str(error)) from error


def _rows(name: str, message: memoryview, schema_version: int) -> pa.RecordBatch:
    parsed = pyarrow.ipc.read_message(pa.py_buffer(message))
    return pyarrow.ipc.read_record_batch(parsed, message_schema(TABLES[name], parsed, schema_version))
