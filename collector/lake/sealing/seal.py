"""One sealing: what the hot file holds beyond the mark goes into the lake, in one transaction with the new mark.

No transaction spans both files. So the lake's decides: with the rows it takes the marker "this collector, up to this
batch", and what the hot file holds up to there is then forgotten. Whoever dies between the two forgets it at the next
start. Readers of samples look at the lake alone, so that nothing is ever counted twice.
"""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from agent.wire.tables import TABLES
from collector.lake.sealing.bodies import BrokenBodyError, unpack
from collector.lake.sealing.syncing import sync
from collector.lake.soundness.file_check import note_written
from collector.pipeline.batch_rows import BatchPart, merged
from collector.store import sealed_here
from collector.store.lake_schema import RECEIPTS, sort_key
from collector.store.noted import newest_snapshot
from collector.store.seal_mark import Mark
from collector.store.session import Session
from collector.tenancy.disown import NEVER, disown

if TYPE_CHECKING:
    from collector.store.database import Store
    from collector.tenancy.tenant import Tenant

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


def seal(store: "Store", mark: Mark, tenant: "Tenant | None" = None, most_rows: int = _ALL) -> Sealed:
    """Seal what is committed into the store's lake, oldest first. Only one thread of one process may do so.

    It seals whole batches, at least one, and none that begins beyond `most_rows`. A `tenant` seals only what is of its
    streams still, and keeps others from taking them until it is done.

    Raises:
        StoreError: the lake refused, and took nothing; or it has taken all, and the hot file still holds it, which the
            next sealing forgets.
    """
    with store.turn, store.session() as session:
        mark.catch_up(session)
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
            mark.upto = upto  # here: the registry may fail us after the lake has taken it
    note_written(store, before)
    _forget(store, mark)
    return sealed


def has_rows_of_no_lake(store: "Store") -> bool:
    """Return whether the hot file holds rows of a time without a lake, which nobody reads until they are sealed.

    Raises:
        StoreError: the hot file refused.
    """
    with store.hot_session() as session:
        return any(session.rows(f"SELECT 1 FROM {table} LIMIT 1") for table in TABLES)


def _forget(store: "Store", mark: Mark) -> None:
    """Delete from the hot file what the lake has: arrivals, and the rows of a time when there was no lake.

    Raises:
        StoreError: the hot file refused.
    """
    with store.hot_session() as session, session.transaction():
        for table in ("arrivals", *TABLES):
            if session.rows(f"SELECT 1 FROM {table} WHERE batch <= ? LIMIT 1", [mark.upto]):
                session.execute(f"DELETE FROM {table} WHERE batch <= ?", [mark.upto])
        if store.lake is not None:
            sealed_here.note(session, mark.collector, mark.upto, store.lake)


@contextmanager
def _owned(store: "Store", mark: Mark, upto: int, tenant: "Tenant | None") -> Iterator[None]:
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
                _LOG.warning("%d batches belong to another collector now and are forgotten here", left)
            yield


def _reach(session: Session, store: "Store", after: int, most_rows: int) -> tuple[int, int]:
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

    def __init__(self, session: Session, store: "Store", after: int, upto: int) -> None:
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
        except BrokenBodyError as error:
            _LOG.error("batch %d was whole when it came and cannot be read any more: %s", number, error)
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
