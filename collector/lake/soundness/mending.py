"""Put back what a backup still has of the lake's damaged files: they never change, so that a whole copy is the file."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from collector.backup.copying import copied
from collector.backup.folder import backups
from collector.backup.manifest import Manifest, sha256, sync
from collector.errors import BackupError, StoreError
from collector.lake.soundness.file_check import Damage
from collector.store.noted import Named, Note, named_files, write_notes
from collector.store.parquet_file import unreadable

if TYPE_CHECKING:
    from collector.store.database import Store

_ASIDE = ".mending"


def put_back(store: "Store", damages: Sequence[Damage], place: Path) -> list[Damage]:
    """Put whole copies of these files, from the backups of a folder, in their places; return those that were put back.

    Raises:
        StoreError: the disk refuses, or the catalogue does.
    """
    folder = store.lake.folder if store.lake is not None else None
    if folder is None or not damages:
        return []
    copies = _copies(place)
    with store.session() as session:
        files = {file.name: file for file in named_files(session)}
    done = []
    for damage in damages:
        file = files.get(damage.name)
        copy = next((one for one in copies.get(damage.name, []) if file is not None and _is_whole(one, file)), None)
        if file is not None and copy is not None:
            _replace(copy, folder / file.path)
            now_us = time.time_ns() // 1000
            write_notes(store, [Note(file.name, sha256(folder / file.path), now_us, None)])
            done.append(damage)
    return done


def _copies(place: Path) -> dict[str, list[Path]]:
    """Return where backups have files of the lake, by their names, of the newest backup first."""
    found: dict[str, list[Path]] = {}
    for backup in reversed(backups(place)):
        try:
            manifest = Manifest.read(backup)
        except BackupError:  # a damaged one may stand before one that is whole
            continue
        for file in manifest.files:
            found.setdefault(Path(file.path).name, []).append(backup / file.path)
    return found


def _is_whole(copy: Path, file: Named) -> bool:
    try:
        if copy.stat().st_size != file.bytes:
            return False
        return sha256(copy) == file.sha256 if file.sha256 is not None else unreadable(copy) is None
    except OSError:
        return False


def _replace(copy: Path, target: Path) -> None:
    aside = target.with_name(target.name + _ASIDE)
    try:
        aside.unlink(missing_ok=True)
        copied(copy, target.parent, aside)
        aside.replace(target)
        sync(target.parent)
    except OSError as error:
        raise StoreError(f"cannot put {copy} back to {target}: {error.strerror}") from error
