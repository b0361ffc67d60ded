"""Make a backup of a store while it is written, into a folder: one at a time, whole or not there, the old ones let go.

The order decides whether anything can be lost or doubled, since no transaction spans the hot file and the lake:

1. the hot file, in one transaction of it. What was answered by then is in it, or was sealed into the lake before.
2. the registry.
3. the lake's catalogue, in one transaction of it; then the files that this copy names, which nobody ever changes.

So a batch that is sealed between 1 and 3 is in both: its rows are in the lake, and of the hot file's copy a start
forgets what the lake's marker has passed. A batch that came between 1 and 3 and is sealed is in the lake alone; the
restore writes its receipt into the hot file, so that it counts once when its agent sends it again. The other way round,
a batch that was sealed between the two copies would be in neither: that is the order that loses.
"""

import fcntl
import hashlib
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from agent.child import installed_version
from collector.backup.manifest import (
    NAME,
    PRIVATE,
    File,
    Layout,
    Manifest,
    counted,
    described,
    lake_rows,
    named_files,
    noted_hashes,
    open_backup,
    point,
    sha256,
)
from collector.errors import BackupError, StoreError
from collector.store.database import Store
from collector.store.noted import unreadable
from collector.store.power import sync
from collector.store.session import Session, literal
from collector.store.sqlite_child import copy_sqlite

_CHUNK = 1 << 20


def copied(source: Path, folder: Path, target: Path) -> File:
    """Copy a file to `target` below `folder`, durably, and return its account.

    Raises:
        FileNotFoundError: the source is gone.
        OSError: the disk is full or broken.
    """
    hashed = hashlib.sha256()
    size = 0
    with source.open("rb") as read:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as written:
            while chunk := read.read(_CHUNK):
                hashed.update(chunk)
                size += written.write(chunk)
            written.flush()
            os.fsync(written.fileno())
    return File(target.relative_to(folder).as_posix(), size, hashed.hexdigest())


def linked(source: Path, target: Path, size: int) -> bool:
    """Give a file a second name, which costs nothing; False where it is on another disk, gone, or of another size."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        if source.stat().st_size != size:
            return False
        target.hardlink_to(source)
    except OSError:
        return False
    return True


PARTIAL = ".partial-"
_LOCK = ".lock"
_PRIVATE = 0o700  # the store names users


def backups(folder: Path) -> list[Path]:
    """Return the whole backups in a folder, oldest first."""
    if not folder.is_dir():
        return []
    found = (path for path in folder.iterdir() if not path.name.startswith("."))
    return sorted(path for path in found if (path / NAME).is_file())


def name_of(made_at: int) -> str:
    """Return the name of the backup of a moment (microseconds UTC); names sort by time."""
    return datetime.fromtimestamp(made_at / 1e6, UTC).strftime("%Y-%m-%dT%H%M%S.%fZ")


@contextmanager
def new_backup(folder: Path, made_at: int) -> Iterator[Path]:
    """Give an empty folder to fill. It takes its name when the block ends well, and vanishes when it does not.

    What a backup that was killed has left is cleared away first.

    Raises:
        BackupError: the folder cannot be written, or another backup is being made there.
    """
    try:
        folder.mkdir(_PRIVATE, parents=True, exist_ok=True)
        with (folder / _LOCK).open("w") as lock:
            _take(lock.fileno(), folder)
            for left in folder.glob(f"{PARTIAL}*"):
                shutil.rmtree(left)
            partial = folder / f"{PARTIAL}{name_of(made_at)}"
            partial.mkdir(_PRIVATE)
            try:
                yield partial
                partial.rename(folder / name_of(made_at))
                sync(folder)
            except BaseException:
                shutil.rmtree(partial, ignore_errors=True)
                raise
    except OSError as error:
        raise BackupError(f"cannot write a backup to {folder}: {error.strerror or error}") from error


def let_go(folder: Path, keep: int) -> list[Path]:
    """Remove the oldest beyond `keep`, and return them; what later ones share with them stays."""
    old = backups(folder)[:-keep]
    for path in old:
        (path / NAME).unlink()  # first: half of a backup must not look whole
        shutil.rmtree(path)
    return old


def _take(lock: int, folder: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise BackupError(f"another backup is being written to {folder}; wait until it has finished") from error


_LOG = logging.getLogger(__name__)
KEEP = 14
_CATALOGUE_TRIES = 5  # a file may be compacted away while it is about to be copied; the catalogue is then read again


@dataclass(frozen=True, slots=True)
class MadeBackup:
    """A backup that is whole. `new_bytes` were copied, the rest is shared with the one before."""

    path: Path
    manifest: Manifest
    new_bytes: int
    let_go: int
    seconds: float


def make_backup(
    store: Store, folder: Path, *, keep: int = KEEP, stopping: Callable[[], bool] = lambda: False
) -> MadeBackup:
    """Make a backup in `folder`, beside those that are there, and let go of the oldest beyond `keep`.

    `stopping` is asked before each file; once it says yes, nothing is left of this backup.

    Raises:
        BackupError: there is no room or no right, another is being made, it was stopped, or the store lies in memory.
    """
    if store.path is None or store.hot is None:
        raise BackupError("only the process that has a store's file open can back it up; use --server URL")
    began = time.monotonic()
    made_at = time.time_ns() // 1000
    last = backups(folder)
    with new_backup(folder, made_at) as place:
        copy = Copy(store, Layout(store.path), place, last[-1] if last else None, stopping)
        copy.hot_file()
        copy.registry()
        copy.lake()
        manifest = copy.manifest(made_at)
        manifest.write(place)
    gone = let_go(folder, keep)
    return MadeBackup(folder / name_of(made_at), manifest, copy.new_bytes, len(gone), time.monotonic() - began)


class Copy:
    """One backup on its way: what was copied so far."""

    def __init__(
        self, store: Store, here: Layout, place: Path, last: Path | None, stopping: Callable[[], bool]
    ) -> None:
        self._stopping = stopping
        self.new_bytes = 0
        self._store = store
        self._here = here
        self._place = place
        self._there = Layout.within(place)
        self._last = last
        self._known = _known(last)
        self._files: dict[str, File] = {}
        self._hot_rows: dict[str, int] = {}
        self._newest = self._migration = 0

    def hot_file(self) -> None:
        """Copy the hot file, as of one moment; writers go on meanwhile."""
        hot = str(self._store.hot).removesuffix(".main")
        name = f"backup_{time.monotonic_ns()}"
        with self._store.hot_session() as session:
            session.execute(f"ATTACH {literal(self._there.store)} AS {name} (READ_WRITE)")
            try:
                session.execute(f"COPY FROM DATABASE {hot} TO {name}")
                session.execute(f"CHECKPOINT {name}")
                self._look_at(session, name)
            finally:
                session.execute(f"DETACH {name}")
        self._add(described(self._place, self._there.store))

    def registry(self) -> None:
        """Copy keys, join tokens and the audit log, where they lie beside the store."""
        if self._here.registry.exists():
            _copy_sqlite(self._here.registry, self._there.registry)
            self._there.registry.chmod(PRIVATE)
            self._add(described(self._place, self._there.registry))

    def lake(self) -> None:
        """Copy the catalogue and the files that it names; those that the last backup has are linked."""
        catalogue = self._store.lake.file if self._store.lake else None
        if catalogue is None:
            return
        for left in reversed(range(_CATALOGUE_TRIES)):
            _copy_sqlite(catalogue, self._there.catalogue)
            point(self._there.catalogue, self._here.data)  # wherever they lie there, here they lie beside it
            try:
                self._data()
                break
            except FileNotFoundError as error:
                if not left:
                    raise BackupError(
                        f"the lake lacks its file {error.filename}; gpuledger admin doctor has details"
                    ) from error
        self._add(described(self._place, self._there.catalogue))

    def manifest(self, made_at: int) -> Manifest:
        """Return the account of it, after opening what was made."""
        elsewhere = self._elsewhere()
        return Manifest(
            made_at=made_at,
            release=installed_version() or "(a checkout that is not installed)",
            migration=self._migration,
            newest_batch=self._newest,
            elsewhere=elsewhere,
            files=tuple(self._files[path] for path in sorted(self._files)),
            hot_rows=self._hot_rows,
            lake_rows={} if self._store.lake is None or elsewhere else self._lake_rows(),
        )

    def _lake_rows(self) -> dict[str, int]:
        with open_backup(self._there) as copy:
            return lake_rows(copy)

    def _look_at(self, session: Session, name: str) -> None:
        tables = session.rows(
            "SELECT DISTINCT table_name FROM duckdb_columns() WHERE database_name = ? ORDER BY table_name", [name]
        )
        self._hot_rows = counted(session, {table: f"{name}.main.{table}" for (table,) in tables})
        (self._newest,) = session.row(f"SELECT coalesce(max(batch), 0) FROM {name}.main.receipts")
        (self._migration,) = session.row(f"SELECT coalesce(max(number), 0) FROM {name}.main.migrations")

    def _elsewhere(self) -> tuple[str, ...]:
        lake = self._store.lake
        if lake is None:
            return ()
        return (*(("catalogue", "registry") if lake.file is None else ()), *(("data",) if lake.folder is None else ()))

    def _data(self) -> None:
        source = self._store.lake.folder if self._store.lake else None
        if source is None:
            return
        noted = noted_hashes(self._there.catalogue)
        for path in named_files(self._there.catalogue):
            target = self._there.data / path
            name = target.relative_to(self._place).as_posix()
            if name in self._files:  # by an earlier try
                continue
            if self._stopping():
                raise BackupError("the server is stopping; the backup was not finished")
            self._file_of_lake(source / path, name, target, noted.get(path.name))

    def _file_of_lake(self, source: Path, name: str, target: Path, noted: str | None) -> None:
        """Link or copy a file that is what was written; a file that is not would be kept in place of one that is."""
        known = self._known.get(name)
        found = sha256(source)
        was = noted or (known.sha256 if known is not None else None)
        why = unreadable(source) if was is None else None if found == was else "it has changed since it was written"
        if why is not None:
            raise BackupError(
                f"nothing was backed up, since the lake's file {source} is damaged: {why}. "
                "Earlier backups may still have it; without it: gpuledger admin lake aside --all"
            )
        is_kept = known is not None and self._last is not None and linked(self._last / name, target, known.bytes)
        if known is not None and is_kept and sha256(target) == found == known.sha256:
            self._files[name] = known
            return
        target.unlink(missing_ok=True)
        self._add(copied(source, self._place, target))
        if self._files[name].sha256 != found:
            raise BackupError(f"the lake's file {source} reads differently each time: its disk is failing")

    def _add(self, file: File) -> None:
        self._files[file.path] = file
        self.new_bytes += file.bytes


def _copy_sqlite(source: Path, target: Path) -> None:
    try:
        copy_sqlite(source, target)
    except StoreError as error:
        raise BackupError(str(error)) from error
    sync(target)


def _known(last: Path | None) -> dict[str, File]:
    """Return the files of the last backup; none where it is damaged: it is no reason to make no other."""
    try:
        return Manifest.read(last).by_path() if last else {}
    except BackupError as error:
        _LOG.warning("everything is copied again: %s", error)
        return {}
