"""Files that survive a power cut, a directory of one process, and the file of what must outlive a restart."""

import contextlib
import fcntl
import json
import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

from agent.wire.bounded import json_said

# Files that survive a power cut, and a directory that belongs to one process.
ASIDE = ".tmp"  # a file that was being written when the process died; nobody was told of it


class Disk:
    """What is done to files, in the order that a power cut demands.

    `sync` False leaves the order to the kernel: a kill loses nothing then, a power cut may lose the last seconds. What
    is `private` its owner alone can read, from its first byte on. The steps are methods of their own, so that a test
    can write them down and cut the power after any of them.
    """

    def __init__(self, *, sync: bool = True, private: bool = False) -> None:
        self._sync, self._private = sync, private

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
        if self._private:
            path.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | (os.O_EXCL if self._private else os.O_TRUNC)
        with os.fdopen(os.open(path, flags, 0o600 if self._private else 0o666), "wb") as file:
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


_LOG = logging.getLogger(__name__)
# What must outlive a restart of the agent: GPUs seen and their holders, energy, open allocations. A small JSON file.
#
# Losing it costs little and stops nothing: a GPU that died meanwhile is missed, an energy epoch begins anew.
_WRITE_SECONDS = 60.0  # between two writes: every write is synced, and the disk is the runs'
_MOST_BYTES = 4 * 2**20


class StateFile:
    """Named sections of JSON; `path` None keeps them in memory only. Safe to use from several threads.

    `failures` counts the times the file could not be read or written.
    """

    def __init__(self, path: Path | None, seconds: Callable[[], float] = time.monotonic) -> None:
        self.failures = 0
        self._path = path
        self._seconds = seconds
        self._lock = threading.Lock()
        self._sections: dict[str, Any] = {} if path is None else self._read(path)
        self._dirty = False
        self._written = -_WRITE_SECONDS

    def section(self, name: str) -> dict[str, Any]:
        """Return what was kept under a name; empty where there is nothing."""
        with self._lock:
            content = self._sections.get(name)
            return dict(content) if isinstance(content, dict) else {}

    def keep(self, name: str, content: Mapping[str, Any]) -> None:
        """Keep this under a name, in place of what was there; on disk within a minute, and at close()."""
        with self._lock:
            if self._sections.get(name) == content:
                return
            self._sections[name] = dict(content)
            self._dirty = True
            if self._seconds() - self._written >= _WRITE_SECONDS:
                self._write()

    def close(self) -> None:
        """Write what is not yet written."""
        with self._lock:
            self._write()

    def _read(self, path: Path) -> dict[str, Any]:
        try:
            with path.open("rb") as file:
                text = file.read(_MOST_BYTES + 1)
            if len(text) > _MOST_BYTES:
                raise ValueError(f"larger than {_MOST_BYTES} bytes")
            content = json_said(text)
            if not isinstance(content, dict):
                raise ValueError("not a JSON object")
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError) as error:
            self._fails("read", error)
            return {}
        return content

    def _write(self) -> None:
        if not self._dirty or self._path is None:
            return
        self._written = self._seconds()
        try:
            write_durably(self._path, json.dumps(self._sections, separators=(",", ":")).encode())
            self._dirty = False
        except OSError as error:
            self._fails("written", error)

    def _fails(self, what: str, error: Exception) -> None:
        self.failures += 1
        if self.failures == 1:
            _LOG.warning("%s cannot be %s (%s); less state will survive a restart", self._path, what, error)
