"""Where a spool puts what is no batch of its own, and what the collector refused: kept for a look, and bounded."""

import contextlib
import logging
import uuid
from collections.abc import Iterator
from pathlib import Path

from agent.files import ASIDE, Disk

_LOG = logging.getLogger(__name__)
MOST_FILES = 100  # the oldest go first; what is wrong with a batch shows in any of them
MOST_BYTES = 64 * 10**6
_NAME_CHARACTERS = 150  # of the old name: the new one must fit into a directory too


class Quarantine:
    """A directory of what was set aside. `count` is how much since the agent began.

    Raises:
        OSError: the directory cannot be made.
    """

    def __init__(self, directory: Path, disk: Disk) -> None:
        self.count = 0
        self._directory = directory
        self._disk = disk
        if directory.is_symlink() or (directory.exists() and not directory.is_dir()):
            self._make_way()
        elif not directory.exists():
            disk.make_directory(directory)

    def take(self, path: Path, stream: str, why: str) -> bool:
        """Move something in here, with the stream in its name; return whether it is out of the way."""
        self.count += 1
        _LOG.warning("%r is set aside in %s: %s", path.name, self._directory, why)
        try:
            # With its stream in the name, so that a number that was set aside is known to be given.
            kept = self._directory / f"{path.name[:_NAME_CHARACTERS]}.{stream}.{uuid.uuid4().hex[:8]}"
            self._disk.rename(path, kept)
            self._disk.sync_directory(self._directory)
        except FileNotFoundError:
            return True
        except OSError as error:
            _LOG.warning("%r cannot be set aside: %s", path.name, error)
            return False
        self._forget_oldest()
        return True

    def names_of(self, stream: str) -> Iterator[str]:
        """Yield the old names of what was set aside under a stream."""
        for path in self._directory.glob(f"*.{stream}.*"):
            yield path.name.partition(f".{stream}.")[0]

    def _make_way(self) -> None:
        """Something of this name is there that is no directory: it becomes the first thing in one."""
        aside = self._directory.with_name(self._directory.name + ASIDE)
        self._disk.rename(self._directory, aside)
        self._disk.make_directory(self._directory)
        self.take(aside, "none", "no directory")

    def _forget_oldest(self) -> None:
        """Remove the oldest beyond the bounds; the newest stays, however large somebody made it."""
        newest_first = sorted(self._directory.iterdir(), key=_age, reverse=True)
        total = 0
        for place, path in enumerate(newest_first):
            total += _bytes(path)
            if place and (place >= MOST_FILES or total > MOST_BYTES):
                with contextlib.suppress(OSError):
                    self._disk.remove(path)


def _age(path: Path) -> int:
    try:
        return path.lstat().st_ctime_ns  # when it was put here; it may have been written long before
    except OSError:
        return 0


def _bytes(path: Path) -> int:
    try:
        inside = path.rglob("*") if path.is_dir() and not path.is_symlink() else ()
        return path.lstat().st_size + sum(file.lstat().st_size for file in inside)
    except OSError:
        return 0
