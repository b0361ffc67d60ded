"""Files that survive a power cut, and a directory that belongs to one process."""

import fcntl
import os
from pathlib import Path
from typing import IO

ASIDE = ".tmp"  # a file that was being written when the process died; nobody was told of it


def write_durably(path: Path, content: bytes) -> None:
    """Write a file whole or not at all: aside, synced, renamed, the directory synced.

    Raises:
        OSError: it could not be written; nothing is left behind but what was there before.
    """
    aside = path.with_name(path.name + ASIDE)
    try:
        with aside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except OSError:
        aside.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Make renames and removals in a directory durable."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def hold_lock(path: Path) -> IO[bytes]:
    """Return an open file that holds the lock until it is closed, or until the process ends, however it ends.

    Raises:
        OSError: another process holds it.
    """
    file = path.open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise
    return file
