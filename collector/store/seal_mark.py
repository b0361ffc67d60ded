"""Up to which batch a collector has sealed: told by the lake, moved by the sealer, read by the writer.

Numbers of batches are monotone in one collector, roughly in the order of time across all of them. A number is a hybrid
clock in microseconds with the collector's own number in its low eight bits. So no two collectors ever give the same,
the later word on an allocation wins whoever took it, and one collector's are compared as they are.

A hot file notes up to where it has forgotten what it sealed: a lake that has not got that is not its lake, or has lost
it. A disk that was not mounted looks like an empty folder. Whoever made a new lake there would tell, of all that was
ever measured, that nothing was.
"""

import time
from collections.abc import Callable
from pathlib import Path

from collector.errors import StoreError
from collector.store.lake import LakeSettings
from collector.store.session import OpenStore, Session

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
    """What a collector has sealed. `upto` only grows, and is an integer, so that threads need no lock to read it."""

    def __init__(self, collector: int, upto: int) -> None:
        self.collector = collector
        self.upto = upto

    def catch_up(self, session: Session) -> None:
        """Move to where the lake has it: it may have taken a sealing whose answer was lost on the way.

        Raises:
            StoreError: the lake cannot be read.
        """
        told = "SELECT coalesce(max(upto), 0) FROM lake.main.markers WHERE collector = ?"
        (upto,) = session.row(told, [self.collector])
        self.upto = max(self.upto, int(upto))

    @classmethod
    def of(cls, store: OpenStore, collector: int = FIRST_COLLECTOR) -> "Mark":
        """Return the mark of a collector as the lake has it; that of a store without a lake never moves.

        Raises:
            StoreError: the lake cannot be read.
        """
        if store.lake is None:
            return cls(collector, 0)
        mark = cls(collector, 0)
        with store.session() as session:
            mark.catch_up(session)
        return mark


_SEALED_HERE = "CREATE TABLE IF NOT EXISTS sealed_here (collector BIGINT, upto BIGINT, catalogue VARCHAR)"
_NOWHERE = "SELECT 1 FROM receipts WHERE row_count > 0 AND batch NOT IN (SELECT batch FROM arrivals) LIMIT 1"


_LAKE_HERE = "CREATE TABLE IF NOT EXISTS lake_here (id VARCHAR)"
# The catalogue's own, which a copy of it keeps.
_ID = "SELECT schema_uuid::VARCHAR FROM __ducklake_metadata_lake.ducklake_schema ORDER BY begin_snapshot LIMIT 1"


def make_sealed_table(hot: Session) -> None:
    """Make the hot file's tables of this module; only a store with a lake needs them."""
    hot.execute(_SEALED_HERE)
    hot.execute(_LAKE_HERE)


def _sign(folder: Path, lake_id: str) -> Path:
    """Return what lies in a lake's folder as its sign: a folder, since what is no file of the lake is cleared away."""
    return folder / f"gpuledger-lake-{lake_id}"


def know_folder(session: Session, hot: Session, folder: Path) -> None:
    """Put the lake's sign into its folder, and write down here which that is.

    Raises:
        StoreError: the folder cannot be written, or the catalogue not be read.
    """
    (lake_id,) = session.row(_ID)
    try:
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
    try:
        known = hot.rows("SELECT id FROM lake_here WHERE EXISTS (FROM sealed_here WHERE upto > 0)")
    except StoreError as error:
        if "does not exist" in str(error):  # no server of this release had the store yet
            return
        raise
    for (lake_id,) in known:
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


def require_lake(hot: Session, path: Path | None, lake: LakeSettings | None) -> None:
    """See that the catalogue that this hot file has sealed into is there, before anybody makes a new one.

    Raises:
        StoreError: it is not, or who opens the store does not know of it.
    """
    if lake is not None and lake.file is None:
        return
    tables = {name for (name,) in hot.rows("SELECT table_name FROM duckdb_tables() WHERE schema_name = 'main'")}
    if "sealed_here" in tables and hot.rows("SELECT 1 FROM sealed_here WHERE catalogue = 'postgres'"):
        raise StoreError(
            f"the samples of {path} are sealed into a lake whose catalogue is a PostgreSQL database; name the settings "
            "of its server with --config FILE"
        )
    if lake is not None and lake.file is not None and lake.file.exists():
        return
    if "sealed_here" in tables:
        has_sealed = bool(hot.rows("SELECT 1 FROM sealed_here"))
    else:  # of an earlier release: its tables for a lake (a file, as one is named), and batches that are nowhere
        has_sealed = lake is not None and "books_place" in tables and bool(hot.rows(_NOWHERE))
    if has_sealed:
        where = lake.file if lake is not None else f"{path}.lake"
        raise StoreError(f"there is no lake at {where}, and this store has sealed its samples into one: {_out(path)}")


def require_sealed(session: Session, hot: str, path: Path | None) -> None:
    """See that the lake has what this hot file has sealed into it.

    Raises:
        StoreError: it has not, or it does not answer.
    """
    try:
        sealed = session.rows(f"SELECT collector, upto FROM {hot}.sealed_here")
    except StoreError as error:
        if "does not exist" in str(error):  # DuckDB's list of tables would count the rows of each of the lake's
            return
        raise
    for collector, upto in sealed:
        (told,) = session.row("SELECT coalesce(max(upto), 0) FROM lake.main.markers WHERE collector = ?", [collector])
        if told < upto:
            raise StoreError(f"the lake of {path} lacks what this store has sealed into it: {_out(path)}")


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
