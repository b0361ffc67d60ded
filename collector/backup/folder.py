"""The folder that backups are kept in: one at a time, whole or not there, the old ones let go."""

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from collector.backup.manifest import NAME, sync
from collector.errors import BackupError

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
        raise BackupError(f"another backup is being made in {folder}; wait until it has ended") from error
