"""Is a backup what it was? And put it back as a store, where there is none.

Every file is read and hashed, the copy is opened, every table is counted.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from collector.backup.backup_maker import copied
from collector.backup.manifest import (
    PRIVATE,
    Layout,
    Manifest,
    hot_rows,
    lake_rows,
    noted_hashes,
    open_backup,
    point,
    sha256,
)
from collector.errors import BackupError, StoreError
from collector.store.database import Store
from collector.store.noted import unreadable
from collector.store.power import sync
from collector.store.seal_mark import Mark


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was read, and every sentence that says that something is not as it was."""

    manifest: Manifest
    wrong: tuple[str, ...]

    @property
    def is_whole(self) -> bool:
        """Whether it can be restored."""
        return not self.wrong


def verify(folder: Path) -> Verdict:
    """Hold a backup to its manifest. Nothing of it is changed.

    Raises:
        BackupError: it has no manifest that can be read.
    """
    manifest = Manifest.read(folder)
    wrong = _wrong_files(folder, manifest)
    if not wrong:  # a file that is damaged is not opened
        wrong = _damaged_before(folder, manifest)
    if not wrong:
        wrong = _wrong_counts(Layout.within(folder), manifest)
    return Verdict(manifest, tuple(wrong))


def _wrong_files(folder: Path, manifest: Manifest) -> list[str]:
    """Return a sentence for each file that is not there, or not what it was."""
    wrong = []
    for file in manifest.files:
        path = folder / file.path
        if not path.is_file():
            wrong.append(f"{file.path} is missing")
        elif path.stat().st_size != file.bytes:
            wrong.append(f"{file.path} has {path.stat().st_size:,} bytes and had {file.bytes:,}")
        elif sha256(path) != file.sha256:
            wrong.append(f"{file.path} has changed: its sha256 differs")
    return wrong


def _damaged_before(folder: Path, manifest: Manifest) -> list[str]:
    """Return a sentence for each file of the lake that was damaged before it was copied: its hash is right in vain.

    Those are read whose hash was not noted when they were written.
    """
    catalogue = Layout.within(folder).catalogue
    noted = noted_hashes(catalogue) if catalogue.exists() else {}
    wrong = []
    for file in manifest.files:
        was = noted.get(Path(file.path).name)
        if was is not None and was != file.sha256:
            wrong.append(f"{file.path} was damaged when it was copied: it is not what was written")
        elif was is None and file.path.endswith(".parquet") and (why := unreadable(folder / file.path)) is not None:
            wrong.append(f"{file.path} cannot be read: {why}")
    return wrong


def _wrong_counts(copy: Layout, manifest: Manifest) -> list[str]:
    try:
        with open_backup(copy) as store:
            hot = hot_rows(store, manifest.hot_rows)
            lake = lake_rows(store) if manifest.lake_rows else {}
    except StoreError as error:
        return [f"it cannot be opened: {error}"]
    return [*_differing("the hot file", manifest.hot_rows, hot), *_differing("the lake", manifest.lake_rows, lake)]


def _differing(where: str, then: Mapping[str, int], now: Mapping[str, int]) -> list[str]:
    return [
        f"{table} in {where} has {now.get(table, 0):,} rows and had {then.get(table, 0):,}"
        for table in sorted({*then, *now})
        if then.get(table) != now.get(table)
    ]


_MEGABYTE = 10**6


def restore(folder: Path, store: Path) -> Manifest:
    """Make the store that a backup holds at `store`, and return its account. Agents then send what is newer.

    What was killed on its way left no store: the hot file gets its name last.

    Raises:
        BackupError: something lies there already, the backup is damaged, or there is no room.
    """
    manifest = Manifest.read(folder)
    target = Layout(store.absolute())
    if taken := _taken(target):
        raise BackupError(f"{taken} exists already; a restore overwrites nothing: move it away, or name another path")
    staging = target.store.with_name(f".{target.store.name}.restoring")
    try:
        shutil.rmtree(staging, ignore_errors=True)  # of a restore that was killed
        staging.mkdir(0o700, parents=True)
        _copy(folder, staging, manifest)
        if not manifest.elsewhere:  # else the lake is restored by its own means; the guide says how
            _reconcile(Layout.within(staging))
        _put_in_place(Layout.within(staging), target)
    except (OSError, StoreError) as error:
        why = getattr(error, "strerror", None) or error
        raise BackupError(f"cannot restore to {store}, where {_free(store)}: {why}") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return manifest


def _free(store: Path) -> str:
    """Say how much room there is: of a full disk DuckDB and SQLite say many things, none of which is that."""
    there = next(folder for folder in store.absolute().parents if folder.exists())
    return f"{shutil.disk_usage(there).free // _MEGABYTE:,} MB are free"


def _taken(target: Layout) -> Path | None:
    places = (target.store, target.log, target.safety, target.lake, target.registry)
    return next((path for path in places if path.exists()), None)


def _copy(folder: Path, staging: Path, manifest: Manifest) -> None:
    for file in manifest.files:
        try:
            found = copied(folder / file.path, staging, staging / file.path)
        except FileNotFoundError as error:
            raise BackupError(f"the backup {folder} lacks {file.path}; use another backup") from error
        if found != file:
            raise BackupError(
                f"{folder / file.path} is damaged: its sha256 differs from the manifest's; use another backup"
            )


def _reconcile(copy: Layout) -> None:
    if not copy.catalogue.exists():
        return
    point(copy.catalogue, copy.data)
    with Store.open(copy.store, may_lack=True) as store:
        # Batches that came after the hot file was copied and were sealed before the lake was: their rows are there, so
        # their receipts must be too, or they would count twice when their agents send them again.
        Mark.of(store)
        with store.hot_session() as session:
            session.execute("DELETE FROM lake_here")  # the folder that it was sealed into is another


def _put_in_place(copy: Layout, target: Layout) -> None:
    if copy.catalogue.exists():
        if copy.data.exists():
            point(copy.catalogue, target.data)
        copy.lake.rename(target.lake)
    if copy.registry.exists():
        copy.registry.chmod(PRIVATE)
        copy.registry.rename(target.registry)
    copy.store.rename(target.store)
    sync(target.store.parent)
