"""Batches for tests of what carries them."""

import os
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from agent.wire.envelope import encode, open_envelope
from agent.wire.tables import TABLES

PA_TYPES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "int64": pa.int64(),
    "float64": pa.float64(),
    "bool": pa.bool_(),
}


def batch(stream: str, sequence: int, busy: float = 0.5, rows: int = 1) -> bytes:
    """Return a small batch."""
    sample = {"node": "n14", "started_at": 1, "ended_at": 2, "cpu_busy_ratio": busy}
    return encode(agent="n14", stream=stream, sequence=sequence, sent_at=0, tables={"host_samples": [sample] * rows})


def bulky(stream: str, sequence: int, size: int) -> bytes:
    """Return a batch of about this many bytes, which no compression makes smaller."""
    row = {"node": "n14", "run_id": "declared/n14/x", "name": os.urandom(size).hex()}
    return encode(agent="n14", stream=stream, sequence=sequence, sent_at=0, tables={"allocations": [row]})


def maker(busy: float = 0.5, rows: int = 1) -> Callable[[str, int], bytes]:
    """Return what a spool wants: a function that makes a batch for a stream and a sequence."""
    return lambda stream, sequence: batch(stream, sequence, busy, rows)


def identity(body: bytes) -> tuple[str, int]:
    """Return the stream and the sequence of a batch."""
    header, _ = open_envelope(body)
    return header.stream, header.sequence


def rows_of(body: bytes, table: str) -> list[dict[str, Any]]:
    """Return the rows of one table of a batch, none where it has none of it."""
    header, messages = open_envelope(body)
    columns = TABLES[table].columns_at(header.schema_version)
    schema = pa.schema([(column.name, PA_TYPES[column.type]) for column in columns])
    if table not in messages:
        return []
    return pa.ipc.read_record_batch(pa.py_buffer(messages[table]), schema).to_pylist()


def busy_of(body: bytes) -> float:
    """Return the value by which a test knows its batch again."""
    return float(rows_of(body, "host_samples")[0]["cpu_busy_ratio"])
