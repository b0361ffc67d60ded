"""Put a backup back as a store, where there is none."""

import shutil
from pathlib import Path

from collector.backup.copying import copied
from collector.backup.layout import PRIVATE, Layout
from collector.backup.manifest import Manifest, sync
from collector.backup.open_backup import point
from collector.errors import BackupError, StoreError
from collector.store.database import Store
from collector.store.lake_schema import RECEIPTS

_MEGABYTE = 10**6

# Batches that came after the hot file was copied and were sealed before the lake was: their rows are there, so their
# receipts must be too, or they would count twice when their agents send them again.
_RECONCILE = """
INSERT INTO {hot}.receipts ({columns})
SELECT {columns} FROM lake.main.receipts l
WHERE batch > (SELECT coalesce(max(batch), 0) FROM {hot}.receipts)
    AND NOT EXISTS (SELECT 1 FROM {hot}.receipts h WHERE h.stream = l.stream AND h.sequence = l.sequence)
"""


def restore(folder: Path, store: Path) -> Manifest:
    """Make the store that a backup holds at `store`, and return its account. Agents then send what is newer.

    What was killed on its way left no store: the hot file gets its name last.

    Raises:
        BackupError: something lies there already, the backup is damaged, or there is no room.
    """
    manifest = Manifest.read(folder)
    target = Layout(store.absolute())
    if taken := _taken(target):
        raise BackupError(f"{taken} is there already; a restore overwrites nothing: move it away, or name another path")
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
            raise BackupError(f"the backup {folder} lacks {file.path}; take another one") from error
        if found != file:
            raise BackupError(f"{folder / file.path} is damaged: its sha256 is not the manifest's; take another backup")


def _reconcile(copy: Layout) -> None:
    if not copy.catalogue.exists():
        return
    point(copy.catalogue, copy.data)
    with Store.open(copy.store) as store, store.session() as session, session.transaction():
        session.execute(_RECONCILE.format(hot=store.hot, columns=RECEIPTS))


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
