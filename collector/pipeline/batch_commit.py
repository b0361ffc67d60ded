"""Put batches into the store: a group in one transaction, each with its receipt, each exactly once.

What the store already has of each stream says that a batch counts once however often it is delivered. What an earlier
tenancy left is forgotten: batches that were answered, not sealed, and whose stream another has had since. The agents
keep them until they are sealed, and have sent them to the next owner.

Where there is a lake, batches are kept as they came until they are sealed into it: their bodies are compressed and few,
where their rows would cost several times as much to write, and again to move. Where there is none, rows go into the
tables of the one file at once.

The rows that were put aside are kept for a person to look at, in the hot file, in the transaction that brings the batch
they came with: what they say and why they were not believed. They are evidence and no data: so many and no more are
kept, the oldest go first, and every one that is not kept is counted.

Files and histories are brought as one large batch in pieces: all of it lands with its receipt, or nothing. It goes
straight to where readers look, the lake if there is one; a body would have to be held as a whole.
"""

import time
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from agent.wire.contract import SCHEMA_VERSION, Table
from agent.wire.tables import TABLES
from collector.errors import BatchError, StoreError
from collector.pipeline.decoding.batch import Batch, BatchPart, merged
from collector.pipeline.decoding.validation import is_interval, pc
from collector.store.database import Store
from collector.store.lake import delete
from collector.store.seal_mark import COLLECTOR_BITS, FIRST_COLLECTOR, BatchNumbers, Mark, recalled
from collector.store.session import Session, literal

MAX_STREAMS = 100_000  # remembered; what is forgotten is looked up again
StreamKey = tuple[str, int]  # stream and sequence
_OWN = "SELECT stream, sequence, body_hash, batch, false AS sealed FROM receipts"
# Of a shared lake also what other collectors have sealed; what both have is one row twice, which changes no maximum.
_EVERYWHERE = f"{_OWN} UNION ALL SELECT stream, sequence, body_hash, batch, true FROM lake.main.receipts"


class _StreamBook:
    """The highest committed sequence of each stream, and the highest that is sealed, from the receipts.

    A sequence above the highest is new without a look-up, which is every batch but the repeated ones. For those the
    receipts are read, once for a whole group. `mark` says up to which batch the lake has all; where there is no lake,
    what is committed is as safe as it will ever be.

    Where the lake has lost what was sealed, its streams are recalled: their agents hear a number below any that they
    have heard, and send all again that they hold, the oldest first, until one comes that is beyond the first that
    heard so.
    """

    def __init__(
        self, session: Session, max_streams: int = MAX_STREAMS, mark: Mark | None = None, *, shared: bool = False
    ) -> None:
        self._session = session
        self._max_streams = max_streams
        self._mark = mark
        self._receipts = f"({_EVERYWHERE if shared else _OWN})"
        self._highest: OrderedDict[str, int] = OrderedDict()
        self._sealed: dict[str, int] = {}
        self._unsealed: deque[tuple[int, str, int]] = deque()  # batch, stream, sequence, in the order of commits
        self._recalled: dict[str, int | None] = {}  # streams, and the first sequence that heard of it
        self._recall = -2
        self._changes = -1  # of the mark, that are known here
        self.look()

    def look(self) -> None:
        """Begin anew where the lake is not as it was: the receipts are other ones."""
        if self._mark is None or self._changes == self._mark.changes:
            return
        changes, upto = self._mark.changes, self._mark.upto
        waiting = self._session.rows(
            "SELECT batch, stream, sequence FROM receipts WHERE batch > ? ORDER BY batch", [upto]
        )
        self._recalled = dict.fromkeys(recalled(self._session))
        self._recall = -time.time_ns() // 10**9  # an agent that is recalled again has heard of the first
        self._unsealed = deque(waiting)
        self._highest.clear()
        self._sealed.clear()
        self._changes = changes

    def highest(self, stream: str) -> int:
        """Return the highest committed sequence of a stream that was learned of or advanced; -1 where there is none."""
        return self._highest.get(stream, -1)

    def sealed(self, stream: str, sequence: int) -> int:
        """Return the highest sequence of such a stream that is safe where every reader finds it; -1 where none is.

        `sequence` is the one that is answered. Below -1 is a recall.
        """
        if self._mark is None:
            return self.highest(stream)
        if stream in self._recalled:
            first = self._recalled[stream]
            if first is None or sequence <= first:
                self._recalled[stream] = sequence if first is None else first
                return self._recall
            del self._recalled[stream]
        while self._unsealed and self._unsealed[0][0] <= self._mark.upto:
            _, passed, sequence = self._unsealed.popleft()
            if passed in self._highest:
                self._sealed[passed] = max(sequence, self._sealed.get(passed, -1))
        return self._sealed.get(stream, -1)

    def hashes(self, keys: Iterable[StreamKey]) -> dict[StreamKey, str]:
        """Return the body hash of those keys that the store has taken."""
        wanted = list(keys)
        self._learn({stream for stream, _ in wanted})
        old = [(stream, sequence) for stream, sequence in wanted if sequence <= self._highest[stream]]
        if not old:
            return {}
        found = self._session.rows(
            f"SELECT stream, sequence, body_hash FROM {self._receipts} JOIN (SELECT unnest(?::VARCHAR[]) AS stream, "
            "unnest(?::BIGINT[]) AS sequence) USING (stream, sequence)",
            [[stream for stream, _ in old], [sequence for _, sequence in old]],
        )
        return {(stream, sequence): body_hash for stream, sequence, body_hash in found}

    def advance(self, committed: Iterable[tuple[int, StreamKey]]) -> None:
        """Note what has been committed, each with the number of its batch, ascending."""
        for batch, (stream, sequence) in committed:
            self._highest[stream] = max(sequence, self.highest(stream))
            if self._mark is not None:
                self._unsealed.append((batch, stream, sequence))

    def forget(self, streams: Iterable[str]) -> None:
        """Look at these streams anew when they are met next: another collector has had them."""
        others = set(streams)
        for stream in others:
            self._highest.pop(stream, None)
            self._sealed.pop(stream, None)
        self._unsealed = deque(each for each in self._unsealed if each[1] not in others)

    def forget_oldest(self) -> None:
        """Keep memory bounded; call it when a group is done."""
        while len(self._highest) > self._max_streams:
            stream, _ = self._highest.popitem(last=False)
            self._sealed.pop(stream, None)

    def _learn(self, streams: set[str]) -> None:
        unknown = [stream for stream in streams if stream not in self._highest]
        for stream in streams:
            self._highest.setdefault(stream, -1)
            self._highest.move_to_end(stream)
        if not unknown:
            return
        upto = self._mark.upto if self._mark is not None else 0
        for stream, highest, sealed in self._session.rows(
            f"SELECT stream, max(sequence), max(sequence) FILTER (sealed OR batch <= ?) FROM {self._receipts} "
            "WHERE stream IN (SELECT unnest(?::VARCHAR[])) GROUP BY stream",
            [upto, unknown],
        ):
            self._highest[stream] = highest
            if sealed is not None:
                self._sealed[stream] = sealed


# Batches are numbered by the clock that dates the leases, so that a number says under which tenancy it was given.
_LEFT = f"""
SELECT r.batch
FROM receipts r JOIN (SELECT unnest(?::VARCHAR[]) AS stream, unnest(?::BIGINT[]) AS since) h USING (stream)
WHERE r.batch > ? AND r.batch <= ? AND (r.batch >> {COLLECTOR_BITS}) < h.since
"""
NEVER = 2**55  # a since that no batch comes after: of streams that are not ours any more


def disown(hot: Session, since: Mapping[str, int], after: int, upto: int) -> int:
    """Forget of these streams what came before they were ours, between two batches, and return how many it was.

    Raises:
        StoreError: the hot file refused; nothing was forgotten.
    """
    left = [batch for (batch,) in hot.rows(_LEFT, [list(since), list(since.values()), after, upto])]
    if left:
        with hot.transaction():
            for table in ("arrivals", "receipts"):
                hot.execute(f"DELETE FROM {table} WHERE batch IN (SELECT unnest(?::BIGINT[]))", [left])
    return len(left)


_INTEGER: pa.DataType = pa.int64()
_TEXT: pa.DataType = pa.string()


@dataclass(frozen=True, slots=True)
class _ReceiptRow:
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


_RECEIPTS = pa.schema({name: {int: _INTEGER, str: _TEXT}[kind] for name, kind in _ReceiptRow.__annotations__.items()})


def _as_table(rows: Iterable[_ReceiptRow]) -> pa.Table:
    """Return receipts as Arrow, for one insert."""
    listed = list(rows)
    columns = {name: [getattr(row, name) for row in listed] for name in _RECEIPTS.names}
    return pa.table(columns, schema=_RECEIPTS)


_MAX_ROWS = 10_000
_SPARE = _MAX_ROWS // 10  # beyond which the oldest are dropped, so that not every commit has to
_NUMBERS, _TEXTS = ("batch", "received_at"), ("agent", "table_name", "column_name", "reason", "content")
_QUARANTINE = pa.schema({**dict.fromkeys(_NUMBERS, _INTEGER), **dict.fromkeys(_TEXTS, _TEXT)})


def keep_asides(session: Session, numbered: Iterable[tuple[int, Batch]], max_rows: int = _MAX_ROWS) -> int:
    """Keep what was put aside of these batches, within the caller's transaction; return how many rows had to go.

    Raises:
        StoreError: the store refused; so does the caller's transaction.
    """
    batches = [(number, batch) for number, batch in numbered if batch.quarantined]
    if not batches:
        return 0
    rows = [
        (number, batch.received_at, batch.header.agent, aside.table, aside.column, aside.reason, aside.content)
        for number, batch in batches
        for aside in batch.asides
    ]
    told_of = sum(sum(batch.quarantined.values()) for _, batch in batches)
    newest = rows[-max_rows:]
    columns = dict(zip(_QUARANTINE.names, map(list, zip(*newest, strict=True)), strict=True))
    session.insert("quarantine", pa.table(columns, schema=_QUARANTINE))
    return told_of - len(newest) + _drop_oldest(session, max_rows)


def _drop_oldest(session: Session, max_rows: int) -> int:
    (held,) = session.row("SELECT count(*) FROM quarantine")
    if held <= max_rows + _SPARE:
        return 0
    session.execute(
        "DELETE FROM quarantine WHERE rowid IN (SELECT rowid FROM quarantine ORDER BY batch, rowid LIMIT ?)",
        [held - max_rows],
    )
    return int(held - max_rows)


_NEWEST = 2**63 - 1  # a batch that none comes after
_BODY: pa.DataType = pa.large_binary()
_ARRIVALS = pa.schema({"batch": _INTEGER, "body": _BODY, "told_by": _TEXT})


@dataclass(frozen=True, slots=True)
class Receipt:
    """A batch is in the store, durably. `repeated` is True where it already was and nothing was added.

    `sealed_through` is the highest sequence of the stream that the lake has: up to there an agent may forget. Where
    there is no lake it is the highest that is committed, since nothing will ever be safer. It passes over gaps on
    purpose: an agent sends oldest first and one at a time, so what is missing below was dropped or refused, and will
    never come. Below -1 it asks for all that the agent holds: the lake has lost what was sealed into it.
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
        self, store: Store, mark: Mark | None = None, max_streams: int = MAX_STREAMS, *, shared: bool = False
    ) -> None:
        self._mark = mark = mark or Mark.of(store)
        self._keeps_bodies = store.lake is not None
        self._session = store.hot_session()
        self._store = store
        self._streams = _StreamBook(self._session, max_streams, mark if self._keeps_bodies else None, shared=shared)
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

    def land(self, batches: Sequence[Batch]) -> list[Receipt | BatchError]:
        """Commit what is new of these and return for each its receipt, or the 409 of a number used twice.

        Raises:
            StoreError: nothing of the group was stored, or nobody knows whether a power cut would leave it.
        """
        self._streams.look()
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
        """Look at streams anew that are ours since a time (microseconds UTC), and forget what they left here before."""
        if since:
            disown(self._session, since, self._mark.upto, _NEWEST)
            self._streams.forget(since)

    def _answer(self, batch: Batch, taken: str, repeated: bool) -> Receipt | BatchError:
        sequence, stream = batch.header.sequence, batch.header.stream
        if taken != batch.body_hash:
            return BatchError(
                409, "conflict", f"stream {stream} has used sequence {sequence} for another batch; start a new stream"
            )
        return Receipt(sequence, self._streams.sealed(stream, sequence), repeated)

    def _commit(self, numbered: list[tuple[int, Batch]]) -> None:
        with self._session.transaction():
            if self._keeps_bodies:
                rows = [(number, batch.body, batch.told_by) for number, batch in numbered]
                columns = dict(zip(_ARRIVALS.names, map(list, zip(*rows, strict=True)), strict=True))
                self._session.insert("arrivals", pa.table(columns, schema=_ARRIVALS))
            else:
                self._insert_rows(numbered)
            self._session.insert("receipts", _as_table(_receipt(*each) for each in numbered))
            dropped = keep_asides(self._session, numbered)
        self._dropped += dropped

    def _insert_rows(self, numbered: list[tuple[int, Batch]]) -> None:
        for name in TABLES:
            parts = [
                BatchPart(number, batch.told_by, batch.tables[name])
                for number, batch in numbered
                if name in batch.tables
            ]
            if parts:
                self._session.insert(name, merged(parts))


def _key(batch: Batch) -> StreamKey:
    return batch.header.stream, batch.header.sequence


def _receipt(number: int, batch: Batch) -> _ReceiptRow:
    header = batch.header
    return _ReceiptRow(
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


# What tells rows of one interval apart beside their keys.
_APART = {"process_samples": ("pid",), "flow_samples": ("transport",), "service_samples": ("engine", "model")}
_THERE = """
SELECT a.row FROM arriving a SEMI JOIN (
    SELECT {keys} FROM {place}.{table} WHERE started_at >= {first} AND started_at <= {last}) t ON {same}
UNION
SELECT unnest(list(row ORDER BY row)[2:]) FROM arriving GROUP BY {keys} HAVING count(*) > 1
"""


def _is_counted(table: Table) -> bool:
    """Say whether rows are added up or averaged: a fact that is told twice is one fact."""
    return is_interval(table) and any(column.kind in ("gauge", "amount") for column in table.columns)


class ChunkedImport:
    """A batch that comes in pieces. A row whose keys and interval are there already is the same row: it counts once."""

    def __init__(self, session: Session, place: str, number: int) -> None:
        self._session = session
        self._place = place
        self._number = number
        self.row_count = 0

    def add(self, table: str, rows: pa.Table) -> int:
        """Append rows to a table of the contract, and return how many of them were there already."""
        fresh = self._fresh(TABLES[table], rows) if _is_counted(TABLES[table]) and rows.num_rows else rows
        numbers = pa.chunked_array([pa.repeat(pa.scalar(self._number, pa.int64()), fresh.num_rows)])
        self._session.insert(f"{self._place}.{table}", fresh.append_column("batch", numbers))
        self.row_count += fresh.num_rows
        return rows.num_rows - fresh.num_rows

    def take_back(self, table: str, keys: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Delete rows of a table of facts that what comes now replaces, by their keys."""
        for row in rows:
            same = " AND ".join(f"{key} = {literal(str(value))}" for key, value in zip(keys, row, strict=True))
            delete(self._session, f"DELETE FROM {self._place}.{table} WHERE {same}")

    def _fresh(self, table: Table, rows: pa.Table) -> pa.Table:
        keys = [column.name for column in table.columns if column.kind == "key"] + list(_APART.get(table.name, ()))
        times, numbers = rows.column("started_at"), pa.array(range(rows.num_rows), _INTEGER)
        asked = _THERE.format(
            place=self._place,
            table=table.name,
            first=pc.min(times).as_py(),
            last=pc.max(times).as_py(),
            same=" AND ".join(f"t.{key} IS NOT DISTINCT FROM a.{key}" for key in keys),
            keys=", ".join(keys),
        )
        there = self._session.arrow(asked, rows.select(keys).append_column("row", numbers)).column("row")
        return rows.filter(pc.invert(pc.is_in(numbers, there))) if len(there) else rows


@contextmanager
def chunked_import(store: Store, *, agent: str, stream: str, body_hash: str) -> Iterator[ChunkedImport | None]:
    """Take one batch in pieces, of any size, in one transaction; None where the store has it already.

    Raises:
        StoreError: nothing of it was stored.
    """
    place = "lake.main" if store.lake is not None else str(store.hot)
    with store.turn, store.session() as session:
        if session.rows("SELECT 1 FROM receipts WHERE stream = ? LIMIT 1", [stream]):
            yield None
            return
        (last,) = session.row("SELECT coalesce(max(batch), 0) FROM receipts")
        (number,) = BatchNumbers(FIRST_COLLECTOR, last).next(1)
        with session.transaction():
            taking = ChunkedImport(session, place, number)
            yield taking
            now = time.time_ns() // 1000
            row = _ReceiptRow(number, agent, stream, 0, body_hash, now, now, SCHEMA_VERSION, taking.row_count)
            session.insert(f"{place}.receipts", _as_table([row]))
