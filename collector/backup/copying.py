"""Bytes from here to there: hashed while they pass, on the disk when it returns."""

import hashlib
import os
import subprocess
from pathlib import Path

from agent import child
from collector.backup.manifest import File, sync
from collector.errors import BackupError

_CHUNK = 1 << 20
_SQLITE_SECONDS = 600


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


def copy_sqlite(source: Path, target: Path) -> None:
    """Copy a SQLite database that others write, in a process of its own (sqlite_copy.py says why).

    Raises:
        BackupError: it could not be copied within ten minutes, or at all.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    command = child.command("collector.backup.sqlite_copy", str(source), str(target))
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=_SQLITE_SECONDS, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BackupError(f"{source} cannot be copied: {error}") from error
    if ran.returncode:
        said = (ran.stderr.strip().splitlines() or ["no reason was given"])[-1]
        raise BackupError(f"{source} cannot be copied: {said}")
    sync(target)
