"""Put batches into the store: a group in one transaction, each with its receipt, each exactly once."""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from agent.wire.contract import MIN_READER, SCHEMA_VERSION
from agent.wire.envelope import Header
from agent.wire.tables import TABLES
from collector.decode import Batch
from collector.errors import BatchError
from collector.store.session import Session
from collector.streams import MAX_STREAMS, Key, StreamBook

_INTEGER: pa.DataType = pa.int64()
_TEXT: pa.DataType = pa.string()
_RECEIPTS = pa.schema(
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
class Receipt:
    """A batch is in the store, durably. `repeated` is True where it already was and nothing was added.

    `sealed_through` is the highest committed sequence of the stream: what an agent was answered for, up to there, it
    may forget. Committed is enough where there is one hot file, since a commit is synced to its log and the log is
    replayed at the next start; a checkpoint makes nothing safer. It passes over gaps on purpose: an agent sends
    oldest first and one at a time, so what is missing below was dropped or refused, and will never come.
    """

    sequence: int
    sealed_through: int
    repeated: bool


class Landing:
    """The only writer of samples and receipts. Use it in one thread, one Landing to a store."""

    def __init__(self, session: Session, max_streams: int = MAX_STREAMS) -> None:
        self._session = session
        self._streams = StreamBook(session, max_streams)
        (self._last_batch,) = session.row("SELECT coalesce(max(batch), 0) FROM receipts")

    def land(self, batches: Sequence[Batch]) -> list[Receipt | BatchError]:
        """Commit what is new of these and return for each its receipt, or the 409 of a number used twice.

        Raises:
            StoreError: nothing of the group was stored.
        """
        taken = self._streams.hashes(map(_key, batches))
        fresh: dict[Key, Batch] = {}
        for batch in batches:
            if _key(batch) not in taken:
                fresh[_key(batch)] = batch
                taken[_key(batch)] = batch.body_hash
        if fresh:
            self._commit(list(fresh.values()))
            self._streams.advance(fresh)
        answers = [self._answer(batch, taken[_key(batch)], fresh.get(_key(batch)) is not batch) for batch in batches]
        self._streams.forget_oldest()
        return answers

    def has(self, stream: str, sequence: int) -> bool:
        """Whether the store has taken this batch."""
        return bool(self._streams.hashes([(stream, sequence)]))

    @contextmanager
    def parcel(self, *, agent: str, stream: str, body_hash: str) -> Iterator["Parcel"]:
        """Take one batch in pieces, of any size, in one transaction: all of it lands with its receipt, or nothing.

        Raises:
            StoreError: nothing of it was stored.
        """
        number = self._last_batch + 1
        with self._session.transaction():
            parcel = Parcel(self._session, number)
            yield parcel
            now = time.time_ns() // 1000
            header = Header(agent, stream, 0, now, SCHEMA_VERSION, MIN_READER, ())
            self._session.insert("receipts", _receipts([(number, Batch(header, body_hash, now, {}, parcel.row_count))]))
        self._last_batch = number
        self._streams.advance([(stream, 0)])

    def _answer(self, batch: Batch, taken: str, repeated: bool) -> Receipt | BatchError:
        sequence, stream = batch.header.sequence, batch.header.stream
        if taken != batch.body_hash:
            return BatchError(
                409, "conflict", f"stream {stream} has used sequence {sequence} for another batch; begin a new stream"
            )
        return Receipt(sequence, self._streams.highest(stream), repeated)

    def _commit(self, batches: list[Batch]) -> None:
        numbered = list(enumerate(batches, self._last_batch + 1))
        with self._session.transaction():
            for name in TABLES:
                parts = [(number, b.tables[name]) for number, b in numbered if name in b.tables]
                if parts:
                    self._session.insert(name, _merged(parts))
            self._session.insert("receipts", _receipts(numbered))
        self._last_batch += len(batches)


class Parcel:
    """A batch that comes in pieces."""

    def __init__(self, session: Session, number: int) -> None:
        self._session = session
        self._number = number
        self.row_count = 0

    def add(self, table: str, rows: pa.Table) -> None:
        """Append rows to a table of the contract."""
        numbers = pa.chunked_array([pa.repeat(pa.scalar(self._number, pa.int64()), rows.num_rows)])
        self._session.insert(table, rows.append_column("batch", numbers))
        self.row_count += rows.num_rows


def _key(batch: Batch) -> Key:
    return batch.header.stream, batch.header.sequence


def _merged(parts: list[tuple[int, pa.RecordBatch]]) -> pa.Table:
    """Return one table of many batches, each row with the number of its batch, in one chunk.

    DuckDB inserts one chunk of many rows up to 1.7 times as fast as many chunks of few (spikes.md).
    """
    by_width: dict[int, list[pa.RecordBatch]] = {}
    for number, rows in parts:
        numbers = pa.repeat(pa.scalar(number, pa.int64()), rows.num_rows)
        by_width.setdefault(rows.num_columns, []).append(rows.append_column("batch", numbers))
    tables = [pa.Table.from_batches(batches) for batches in by_width.values()]
    return pa.concat_tables(tables, promote_options="default").combine_chunks()


def _receipts(numbered: Iterable[tuple[int, Batch]]) -> pa.Table:
    rows = [
        {
            "batch": number,
            "agent": batch.header.agent,
            "stream": batch.header.stream,
            "sequence": batch.header.sequence,
            "body_hash": batch.body_hash,
            "sent_at": batch.header.sent_at,
            "received_at": batch.received_at,
            "schema_version": batch.header.schema_version,
            "row_count": batch.row_count,
        }
        for number, batch in numbered
    ]
    return pa.Table.from_pylist(rows, schema=_RECEIPTS)
