"""Open the store: a hot DuckDB file, and the lake beside it, or elsewhere, as the settings say.

Beside this only session.py, noted.py and power.py import duckdb.
"""

import re
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import duckdb

from collector.config import NO_LAKE, CollectorConfig, absent
from collector.errors import StoreError
from collector.store import books
from collector.store.lake import S3, LakeSettings, allowed, attach, default_lake, found_beside, named_damage
from collector.store.noted import paths_of_files
from collector.store.power import Safety, make_private, mend
from collector.store.schemas import Columns, columns_there, make_lake_tables, migrate, require_current
from collector.store.seal_mark import know_lake, require_data, require_folder, require_lake, require_sealed
from collector.store.session import Session, literal, spare_the_search

T = TypeVar("T")
# A log of 1 GB ingests as fast but stalls for seconds when it is folded in; 64 MB keeps answers prompt (bench/).
_WAL_AUTOCHECKPOINT = "64MB"
_HOT = "hot"  # the name of the hot file within
_WRITTEN = "there are other write transactions active"  # DuckDB's words where a checkpoint has to wait
THREADS = 2  # for one statement, where who opens the store does not say
# A checkpoint writes every group of rows anew that it finds changed: with DuckDB's 122,880 rows that is all arrivals
# since the last sealing, some ten times as many bytes as came. Scans of the ledger do not mind (bench/README.md).
_ARRIVING_GROUP_ROWS = 8_192
_METADATA_IN_USE = "SELECT block_id FROM pragma_metadata_info(?) WHERE total_blocks > free_blocks"


class Store:
    """The hot DuckDB file, or a temporary store in memory where `path` is None; and the lake, where there is one.

    With a lake the tables of the contract are the lake's, and the hot file holds what is not sealed yet and the ledger.
    `hot` is None where another process has the hot file and the lake alone is read. Who writes to the lake holds
    `turn`: a catalogue in SQLite refuses the commit of a transaction that began before another's.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        path: Path | None = None,
        lake: LakeSettings | None = None,
        *,
        hot: bool = True,
        writes: bool = True,
    ) -> None:
        self._connection = connection
        self.path = path
        self.lake = lake
        self.writes = writes
        self.turn = threading.RLock()
        self._making = threading.Lock()
        self._made: dict[str, object] = {}  # what stands before the tables already, and what of it was made
        self._safety = Safety(path) if path is not None and hot and writes else None
        self.hot = f"{_HOT if path is not None else 'memory'}.main" if hot else None

    @classmethod
    def open(
        cls,
        path: Path | None,
        *,
        lake: LakeSettings | None = None,
        read_only: bool = False,
        memory_limit: str = "1GB",
        threads: int | None = None,
        may_lack: bool = False,
    ) -> "Store":
        """Open the store, bring its schema up to date, and return it.

        Without `lake` it is the one beside the file, if there is one. A reader who finds the file in use by another
        process gets the lake alone: what is sealed, and the ledger as of the last analysis. A lake that lacks what was
        sealed into it is opened only by who `may_lack`, to set aside what is lost.

        Raises:
            StoreError: the file is missing, locked by another process, or of a newer release; the lake is unreachable,
                or lacks what this store has sealed into it.
        """
        config: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": memory_limit,
            "threads": str(threads or THREADS),
            "wal_autocheckpoint": _WAL_AUTOCHECKPOINT,
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "preserve_insertion_order": "false",
        }
        if path is not None:
            config["temp_directory"] = f"{path}.tmp"
        if read_only:
            del config["wal_autocheckpoint"]
        try:
            if lake is None and path is not None:
                lake = found_beside(path)
            if lake is not None:
                config |= allowed(lake.extensions)
            if read_only and (path is None or not path.exists()) and lake is None:
                raise absent(path)
            if not read_only:
                _prepare(path, lake)
            connection, hot = _connected(path, read_only, config, lake)
        except OSError as error:
            raise StoreError(f"cannot open the store {path}: {error.strerror}") from error
        except duckdb.Error as error:
            raise StoreError(_opening_failed(path, str(error))) from error
        store = cls(connection, path, lake, hot=hot, writes=not read_only)
        try:
            store._bring_up_to_date(read_only, may_lack=may_lack)
        except BaseException:
            store.close()  # or the file stays locked for as long as the traceback lives
            raise
        return store

    @property
    def search_path(self) -> str:
        """Where the tables of the contract are, and those of the ledger: in one place without a lake."""
        return f"lake.main,{self.hot or 'lake.books'}" if self.lake is not None else str(self.hot)

    def session(self) -> Session:
        """Return a new cursor that finds each table where it is: the contract's in the lake, if there is one.

        Each thread needs its own. It reads all, and one transaction of it writes to the hot file or to the lake.
        """
        if self.lake is None:
            return self.hot_session()
        session = Session(self._cursor(), self._settle)
        try:
            session.search(self.search_path)
        except StoreError as error:  # DuckLake reads its tables here
            session.close()
            raise named_damage(self.lake, error) from error
        return session

    def session_behind(
        self, name: str, views: Callable[[str, T], Iterable[str]], made_of: Callable[[Session, str, T | None], T]
    ) -> Session:
        """Return a cursor as `session` does, before whose tables others of their names stand.

        They are views in `<name>.main`, in memory; `views` gets the search path and what they are made of, and says
        what makes them and the tables that they need. `made_of` says what these are made of now, and gets what it said
        before: where that is another, they are made anew.
        """
        session, path = self.session(), self.search_path
        try:
            known: Any = self._made.get(name)
            mark = made_of(session, path, known)  # before they are made: what comes meanwhile has them made again
            with self._making:
                if self._made.get(name) != mark:
                    session.execute(f"ATTACH IF NOT EXISTS ':memory:' AS {name}")
                    with session.transaction():
                        for statement in views(path, mark):
                            session.execute(statement)
                self._made[name] = mark
            session.search(f"{name}.main,{path}")
        except StoreError:
            session.close()
            raise
        return session

    def hot_session(self) -> Session:
        """Return a new cursor on the hot file alone: arrivals, and receipts as they are committed.

        Raises:
            StoreError: another process has the hot file.
        """
        if self.hot is None:
            raise StoreError(f"the store {self.path} is in use; only its lake can be read")
        session = Session(self._cursor(), self._settle)
        session.execute(f"USE {self.hot}")
        return session

    def _cursor(self) -> duckdb.DuckDBPyConnection:
        try:
            return self._connection.cursor()
        except duckdb.Error as error:
            raise StoreError(f"the store {self.path} has been closed") from error

    @property
    def trouble(self) -> str | None:
        """Why a power cut might take what was committed last, in a sentence; None where it cannot."""
        return self._safety.trouble if self._safety is not None else None

    def _settle(self, session: Session) -> None:
        """Do after a transaction what DuckDB leaves to luck (power.py); nothing is raised, since it is committed."""
        if self._safety is not None and self._safety.settle():
            with suppress(StoreError):  # it is tried again after the next transaction
                self._safety.copy([block for (block,) in session.rows(_METADATA_IN_USE, [_HOT])])

    def _bring_up_to_date(self, read_only: bool, *, may_lack: bool) -> None:
        if self.hot is not None:
            with self.hot_session() as session:
                (require_current if read_only else migrate)(session)
                if not may_lack:
                    require_lake(session, self.path, self.lake)
        if self.lake is not None:
            try:
                self._open_lake(self.lake, read_only, may_lack=may_lack)
            except StoreError as error:
                raise named_damage(self.lake, error) from error

    def _open_lake(self, lake: LakeSettings, read_only: bool, *, may_lack: bool) -> None:
        if not (read_only or may_lack) and lake.folder is not None:
            with self.hot_session() as session:
                require_folder(session, lake.folder)
        with Session(self._connection.cursor()) as session:
            attach(session, lake, read_only=read_only or self.hot is None)
            there: dict[str, Columns] = {}
            if not read_only:
                there = columns_there(session)
                make_lake_tables(session, there)
            if not may_lack:
                self._require_whole(session, lake, read_only=read_only)
        if not read_only and self.hot is not None:
            with self.hot_session() as session:
                books.make_book_tables(session, self.hot, there)
                if self.path is not None and not may_lack:
                    with Session(self._connection.cursor()) as catalogue:
                        know_lake(catalogue, session, lake.folder)

    def _require_whole(self, session: Session, lake: LakeSettings, *, read_only: bool) -> None:
        if self.hot is not None:
            require_sealed(session, self.hot, self.path, read_only=read_only)
        if lake.folder is not None:
            require_data(lake.folder, paths_of_files(session), self.path)

    def size_bytes(self) -> int:
        """Return the bytes of the file and its log; 0 for a store in memory."""
        files = [self.path, self.path.with_name(self.path.name + ".wal")] if self.path else []
        return sum(file.stat().st_size for file in files if file.exists())

    def checkpoint(self) -> bool:
        """Fold the log into the file; return False where somebody writes just now, and it has to be later.

        Raises:
            StoreError: another process has the hot file, or the disk refuses.
        """
        with self.hot_session() as session:
            try:
                session.execute(f"CHECKPOINT {self.hot.removesuffix('.main')}" if self.hot else "CHECKPOINT")
            except StoreError as error:
                if _WRITTEN in str(error):
                    return False
                raise
            self._settle(session)
        return True

    def close(self) -> None:
        """Close the store; its log is folded in."""
        if self._safety is not None:
            with suppress(StoreError, duckdb.Error), Session(self._connection.cursor()) as session:
                self._settle(session)  # the last checkpoint is a checkpoint like any other
        self._connection.close()
        if self._safety is not None:
            with suppress(OSError):
                self._safety.forget()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _prepare(path: Path | None, lake: LakeSettings | None) -> None:
    """Ready the files of a store that is to be written: for their owner alone, and whole."""
    if path is not None or lake is not None:
        make_private(path, lake)
    if path is not None:
        mend(path)


def _connected(
    path: Path | None,
    read_only: bool,
    config: dict[str, str | bool | int | float | list[str]],
    lake: LakeSettings | None,
) -> tuple[duckdb.DuckDBPyConnection, bool]:
    """Return a connection and whether it has the hot file; without that a reader's stands on nothing but the lake."""
    alone = read_only and lake is not None
    spare_the_search()
    connection = duckdb.connect(":memory:", config=config)
    if path is None or (alone and not path.exists()):
        return connection, not alone
    arriving = f"(ROW_GROUP_SIZE {_ARRIVING_GROUP_ROWS})" if lake is not None else ""
    try:
        connection.execute(f"ATTACH {literal(path)} AS {_HOT} {'(READ_ONLY)' if read_only else arriving}")
    except duckdb.Error as error:
        if alone and "Conflicting lock" in str(error):
            return connection, False
        connection.close()
        raise
    return connection, True


_NO_DUCKDB = re.compile(r"in-memory database|not a valid DuckDB|sqlite_scanner")


def _opening_failed(path: Path | None, error: str) -> str:
    """Say why a store cannot be opened, and what to do."""
    if "Conflicting lock" in error:  # DuckDB allows one process that writes, and then none that reads
        holder = re.search(r"PID (\d+)", error)
        by = f"process {holder[1]}" if holder and int(holder[1]) else "a process of another container or host"
        return f"the store {path} is in use by {by}; stop it first, or use --server URL where the command has it"
    if "already attached" in error:
        return f"the store {path} is already open in this process; use that one"
    if path is not None and not path.absolute().parent.is_dir():
        return f"cannot open the store {path}: there is no folder {path.absolute().parent}; create it first"
    said = "it is not a DuckDB file" if _NO_DUCKDB.search(error) else error.splitlines()[0]
    return f"cannot open the store {path}: {said}"


def open_store(config: CollectorConfig, *, may_lack: bool = False) -> Store:
    """Open the store of a server, and make its lake where there is none.

    Raises:
        StoreError: the store cannot be opened, or the lake not be reached.
    """
    lake = lake_of(config)
    return Store.open(
        config.store, lake=lake, memory_limit=config.memory_limit, threads=config.threads, may_lack=may_lack
    )


def open_for_command(
    config: CollectorConfig,
    *,
    read_only: bool = False,
    memory_limit: str = "1GB",
    threads: int | None = None,
    may_lack: bool = False,
) -> Store:
    """Open the store of a command, with the lake that its server has: that of the settings, once it has been made.

    Raises:
        StoreError: the store cannot be opened, or the lake not be reached.
    """
    lake = lake_of(config)
    if lake is not None and lake.file is not None and not lake.file.exists():
        lake = None  # there never was one; or it is lost, and whoever opens the store hears of it
    return Store.open(
        config.store,
        lake=lake,
        read_only=read_only,
        memory_limit=memory_limit,
        threads=threads,
        may_lack=may_lack and lake is not None,
    )


def lake_of(config: CollectorConfig) -> LakeSettings | None:
    """Return the lake that the settings name; None where everything stays in the one file."""
    own = default_lake(config.store, Path(config.extensions) if config.extensions else None)
    s3 = S3(config.s3_endpoint, config.s3_region, config.s3_key_id, config.s3_secret)
    data = config.data or own.data
    if config.lake == NO_LAKE:
        return None
    if not config.lake:
        return LakeSettings(own.catalogue, data, s3, own.extensions)
    return LakeSettings(config.lake, data, s3, own.extensions)
