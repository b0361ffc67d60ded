"""A body as it came to validated Arrow tables: all is checked here, so that whoever holds a Batch may trust it.

Rows that are made inside the collector, by a poll of a scheduler for one, become a batch like any agent's; and the rows
of many batches one table, each row with the number of its batch.
"""

import hashlib
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from agent.wire import EnvelopeError
from agent.wire.contract import MIN_READER, SCHEMA_VERSION
from agent.wire.envelope import Header, TablePart, declared_bytes, open_envelope, seal
from agent.wire.tables import TABLES
from collector.errors import BatchError
from collector.pipeline.decoding.arrow_messages import Message, read_message
from collector.pipeline.decoding.validation import Aside, Clock, Mask, Reason, parted, sift

_MAX_UNPACKED_BYTES = 64 * 2**20
_MAX_ROWS = 1_000_000  # of one batch: an agent's hour is some ten thousand


@dataclass(frozen=True, slots=True)
class Batch:
    """One validated batch. `ignored_columns` and `ignored_tables` are newer than this release and were not read.

    `quarantined` counts the rows of each table that were put aside, of which `asides` are the first; neither `tables`,
    `row_count` nor `body` has them.
    """

    header: Header
    body_hash: str  # sha256 of the body as it travelled, in hex
    received_at: int  # microseconds UTC, by our clock
    tables: dict[str, pa.RecordBatch]
    row_count: int
    ignored_columns: int = 0
    ignored_tables: int = 0
    body: bytes = b""  # as it travelled, or sealed again without the rows put aside; kept where rows are sealed later
    quarantined: Mapping[str, int] = field(default_factory=dict)
    asides: tuple[Aside, ...] = ()
    told_by: str | None = None  # the host whose own key its sender showed

    @property
    def byte_count(self) -> int:
        """The bytes that it takes in memory: the body, and its tables where they are held."""
        return len(self.body) + (sum(part.bytes for part in self.header.tables) if self.tables else 0)

    @property
    def row_counts(self) -> dict[str, int]:
        """The rows of each table that we know, without those put aside."""
        parts = ((part.name, part.rows - self.quarantined.get(part.name, 0)) for part in self.header.tables)
        return {name: rows for name, rows in parts if name in TABLES}

    def without_tables(self) -> "Batch":
        """Return the batch with its body alone: what is held where rows are read again when they are sealed."""
        return replace(self, tables={})

    def without(self, broken: Mapping[str, Sequence[tuple[Reason, Mask]]]) -> "Batch":
        """Return the batch without the rows of each table for which there is a reason; they are put aside."""
        sifted = {name: parted(TABLES[name], self.tables[name], reasons) for name, reasons in broken.items()}
        tables = self.tables | {name: each.rows for name, each in sifted.items()}
        more = Counter({name: each.count for name, each in sifted.items()})
        return replace(
            self,
            tables=tables,
            row_count=sum(rows.num_rows for rows in tables.values()),
            body=_sealed_again(self.header, tables),
            quarantined=Counter(self.quarantined) + more,
            asides=(*self.asides, *(aside for each in sifted.values() for aside in each.asides)),
        )


def decode(body: bytes, received_at: int, max_bytes: int = _MAX_UNPACKED_BYTES, max_rows: int = _MAX_ROWS) -> Batch:
    """Return the validated batch of a body that arrived at `received_at` (microseconds UTC).

    Rows that cannot be true are put aside, and cost nothing but themselves.

    Raises:
        BatchError: 400 it is no batch or not of the contract, 413 it is too large, 422 it is from the future, 426 it
            asks for a newer reader.
    """
    return read(opened_batch(body, max_bytes), received_at, max_rows)


@dataclass(frozen=True, slots=True)
class Opened:
    """A batch of which only the header was read. The messages are views into what it unpacks to, not looked at yet."""

    body: bytes
    header: Header
    messages: Mapping[str, memoryview]


def read(batch: Opened, received_at: int, max_rows: int = _MAX_ROWS) -> Batch:
    """Return the validated batch. Raises as decode() does."""
    header = batch.header
    _check_header(header, max_rows)
    clock = Clock(header.sent_at, received_at)
    clock.check()
    known = [part for part in header.tables if _known(part, header)]
    messages = {part.name: _message(part, batch.messages[part.name], header) for part in known}
    sifted = sift(messages, clock)
    tables = {name: table.rows for name, table in sifted.items()}
    quarantined = {name: table.count for name, table in sifted.items() if table.count}
    return Batch(
        header=header,
        body_hash=hashlib.sha256(batch.body).hexdigest(),
        received_at=received_at,
        tables=tables,
        row_count=sum(rows.num_rows for rows in tables.values()),
        ignored_columns=sum(message.beyond for message in messages.values()),
        ignored_tables=len(header.tables) - len(tables),
        body=_sealed_again(header, tables) if quarantined else batch.body,
        quarantined=quarantined,
        asides=tuple(aside for table in sifted.values() for aside in table.asides),
    )


def opened_batch(body: bytes, max_bytes: int = _MAX_UNPACKED_BYTES) -> Opened:
    """Return a batch of which the header is read.

    Raises:
        BatchError: 400 it is no batch, 413 it is too large.
    """
    try:
        declared = declared_bytes(body)
        if declared > max_bytes:
            raise BatchError(
                413,
                "too_large",
                f"the batch unpacks to {declared} bytes where {max_bytes} are allowed; send less at once",
            )
        return Opened(body, *open_envelope(body, max_bytes))
    except EnvelopeError as error:
        raise BatchError(400, "envelope", str(error)) from error


def _check_header(header: Header, max_rows: int) -> None:
    if header.min_reader > SCHEMA_VERSION:
        raise BatchError(
            426,
            "upgrade",
            f"the batch needs a reader of schema version {header.min_reader} and this collector has "
            f"{SCHEMA_VERSION}; upgrade the collector, the agent keeps the batch",
        )
    if sum(part.rows for part in header.tables) > max_rows:
        raise BatchError(413, "rows", f"the batch has more than the {max_rows} rows that are allowed; send it in parts")


def _known(part: TablePart, header: Header) -> bool:
    """Whether we know this table; a newer agent may send more, an agent of our version may not."""
    if part.name in TABLES:
        return True
    if header.schema_version <= SCHEMA_VERSION:
        raise BatchError(400, "schema", f"schema version {header.schema_version} has no table {part.name}")
    return False


def _message(part: TablePart, content: memoryview, header: Header) -> Message:
    message = read_message(TABLES[part.name], content, header.schema_version)
    if message.rows.num_rows != part.rows:
        raise BatchError(
            400, "schema", f"table {part.name} holds {message.rows.num_rows} rows where the header declares {part.rows}"
        )
    return message


def _sealed_again(header: Header, tables: Mapping[str, pa.RecordBatch]) -> bytes:
    """Return the body of the rows that are left: who reads it later need not judge them again."""
    messages = {name: bytes(rows.serialize()) for name, rows in tables.items()}
    parts = tuple(TablePart(name, tables[name].num_rows, len(message)) for name, message in messages.items())
    version = min(header.schema_version, SCHEMA_VERSION)  # our columns: what a newer agent adds has been left out
    return seal(replace(header, tables=parts, schema_version=version), list(messages.values()))


_TOLD_BY = "told_by"
_TEXT: pa.DataType = pa.string()


@dataclass(frozen=True, slots=True)
class BatchPart:
    """The rows of one batch: its number, and the host whose own key brought it; None where another's did."""

    batch: int
    told_by: str | None
    rows: pa.RecordBatch


def merged(parts: Iterable[BatchPart]) -> pa.Table:
    """Return one table of many batches' rows of one table, in one chunk. Who told a row is set here, by no sender.

    DuckDB inserts one chunk of many rows up to 1.7 times as fast as many chunks of few (spikes.md).
    """
    by_width: dict[int, list[BatchPart]] = {}
    for part in parts:
        by_width.setdefault(part.rows.num_columns, []).append(part)  # of agents of several versions
    return pa.concat_tables(map(_numbered, by_width.values()), promote_options="default").combine_chunks()


def _numbered(parts: list[BatchPart]) -> pa.Table:
    table = pa.Table.from_batches([part.rows for part in parts])
    if "run_id" in table.column_names:
        told = pa.array([part.told_by for part in parts for _ in range(part.rows.num_rows)], _TEXT)
        table = table.drop_columns([_TOLD_BY] if _TOLD_BY in table.column_names else []).append_column(_TOLD_BY, told)
    numbers = [part.batch for part in parts for _ in range(part.rows.num_rows)]
    return table.append_column("batch", pa.array(numbers, pa.int64()))


def encoded_batch(
    *,
    agent: str,
    stream: str,
    sequence: int,
    tables: Mapping[str, pa.RecordBatch],
    body_hash: str | None = None,
    sent_at: int | None = None,
) -> Batch:
    """Return the batch of these rows, whose columns are the contract's, in its order, all of them.

    `sent_at` is when the rows were found, microseconds UTC, where not now. `body_hash` says by what a repetition
    is known, where that is not the rows themselves. The rows must have been checked: what is packed here is not looked
    at again.
    """
    now = time.time_ns() // 1000 if sent_at is None else sent_at
    held = {name: rows for name, rows in tables.items() if rows.num_rows}
    messages = {name: bytes(rows.serialize()) for name, rows in held.items()}
    parts = tuple(TablePart(name, rows.num_rows, len(messages[name])) for name, rows in held.items())
    header = Header(agent, stream, sequence, now, SCHEMA_VERSION, MIN_READER, parts)
    body = seal(header, list(messages.values()))
    return Batch(
        header,
        body_hash or hashlib.sha256(body).hexdigest(),
        now,
        held,
        sum(rows.num_rows for rows in held.values()),
        body=body,
    )
