"""From the hot file into the lake: every few minutes, exactly once, whatever dies meanwhile.

One sealing: what the hot file holds beyond the mark goes into the lake, in one transaction with the new mark. No
transaction spans both files. So the lake's decides: with the rows it takes the marker "this collector, up to this
batch", and what the hot file holds up to there is then forgotten. Whoever dies between the two forgets it at the next
start. Readers of samples look at the lake alone, so that nothing is ever counted twice.

A body was validated when it came; its checksum says that it is still the same. What was written below a folder is
brought to the disk: DuckDB closes the Parquet files that it writes, and syncs none.
"""

import logging
import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.ipc

from agent.wire import EnvelopeError
from agent.wire.envelope import open_envelope
from agent.wire.tables import TABLES
from collector.background import SEALING, let_others_go_first
from collector.errors import BatchError, RegistryError, StoreError
from collector.lake.damage import note_written
from collector.lake.lake_files import sync
from collector.pipeline.batch_commit import NEVER, disown
from collector.pipeline.decoding.arrow_messages import message_schema
from collector.pipeline.decoding.batch import BatchPart, merged
from collector.registry.tenant import Tenant
from collector.store.database import Store
from collector.store.noted import newest_snapshot
from collector.store.schemas import RECEIPTS, sort_key
from collector.store.seal_mark import Mark, note_found, note_sealed, require_folder, sealed_until
from collector.store.session import Session

if TYPE_CHECKING:
    from collector.pipeline.metrics import Metrics

_MAX_BYTES = 2**31  # it was within the limit of its time, which may have been another


class _BrokenBodyError(Exception):
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
        raise _BrokenBodyError(str(error)) from error


def _rows(name: str, message: memoryview, schema_version: int) -> pa.RecordBatch:
    parsed = pyarrow.ipc.read_message(pa.py_buffer(message))
    return pyarrow.ipc.read_record_batch(parsed, message_schema(TABLES[name], parsed, schema_version))


_LOG = logging.getLogger(__name__)
_ROWS_AT_ONCE = 122_880  # held in memory at a time, and a row group of Parquet: about 60 MB of the widest table
_ALL = 2**62  # rows
_BODIES_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class Sealed:
    """What one sealing did. `broken` counts batches that could no longer be read; they are logged and left out.

    `more` says that it stopped at the rows that it was to seal at most, and others wait.
    """

    batches: int = 0
    rows: int = 0
    broken: int = 0
    more: bool = False


def seal(store: Store, mark: Mark, tenant: Tenant | None = None, most_rows: int = _ALL) -> Sealed:
    """Seal what is committed into the store's lake, oldest first. Only one thread of one process may do so.

    It seals whole batches, at least one, and none that begins beyond `most_rows`. A `tenant` seals only what is of its
    streams still, and keeps others from taking them until it is done.

    Raises:
        StoreError: the lake refused, and took nothing; or it has taken all, and the hot file still holds it, which the
            next sealing forgets.
    """
    if store.lake is not None and store.lake.folder is not None:
        with store.hot_session() as session:
            require_folder(session, store.lake.folder)  # a mount may have gone meanwhile
    with store.turn, store.session() as session:
        mark.catch_up(session, store.hot)
    _forget(store, mark)
    with store.turn, store.session() as session:
        upto, newest = _reach(session, store, mark.upto, most_rows)
        if upto <= mark.upto:
            return Sealed()
        before = newest_snapshot(session)
        with _owned(store, mark, upto, tenant):
            with session.transaction():
                sealed = replace(_Pass(session, store, mark.upto, upto).run(), more=upto < newest)
                now = time.time_ns() // 1000
                session.execute("INSERT INTO lake.main.markers VALUES (?, ?, ?)", [mark.collector, upto, now])
                sync(store.lake.folder if store.lake else None)  # else a power cut may empty what the catalogue names
            # A connection that was cut may commit nothing and say that it did: the lake's word counts, and what it has
            # not got lies in the hot file still. Here, since the registry may fail us after the lake has taken it.
            if sealed_until(session, mark.collector) < upto:
                raise StoreError("the lake has not kept what was sealed into it; it is sealed again")
            after, mark.upto = mark.upto, upto
        note_found(session, store.hot, mark.collector, after, upto)
    note_written(store, before)
    _forget(store, mark)
    return sealed


def _has_rows_of_no_lake(store: Store) -> bool:
    """Return whether the hot file holds rows of a time without a lake, which nobody reads until they are sealed.

    Raises:
        StoreError: the hot file refused.
    """
    with store.hot_session() as session:
        return any(session.rows(f"SELECT 1 FROM {table} LIMIT 1") for table in TABLES)


def _forget(store: Store, mark: Mark) -> None:
    """Delete from the hot file what the lake has: arrivals, and the rows of a time when there was no lake.

    Raises:
        StoreError: the hot file refused.
    """
    with store.hot_session() as session, session.transaction():
        for table in ("arrivals", *TABLES):
            if session.rows(f"SELECT 1 FROM {table} WHERE batch <= ? LIMIT 1", [mark.upto]):
                session.execute(f"DELETE FROM {table} WHERE batch <= ?", [mark.upto])
        if store.lake is not None:
            note_sealed(session, mark.collector, mark.upto, store.lake)


@contextmanager
def _owned(store: Store, mark: Mark, upto: int, tenant: Tenant | None) -> Iterator[None]:
    """Leave in the hot file, up to this batch, only what is ours to seal, and let nobody take it meanwhile."""
    if tenant is None:
        yield
        return
    with store.hot_session() as hot:
        told = "SELECT DISTINCT stream FROM receipts WHERE batch > ? AND batch <= ?"
        streams = [stream for (stream,) in hot.rows(told, [mark.upto, upto])]
        with tenant.guard(streams) as since:
            left = disown(hot, {stream: since.get(stream, NEVER) for stream in streams}, mark.upto, upto)
            if left:
                _LOG.warning("%d batches belong to another collector now and are dropped here", left)
            yield


def _reach(session: Session, store: Store, after: int, most_rows: int) -> tuple[int, int]:
    """Return the last batch to seal now, and the last that is there; 0 where there is none."""
    upto, newest = session.row(
        f"""
        SELECT coalesce(max(batch) FILTER (before < ?), 0), coalesce(max(batch), 0) FROM (
            SELECT batch, sum(row_count) OVER (ORDER BY batch) - row_count AS before
            FROM {store.hot}.receipts WHERE batch > ?)
        """,
        [most_rows, after],
    )
    return int(upto), int(newest)


class _Pass:
    """One transaction's worth of rows on their way into the lake."""

    def __init__(self, session: Session, store: Store, after: int, upto: int) -> None:
        self._session = session
        self._hot = store.hot
        self._span = [after, upto]
        self._pending: dict[str, list[BatchPart]] = {}
        self._pending_rows = 0
        self._rows = 0
        self._broken = 0

    def run(self) -> Sealed:
        """Insert everything."""
        for number, body, told_by in self._bodies():
            self._add(number, body, told_by)
            if self._pending_rows >= _ROWS_AT_ONCE:
                self._flush()
        self._flush()
        self._adopt()
        self._session.execute(
            f"INSERT INTO lake.main.receipts ({RECEIPTS}) SELECT {RECEIPTS} FROM {self._hot}.receipts "
            "WHERE batch > ? AND batch <= ? ORDER BY batch",
            self._span,
        )
        (batches,) = self._session.row(
            f"SELECT count(*) FROM {self._hot}.receipts WHERE batch > ? AND batch <= ?", self._span
        )
        return Sealed(batches, self._rows, self._broken)

    def _bodies(self) -> Iterator[tuple[int, bytes, str | None]]:
        after, upto = self._span
        while True:
            page = self._session.rows(
                f"SELECT batch, body, told_by FROM {self._hot}.arrivals WHERE batch > ? AND batch <= ? "
                "ORDER BY batch LIMIT ?",
                [after, upto, _BODIES_AT_ONCE],
            )
            yield from page
            if len(page) < _BODIES_AT_ONCE:
                return
            after = page[-1][0]

    def _add(self, number: int, body: bytes, told_by: str | None) -> None:
        try:
            tables = unpack(body)
        except _BrokenBodyError as error:
            _LOG.error("batch %d was intact when it arrived and can no longer be read: %s", number, error)
            self._broken += 1
            return
        for name, rows in tables.items():
            self._pending.setdefault(name, []).append(BatchPart(number, told_by, rows))
            self._pending_rows += rows.num_rows

    def _flush(self) -> None:
        for name, parts in self._pending.items():
            rows = merged(parts)
            self._session.insert(f"lake.main.{name}", rows)  # as they came: compaction orders them, for half the work
            self._rows += rows.num_rows
        self._pending.clear()
        self._pending_rows = 0

    def _adopt(self) -> None:
        """Take along the rows of a store that had no lake before."""
        for name in TABLES:
            where = "WHERE batch > ? AND batch <= ?"
            (count,) = self._session.row(f"SELECT count(*) FROM {self._hot}.{name} {where}", self._span)
            if count:
                self._session.execute(
                    f"INSERT INTO lake.main.{name} BY NAME SELECT * FROM {self._hot}.{name} {where} "
                    f"ORDER BY {sort_key(name)}",
                    self._span,
                )
                self._rows += count


RETRY_SECONDS = 5.0  # after a first failure; twice as long after each further one
_LONGEST_WAIT_SECONDS = 300.0  # between tries, however long the lake has been away
MOST_ROWS = 2_000_000  # of one sealing, some ten seconds: what has gathered behind a lake that was away takes several
STOPPING_SECONDS = 45.0  # in which further sealings may begin
_PATIENCE_SECONDS = 90.0  # for the one that is under way then


class Sealer:
    """Seals one store, one sealing at a time. `failing` is the sentence of the last failure, None after a success."""

    def __init__(
        self,
        store: Store,
        mark: Mark,
        metrics: "Metrics",
        every_seconds: float,
        rows: int,
        tenant: Tenant | None = None,
    ) -> None:
        self._tenant = tenant
        self._store = store
        self._mark = mark
        self._metrics = metrics
        self._every = every_seconds
        self._most_rows = rows
        self._waiting_rows = 0
        self._more = False
        self._failures = 0
        self._wake = threading.Event()
        self._ending = False
        self._until = math.inf
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="sealer", daemon=True)
        self.failing: str | None = None
        self.last_at: float | None = None  # seconds since 1970

    def start(self) -> None:
        """Begin, once a store that had no lake has been taken into it: half of it would be read as the whole.

        Pages that were made meanwhile would stay, since the ledger does not change by it.
        """
        if _has_rows_of_no_lake(self._store):
            _LOG.warning("this store had no lake: its file's contents are moved into one, once; this may take minutes")
            while (sealed := self.once()) is not None and sealed.more:
                pass
        self._thread.start()

    def stop(self) -> None:
        """Seal what is there and end; what is not sealed lies in the hot file and is sealed after the next start."""
        self._until = time.monotonic() + STOPPING_SECONDS
        self._ending = True
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(_PATIENCE_SECONDS)

    def committed(self, rows: int) -> None:
        """Note that rows have been committed; called by the writer."""
        self._waiting_rows += rows
        if self._waiting_rows >= self._most_rows and not self._failures:
            self._wake.set()

    @property
    def is_behind(self) -> bool:
        """Whether a sealing is under way, or another is due because of what has come."""
        due = self._more or self._waiting_rows >= self._most_rows
        return self._lock.locked() or (due and not self._failures)

    def once(self) -> Sealed | None:
        """Seal now, so much and no more; None where it failed, which is counted, logged once and told by `failing`."""
        with self._lock:
            began = time.monotonic()
            self._waiting_rows = 0
            try:
                sealed = seal(self._store, self._mark, self._tenant, MOST_ROWS)
            except (StoreError, RegistryError) as error:
                self._failed(str(error))
                return None
            self._succeeded(sealed, time.monotonic() - began)
            return sealed

    def _run(self) -> None:
        let_others_go_first(SEALING)
        ending = False
        while not ending:
            self._wake.wait(self._pause_seconds())
            self._wake.clear()
            ending = self._ending  # asked before: a stop that comes during a sealing is followed by one more
            while (sealed := self.once()) is not None and sealed.more and time.monotonic() < self._until:
                pass

    def _pause_seconds(self) -> float:
        if not self._failures:
            return self._every
        return min(RETRY_SECONDS * 2.0 ** (self._failures - 1), _LONGEST_WAIT_SECONDS)

    def _failed(self, sentence: str) -> None:
        self._failures = min(self._failures + 1, 16)
        self._metrics.sealing.failures.inc()
        if self.failing is None:
            _LOG.error("sealing failed and will be retried; batches are kept in the hot file: %s", sentence)
        self.failing = sentence

    def _succeeded(self, sealed: Sealed, seconds: float) -> None:
        if self.failing is not None:
            _LOG.warning("sealing works again")
        self._failures, self.failing, self._more = 0, None, sealed.more
        self.last_at = time.time()
        self._metrics.sealing.last.set(self.last_at)
        if sealed.batches:
            self._metrics.sealing.seconds.observe(seconds)
            self._metrics.sealing.rows.inc(sealed.rows)
            self._metrics.sealing.broken.inc(sealed.broken)
