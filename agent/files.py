"""Files that survive a power cut, and a directory that belongs to one process."""

import contextlib
import fcntl
import os
import shutil
from pathlib import Path
from typing import IO

ASIDE = ".tmp"  # a file that was being written when the process died; nobody was told of it


class Disk:
    """What is done to files, in the order that a power cut demands.

    `sync` False leaves the order to the kernel: a kill loses nothing then, a power cut may lose the last seconds. The
    steps are methods of their own, so that a test can write them down and cut the power after any of them.
    """

    def __init__(self, *, sync: bool = True) -> None:
        self._sync = sync

    def write(self, path: Path, content: bytes) -> None:
        """Write a file whole or not at all: aside, synced, renamed, the directory synced.

        Raises:
            OSError: it could not be written; what was there before is there still, or else the whole new content.
        """
        aside = path.with_name(path.name + ASIDE)
        try:
            self.create(aside, content)
            self.rename(aside, path)
        except OSError:
            with contextlib.suppress(OSError):
                aside.unlink(missing_ok=True)
            raise
        self.sync_directory(path.parent)

    def create(self, path: Path, content: bytes) -> None:
        """Write a file in place, its content synced; its name is durable with the directory."""
        with path.open("wb") as file:
            file.write(content)
            file.flush()
            if self._sync:
                self.sync_file(path, file.fileno())

    def sync_file(self, path: Path, handle: int) -> None:  # noqa: ARG002  a test wants to know which
        """Make the content of an open file durable."""
        os.fsync(handle)

    def rename(self, source: Path, target: Path) -> None:
        """Give a file another name, in place of what has it now."""
        source.replace(target)

    def remove(self, path: Path) -> None:
        """Remove a file, or a directory with all that is in it; what is not there is no error."""
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    def make_directory(self, path: Path) -> None:
        """Make a directory; its name is durable with the one above."""
        path.mkdir()

    def sync_directory(self, path: Path) -> None:
        """Make names that were given and taken in a directory durable."""
        if not self._sync:
            return
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_durably(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, so that a power cut leaves the old one or the new one.

    Raises:
        OSError: it could not be written.
    """
    Disk().write(path, content)


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
