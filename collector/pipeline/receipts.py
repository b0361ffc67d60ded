"""Receipts as rows: which batch came when, from whom, and by which hash it is known."""

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

_INTEGER: pa.DataType = pa.int64()
_TEXT: pa.DataType = pa.string()
_COLUMNS = pa.schema(
    {
        "batch": _INTEGER,
        "agent": _TEXT,
        "stream": _TEXT,
        "sequence": _INTEGER,
        "body_hash": _TEXT,
        "sent_at": _INTEGER,
        "received_at": _INTEGER,
        "schema_version": _INTEGER,
        "row_count": _INTEGER,
    }
)


@dataclass(frozen=True, slots=True)
class ReceiptRow:
    """A row of `receipts`. `body_hash` is the sha256 of the body as it travelled; times are microseconds UTC."""

    batch: int
    agent: str
    stream: str
    sequence: int
    body_hash: str
    sent_at: int
    received_at: int
    schema_version: int
    row_count: int


def as_table(rows: Iterable[ReceiptRow]) -> pa.Table:
    """Return receipts as Arrow, for one insert."""
    listed = list(rows)
    columns = {name: [getattr(row, name) for row in listed] for name in _COLUMNS.names}
    return pa.table(columns, schema=_COLUMNS)
