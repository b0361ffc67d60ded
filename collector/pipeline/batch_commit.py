"""Put batches into the store: a group in one transaction, each with its receipt, each exactly once.

Where there is a lake, batches are kept as they came until they are sealed into it: their bodies are compressed and few,
where their rows would cost several times as much to write, and again to move. Where there is none, rows go into the
tables of the one file at once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from agent.wire.tables import TABLES
from collector.errors import BatchError, StoreError
from collector.pipeline.batch_rows import BatchPart, merged
from collector.pipeline.quarantine import keep
from collector.pipeline.receipts import ReceiptRow, as_table
from collector.pipeline.streams import MAX_STREAMS, StreamBook, StreamKey
from collector.store.numbering import BatchNumbers
from collector.store.seal_mark import Mark
from collector.tenancy.disown import disown

if TYPE_CHECKING:
    from collector.pipeline.decoding.batch import Batch
    from collector.store.database import Store

_NEWEST = 2**63 - 1  # a batch that none comes after
_NUMBER: pa.DataType = pa.int64()
_BODY: pa.DataType = pa.large_binary()
_TEXT: pa.DataType = pa.string()
_ARRIVALS = pa.schema({"batch": _NUMBER, "body": _BODY, "told_by": _TEXT})


@dataclass(frozen=True, slots=True)
class Receipt:
    """A batch is in the store, durably. `repeated` is True where it already was and nothing was added.

    `sealed_through` is the highest sequence of the stream that the lake has: up to there an agent may forget. Where
    there is no lake it is the highest that is committed, since nothing will ever be safer. It passes over gaps on
    purpose: an agent sends oldest first and one at a time, so what is missing below was dropped or refused, and will
    never come.
    """

    sequence: int
    sealed_through: int
    repeated: bool


class BatchCommit:
    """The only writer of batches and their receipts. Use it in one thread, one BatchCommit to a store; close it.

    `mark` is what the sealer moves; without one it is read once, which does where nobody seals. In a `shared` lake
    other collectors have receipts too.
    """

    def __init__(
        self, store: "Store", mark: Mark | None = None, max_streams: int = MAX_STREAMS, *, shared: bool = False
    ) -> None:
        self._mark = mark = mark or Mark.of(store)
        self._keeps_bodies = store.lake is not None
        self._session = store.hot_session()
        self._store = store
        self._streams = StreamBook(self._session, max_streams, mark if self._keeps_bodies else None, shared=shared)
        (last,) = self._session.row("SELECT coalesce(max(batch), 0) FROM receipts")
        self._numbers = BatchNumbers(mark.collector, max(last, mark.upto))
        self._dropped = 0

    def __enter__(self) -> "BatchCommit":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the cursor back."""
        self._session.close()

    def dropped(self) -> int:
        """Return how many rows put aside could not be kept since this was last asked."""
        dropped, self._dropped = self._dropped, 0
        return dropped

    def land(self, batches: Sequence["Batch"]) -> list[Receipt | BatchError]:
        """Commit what is new of these and return for each its receipt, or the 409 of a number used twice.

        Raises:
            StoreError: nothing of the group was stored, or nobody knows whether a power cut would leave it.
        """
        taken = self._streams.hashes(map(_key, batches))
        fresh: dict[StreamKey, Batch] = {}
        for batch in batches:
            if _key(batch) not in taken:
                fresh[_key(batch)] = batch
                taken[_key(batch)] = batch.body_hash
        if fresh:
            numbers = self._numbers.next(len(fresh))
            self._commit(list(zip(numbers, fresh.values(), strict=True)))
            self._streams.advance(zip(numbers, fresh, strict=True))
        answers = [self._answer(batch, taken[_key(batch)], fresh.get(_key(batch)) is not batch) for batch in batches]
        self._streams.forget_oldest()
        if self._store.trouble is not None:
            raise StoreError(self._store.trouble)
        return answers

    def take_over(self, since: Mapping[str, int]) -> None:
        """Look at streams anew that are ours since a time (microseconds UTC), and forget what they left here before.

        Raises:
            StoreError: the store refused.
        """
        if since:
            disown(self._session, since, self._mark.upto, _NEWEST)
            self._streams.forget(since)

    def _answer(self, batch: "Batch", taken: str, repeated: bool) -> Receipt | BatchError:
        sequence, stream = batch.header.sequence, batch.header.stream
        if taken != batch.body_hash:
            return BatchError(
                409, "conflict", f"stream {stream} has used sequence {sequence} for another batch; begin a new stream"
            )
        return Receipt(sequence, self._streams.sealed(stream), repeated)

    def _commit(self, numbered: list[tuple[int, "Batch"]]) -> None:
        with self._session.transaction():
            if self._keeps_bodies:
                rows = [(number, batch.body, batch.told_by) for number, batch in numbered]
                columns = dict(zip(_ARRIVALS.names, map(list, zip(*rows, strict=True)), strict=True))
                self._session.insert("arrivals", pa.table(columns, schema=_ARRIVALS))
            else:
                self._insert_rows(numbered)
            self._session.insert("receipts", as_table(_receipt(*each) for each in numbered))
            dropped = keep(self._session, numbered)
        self._dropped += dropped

    def _insert_rows(self, numbered: list[tuple[int, "Batch"]]) -> None:
        for name in TABLES:
            parts = [
                BatchPart(number, batch.told_by, batch.tables[name])
                for number, batch in numbered
                if name in batch.tables
            ]
            if parts:
                self._session.insert(name, merged(parts))


def _key(batch: "Batch") -> StreamKey:
    return batch.header.stream, batch.header.sequence


def _receipt(number: int, batch: "Batch") -> ReceiptRow:
    header = batch.header
    return ReceiptRow(
        number,
        header.agent,
        header.stream,
        header.sequence,
        batch.body_hash,
        header.sent_at,
        batch.received_at,
        header.schema_version,
        batch.row_count,
    )
