"""Up to which batch a collector has sealed: told by the lake, moved by the sealer, read by the writer.

Numbers of batches are monotone in one collector, roughly in the order of time across all of them. A number is a hybrid
clock in microseconds with the collector's own number in its low eight bits. So no two collectors ever give the same,
the later word on an allocation wins whoever took it, and one collector's are compared as they are.

A hot file notes up to where it has forgotten what it sealed: a lake that has not got that is not its lake, or has lost
it. A disk that was not mounted looks like an empty folder. Whoever made a new lake there would tell, of all that was
ever measured, that nothing was.

The lake may be its own and older: a failover lost the last commits, or an older copy was put back. The receipts of what
was sealed since are forgotten then, and agents are asked for what they still hold. What nobody brings again is written
down as lost.
"""

import logging
import time
from collections.abc import Callable
from pathlib import Path

from agent.wire.tables import TABLES
from collector.errors import StoreError
from collector.store.lake import CATALOGUE, LakeSettings
from collector.store.noted import LOST, Lost, make_notes, write_lost
from collector.store.schemas import RECEIPTS
from collector.store.session import OpenStore, Session

_LOG = logging.getLogger(__name__)

COLLECTOR_BITS = 8
COLLECTORS = 1 << COLLECTOR_BITS


class BatchNumbers:
    """The numbers of one collector, from the last that it gave on; a clock that is set back makes none go back."""

    def __init__(self, collector: int, last: int, now: Callable[[], int] = lambda: time.time_ns() // 1000) -> None:
        self._collector = collector
        self._ticks = last >> COLLECTOR_BITS
        self._now = now

    def next(self, count: int) -> list[int]:
        """Return the next `count` numbers, ascending. They are given once, whether or not they are used."""
        first = max(self._ticks + 1, self._now())
        self._ticks = first + count - 1
        return [tick << COLLECTOR_BITS | self._collector for tick in range(first, first + count)]


FIRST_COLLECTOR = 0  # of a site with one collector


class Mark:
    """What a collector has sealed. `upto` and `changes` are integers, so that threads need no lock to read them.

    `upto` grows, and falls only where the lake did. `changes` counts how often it was found elsewhere than it was left.
    """

    def __init__(self, collector: int, upto: int) -> None:
        self.collector = collector
        self.upto = upto
        self.changes = 0

    def catch_up(self, session: Session, hot: str | None) -> None:
        """Move to where the lake has it, and bring the receipts of the hot file into line with it.

        The lake may have taken a sealing whose answer was lost on the way, be newer than the hot file, or older.

        Raises:
            StoreError: the lake cannot be read; or it is older, and does not take down what it lacks, as a standby.
        """
        told = sealed_until(session, self.collector)
        if told == self.upto:
            return
        if told < self.upto:
            _fall_back(session, hot, self.collector, told)
        _know_receipts(session, hot, self.collector, told)
        self.upto = told
        self.changes += 1

    @classmethod
    def of(cls, store: OpenStore, collector: int = FIRST_COLLECTOR) -> "Mark":
        """Return the mark of a collector as the lake has it; that of a store without a lake never moves.

        Raises:
            StoreError: the lake cannot be read.
        """
        if store.lake is None:
            return cls(collector, 0)
        with store.turn, store.session() as session:
            known = dict(session.rows(f"SELECT collector, max(upto) FROM {store.hot}.sealed_here GROUP BY collector"))
            marks = {each: cls(each, known.get(each, 0)) for each in (*known, collector)}
            for mark in marks.values():
                mark.catch_up(session, store.hot)
            for (each,) in session.rows(f"SELECT DISTINCT collector FROM {store.hot}.lost_receipts"):
                _write_lost(session, store.hot, each)  # an older copy of the lake may not say so
        return marks[collector]


def sealed_until(session: Session, collector: int) -> int:
    """Return up to which batch the lake has what a collector sealed; 0 where it has nothing.

    Raises:
        StoreError: the lake cannot be read.
    """
    # Not max(upto): DuckLake answers that from what it keeps of a snapshot, which another of its number may not have.
    told = "SELECT coalesce(-min(-upto), 0) FROM lake.main.markers WHERE collector = ?"
    return int(session.row(told, [collector])[0])


# What was sealed and is not in the lake. Its rows began when the batch before it was sent, as far as that is known.
_GONE = """
WITH gone AS (
    SELECT * FROM {hot}.receipts WHERE batch & {bits} = {collector} AND batch > {told}
        AND batch <= (SELECT max(upto) FROM {hot}.sealed_here WHERE collector = {collector})
), kept AS (
    SELECT stream, max(sent_at) AS sent_at FROM {hot}.receipts
    WHERE batch <= {told} AND stream IN (SELECT stream FROM gone) GROUP BY stream
)
INSERT INTO {hot}.lost_receipts
SELECT {collector}, g.agent, g.stream, g.sequence,
    coalesce(lag(g.sent_at) OVER (PARTITION BY g.stream ORDER BY g.sequence), k.sent_at, g.sent_at), g.sent_at
FROM gone g LEFT JOIN kept k USING (stream)
WHERE NOT EXISTS (SELECT 1 FROM {hot}.lost_receipts l WHERE l.stream = g.stream AND l.sequence = g.sequence)
"""


def _fall_back(session: Session, hot: str | None, collector: int, told: int) -> None:
    """Forget the receipts of what was sealed and the lake lacks, once the lake has written down what that is.

    Raises:
        StoreError: the lake takes nothing: it may be a standby that will be where we are; or the hot file refuses.
    """
    with session.transaction():
        session.execute(_GONE.format(hot=hot, bits=COLLECTORS - 1, collector=collector, told=told))
    _write_lost(session, hot, collector)
    _pass_over_numbers(session)
    with session.transaction():
        session.execute(
            f"DELETE FROM {hot}.receipts WHERE batch & {COLLECTORS - 1} = {collector} AND batch > {told} "
            f"AND batch <= (SELECT max(upto) FROM {hot}.sealed_here WHERE collector = {collector})"
        )
        session.execute(f"UPDATE {hot}.sealed_here SET upto = {told} WHERE collector = {collector}")
    batches, agents, first, last = session.row(
        "SELECT count(*), count(DISTINCT agent), make_timestamp(min(first_at)), make_timestamp(max(last_at)) "
        f"FROM {hot}.lost_receipts WHERE collector = {collector}"
    )
    _LOG.error(
        "the lake is older than what was sealed into it: it lacks %d batches of %d agents, %s to %s UTC; agents are "
        "asked for what they still hold, and gpuledger admin doctor says what nobody has",
        *(batches, agents, first, last),
    )


_PASSED_OVER = 1_000_000  # more snapshots and files than there are between two copies of a lake


def _pass_over_numbers(session: Session) -> None:
    """Let the lake give no number of a snapshot or of a file that it gave before it fell back.

    DuckLake keeps what it knows of a snapshot's tables by these numbers, for as long as the process lives: the largest
    marker was told as it had been, and rows that were sealed were sealed again.
    """
    with session.transaction():
        (newest,) = session.row(f"SELECT max(snapshot_id) FROM {CATALOGUE}.ducklake_snapshot")
        moved = f"snapshot_id = {newest + _PASSED_OVER}"
        files = f"next_file_id = next_file_id + {_PASSED_OVER}"
        session.execute(f"UPDATE {CATALOGUE}.ducklake_snapshot SET {moved}, {files} WHERE snapshot_id = {newest}")
        session.execute(f"UPDATE {CATALOGUE}.ducklake_snapshot_changes SET {moved} WHERE snapshot_id = {newest}")


def _know_receipts(session: Session, hot: str | None, collector: int, told: int) -> None:
    """Take the receipts of what the lake has and the hot file does not know; what waits here and is there goes.

    The hot file may be older than the lake, or a newer lake may have come back.

    Raises:
        StoreError: the lake cannot be read, or the hot file refuses.
    """
    ours = f"batch & {COLLECTORS - 1} = {collector}"
    twice = (
        f"SELECT h.batch FROM {hot}.receipts h JOIN lake.main.receipts l USING (stream, sequence) "
        f"WHERE h.{ours} AND l.{ours} AND h.batch > {told} AND l.batch <= {told}"
    )
    with session.transaction():
        if batches := [batch for (batch,) in session.rows(twice)]:
            for table in ("arrivals", "receipts"):
                session.execute(f"DELETE FROM {hot}.{table} WHERE list_contains(?, batch)", [batches])
        session.execute(
            f"INSERT INTO {hot}.receipts ({RECEIPTS}) SELECT {RECEIPTS} FROM lake.main.receipts l WHERE {ours} "
            f"AND batch <= {told} AND NOT EXISTS "
            f"(SELECT 1 FROM {hot}.receipts h WHERE h.stream = l.stream AND h.sequence = l.sequence)"
        )
    note_found(session, hot, collector, 0, told)


def note_found(session: Session, hot: str | None, collector: int, after: int, upto: int) -> None:
    """Strike from what is lost what these batches have brought again.

    Raises:
        StoreError: the lake or the hot file refuses.
    """
    lost = f"{hot}.lost_receipts"
    if not session.rows(f"SELECT 1 FROM {lost} WHERE collector = {collector} LIMIT 1"):
        return
    found = (
        f"EXISTS (SELECT 1 FROM {hot}.receipts r WHERE r.batch > {after} AND r.batch <= {upto} "
        f"AND r.stream = {lost}.stream AND r.sequence = {lost}.sequence)"
    )
    if session.rows(f"SELECT 1 FROM {lost} WHERE collector = {collector} AND {found} LIMIT 1"):
        with session.transaction():
            session.execute(f"DELETE FROM {lost} WHERE collector = {collector} AND {found}")
        _write_lost(session, hot, collector)


def _write_lost(session: Session, hot: str | None, collector: int) -> None:
    """Write down in the lake of when that is which it lacks, in the place of what was written before.

    Raises:
        StoreError: the lake takes nothing.
    """
    span = f"SELECT min(first_at), max(last_at) FROM {hot}.lost_receipts WHERE collector = {collector}"
    first, last = session.row(span)
    name, now_us = f"{LOST_BATCHES} {collector}", time.time_ns() // 1000
    with session.transaction():
        make_notes(session)
        session.execute(f"DELETE FROM {CATALOGUE}.{LOST} WHERE name = ?", [name])
        for table in TABLES if first is not None else ():
            write_lost(session, Lost(table, name, first, last, None, _LACKS, now_us))


LOST_BATCHES = "batches of collector"  # what is lost is called so, with its number, where it is not a file
_LACKS = "the lake was lost, or an older one put back"


def recalled(hot: Session) -> list[str]:
    """Return the streams whose agents are asked for what they still hold.

    Raises:
        StoreError: the hot file refuses.
    """
    return [stream for (stream,) in hot.rows("SELECT DISTINCT stream FROM lost_receipts")]


def forget_lost(hot: Session, before_us: int) -> None:
    """Ask nobody any more for what was lost before; that it is lost stays written down in the lake.

    Raises:
        StoreError: the hot file refuses.
    """
    old = f"SELECT collector FROM lost_receipts GROUP BY collector HAVING max(last_at) < {before_us}"
    if hot.rows(old):
        hot.execute(f"DELETE FROM lost_receipts WHERE collector IN ({old})")


_SEALED_HERE = "CREATE TABLE IF NOT EXISTS sealed_here (collector BIGINT, upto BIGINT, catalogue VARCHAR)"
_NOWHERE = "SELECT 1 FROM receipts WHERE row_count > 0 AND batch NOT IN (SELECT batch FROM arrivals) LIMIT 1"


_LOST_HERE = """
CREATE TABLE IF NOT EXISTS lost_receipts (
    collector BIGINT, agent VARCHAR, stream VARCHAR, sequence BIGINT, first_at BIGINT, last_at BIGINT)
"""
_LAKE_HERE = "CREATE TABLE IF NOT EXISTS lake_here (id VARCHAR)"
# The catalogue's own, which a copy of it keeps.
_ID = "SELECT schema_uuid::VARCHAR FROM __ducklake_metadata_lake.ducklake_schema ORDER BY begin_snapshot LIMIT 1"


def make_sealed_table(hot: Session) -> None:
    """Make the hot file's tables of this module; only a store with a lake needs them."""
    hot.execute(_SEALED_HERE)
    hot.execute(_LAKE_HERE)
    hot.execute(_LOST_HERE)


def _sign(folder: Path, lake_id: str) -> Path:
    """Return what lies in a lake's folder as its sign: a folder, since what is no file of the lake is cleared away."""
    return folder / f"gpuledger-lake-{lake_id}"


def know_lake(session: Session, hot: Session, folder: Path | None) -> None:
    """Write down here which lake it is, and put its sign into its folder, where it has one.

    Raises:
        StoreError: the folder cannot be written, or the catalogue not be read.
    """
    (lake_id,) = session.row(_ID)
    try:
        if folder is not None:
            _sign(folder, lake_id).mkdir(0o700, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot write to the lake's folder {folder}: {error.strerror}") from error
    if hot.rows("SELECT id FROM lake_here") != [(lake_id,)]:
        with hot.transaction():
            hot.execute("DELETE FROM lake_here")
            hot.execute("INSERT INTO lake_here VALUES (?)", [lake_id])


def require_folder(hot: Session, folder: Path) -> None:
    """See that the lake's folder is the one that this store has sealed into, and not what lies where it is mounted.

    A store that has sealed nothing has all of it here, and any lake will do.

    Raises:
        StoreError: it is not.
    """
    known = hot.rows_if_there("SELECT id FROM lake_here WHERE EXISTS (FROM sealed_here WHERE upto > 0)")
    for (lake_id,) in known or ():  # there is none where no server of this release had the store yet
        if not (sign := _sign(folder, lake_id)).is_dir():
            raise StoreError(
                f"{folder} is not the folder of this store's lake, for it lacks {sign.name}: mount the disk that it is "
                "on, or name the settings that say where it lies with --config FILE; if its files were brought here "
                "without it, make that folder"
            )


def note_sealed(hot: Session, collector: int, upto: int, lake: LakeSettings) -> None:
    """Write down, in the transaction that forgets, up to which batch the lake has what is forgotten here."""
    known = hot.rows("SELECT upto FROM sealed_here WHERE collector = ?", [collector])
    if upto and known != [(upto,)]:
        hot.execute("DELETE FROM sealed_here WHERE collector = ?", [collector])
        kept = "sqlite" if lake.file is not None else "postgres"  # never its address: that may have a password in it
        hot.execute("INSERT INTO sealed_here VALUES (?, ?, ?)", [collector, upto, kept])


def forget_sealed(hot: Session) -> None:
    """Forget what the lake should have: it has been given up."""
    hot.execute("DELETE FROM sealed_here")
    hot.execute("DELETE FROM lake_here")
    hot.execute("DELETE FROM books_place")


def _sealed_here(hot: Session) -> list[str] | None:
    """Return what kinds of catalogues this hot file has sealed into; None where an earlier release wrote it."""
    found = hot.rows_if_there("SELECT catalogue FROM sealed_here")
    return None if found is None else [kind for (kind,) in found]


def _had_lake(hot: Session) -> bool:
    return bool(hot.rows("SELECT 1 FROM duckdb_tables() WHERE schema_name = 'main' AND table_name = 'books_place'"))


def require_lake(hot: Session, path: Path | None, lake: LakeSettings | None) -> None:
    """See that the catalogue that this hot file has sealed into is there, before anybody makes a new one.

    Raises:
        StoreError: it is not, or who opens the store does not know of it.
    """
    if lake is not None and lake.file is None:
        return
    sealed = _sealed_here(hot)
    if sealed is not None and "postgres" in sealed:
        raise StoreError(
            f"the samples of {path} are sealed into a lake whose catalogue is a PostgreSQL database; name the settings "
            "of its server with --config FILE"
        )
    if lake is not None and lake.file is not None and lake.file.exists():
        return
    if sealed is not None:
        has_sealed = bool(sealed)
    else:  # of an earlier release: its tables for a lake (a file, as one is named), and batches that are nowhere
        has_sealed = lake is not None and _had_lake(hot) and bool(hot.rows(_NOWHERE))
    if has_sealed:
        where = lake.file if lake is not None else f"{path}.lake"
        raise StoreError(f"there is no lake at {where}, and this store has sealed its samples into one: {_out(path)}")


def require_sealed(session: Session, hot: str, path: Path | None, *, read_only: bool) -> None:
    """See that the lake is the one that this hot file has sealed into, and for a reader that it has all of that.

    Who writes goes on with an older one (`Mark`).

    Raises:
        StoreError: it is not, or it does not answer.
    """
    sealed = session.rows_if_there(f"SELECT collector, upto FROM {hot}.sealed_here")
    if sealed is None:
        return
    older = [told for collector, upto in sealed if (told := sealed_until(session, collector)) < upto]
    known = session.rows(f"FROM {hot}.lake_here")
    if older and (known != session.rows(_ID) if known else 0 in older):
        raise StoreError(f"the lake of {path} lacks what this store has sealed into it: {_out(path)}")
    if older and read_only:
        raise StoreError(
            f"the lake of {path} is older than what this store has sealed into it: put the newer one back; or start "
            "gpuledger serve, which goes on with this one and asks agents for what they still hold"
        )


def require_data(folder: Path, files: list[Path], path: Path | None) -> None:
    """See that of the files that a catalogue names any is there.

    Raises:
        StoreError: not one is.
    """
    if files and not any((folder / file).exists() for file in files):
        raise StoreError(f"of the {len(files):,} files of the lake none is in {folder}: {_out(path)}")


def _out(path: Path | None) -> str:
    return (
        "mount the disk that it is on, or restore a backup (gpuledger admin restore); "
        f"to continue without what it held: gpuledger admin lake aside --all --store {path}"
    )
