"""A body as it came to validated Arrow tables: all is checked here, so that whoever holds a Batch may trust it."""

import hashlib
from dataclasses import dataclass

import pyarrow as pa

from agent.wire import EnvelopeError
from agent.wire.contract import SCHEMA_VERSION
from agent.wire.envelope import Header, TablePart, declared_bytes, open_envelope
from agent.wire.tables import TABLES
from collector.arrow_messages import read_message
from collector.errors import BatchError
from collector.glance import check
from collector.plausible import Clock

MAX_UNPACKED_BYTES = 64 * 2**20
MAX_ROWS = 1_000_000  # of one batch: an agent's hour is some ten thousand


@dataclass(frozen=True, slots=True)
class Batch:
    """One validated batch. `ignored_columns` and `ignored_tables` are newer than this release and were not read."""

    header: Header
    body_hash: str  # sha256 of the body as it travelled, in hex
    received_at: int  # microseconds UTC, by our clock
    tables: dict[str, pa.RecordBatch]
    row_count: int
    ignored_columns: int = 0
    ignored_tables: int = 0

    @property
    def byte_count(self) -> int:
        """The bytes that its tables take in memory."""
        return sum(rows.nbytes for rows in self.tables.values())


def decode(body: bytes, received_at: int, max_bytes: int = MAX_UNPACKED_BYTES, max_rows: int = MAX_ROWS) -> Batch:
    """Return the validated batch of a body that arrived at `received_at` (microseconds UTC).

    Raises:
        BatchError: 400 it is no batch or not of the contract, 413 it is too large, 422 a value is not to be believed,
            426 it asks for a newer reader.
    """
    header, messages = _opened(body, max_bytes)
    if header.min_reader > SCHEMA_VERSION:
        raise BatchError(
            426,
            "upgrade",
            f"the batch needs a reader of schema version {header.min_reader} and this collector has "
            f"{SCHEMA_VERSION}; upgrade the collector, the agent keeps the batch",
        )
    if sum(part.rows for part in header.tables) > max_rows:
        raise BatchError(413, "rows", f"the batch has more than the {max_rows} rows that are allowed; send it in parts")
    clock = Clock(header.sent_at, received_at)
    clock.check()
    tables: dict[str, pa.RecordBatch] = {}
    ignored = 0
    for part in header.tables:
        if _known(part, header):
            rows, beyond = _rows(part, messages[part.name], header)
            ignored += beyond
            check(TABLES[part.name], rows, clock)
            tables[part.name] = rows
    row_count = sum(rows.num_rows for rows in tables.values())
    body_hash = hashlib.sha256(body).hexdigest()
    return Batch(header, body_hash, received_at, tables, row_count, ignored, len(header.tables) - len(tables))


def _opened(body: bytes, max_bytes: int) -> tuple[Header, dict[str, memoryview]]:
    try:
        declared = declared_bytes(body)
        if declared > max_bytes:
            raise BatchError(
                413,
                "too_large",
                f"the batch unpacks to {declared} bytes where {max_bytes} are allowed; send less at once",
            )
        return open_envelope(body, max_bytes)
    except EnvelopeError as error:
        raise BatchError(400, "envelope", str(error)) from error


def _known(part: TablePart, header: Header) -> bool:
    """Whether we know this table; a newer agent may send more, an agent of our version may not."""
    if part.name in TABLES:
        return True
    if header.schema_version <= SCHEMA_VERSION:
        raise BatchError(400, "schema", f"schema version {header.schema_version} has no table {part.name}")
    return False


def _rows(part: TablePart, message: memoryview, header: Header) -> tuple[pa.RecordBatch, int]:
    rows, beyond = read_message(TABLES[part.name], message, header.schema_version)
    if rows.num_rows != part.rows:
        raise BatchError(
            400, "schema", f"table {part.name} holds {rows.num_rows} rows where the header declares {part.rows}"
        )
    return rows, beyond
