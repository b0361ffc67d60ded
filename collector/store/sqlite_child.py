"""Copy a SQLite file that others write, or fold its log in: `… copy FROM TO`, `… vacuum FILE BYTES`.

A program of its own, since SQLite's locks are a process's and DuckDB's extension holds the lake's catalogue open with a
library of its own. Of two libraries in one process each sees no lock of the other's, and the one that closes a file
lets go of the other's locks, or removes the log from under it: two writers could then write at once
(sqlite.org/howtocorrupt.html, "Multiple copies of SQLite linked into the same application").
"""

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from agent import child
from collector.errors import StoreError

_BUSY_SECONDS = 30.0
_PATIENCE_SECONDS = 600  # for a copy


def copy_sqlite(source: Path, target: Path) -> None:
    """Copy a database as of one moment, as one file, in a process of its own.

    Raises:
        StoreError: it could not be copied within ten minutes, or at all.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    if (why := _complaint("copy", str(source), str(target), patience_seconds=_PATIENCE_SECONDS)) is not None:
        raise StoreError(f"{source} cannot be copied: {why}")


def vacuum_sqlite(file: Path, free_bytes: int) -> None:
    """Fold a file's log in, and write the file anew where so many bytes of it are free; in a process of its own.

    Raises:
        StoreError: the file cannot be opened, or somebody would not let go of it.
    """
    if (why := _complaint("vacuum", str(file), str(free_bytes))) is not None:
        raise StoreError(f"the catalogue {file} cannot be compacted now: {why}; run the same command again")


def _complaint(*words: str, patience_seconds: float | None = None) -> str | None:
    """Run this module with these words; return its last line on stderr where it fails."""
    command = child.command("collector.store.sqlite_child", *words)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=patience_seconds, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return (done.stderr.strip().splitlines() or ["no reason was given"])[-1] if done.returncode else None


def _copy(source: str, target: str) -> None:
    origin = Path(source).absolute().as_uri()
    with (
        closing(sqlite3.connect(f"{origin}?mode=ro", uri=True, timeout=_BUSY_SECONDS)) as read,
        closing(sqlite3.connect(target)) as written,
    ):
        read.backup(written)
        (verdict,) = written.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        sys.exit(f"the copy of {source} is damaged: {verdict}")


def _vacuum(file: str, free_bytes: str) -> None:
    with closing(sqlite3.connect(file, timeout=10.0, isolation_level=None)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        (page,) = connection.execute("PRAGMA page_size").fetchone()
        (free,) = connection.execute("PRAGMA freelist_count").fetchone()
        if free * page >= int(free_bytes):
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


if __name__ == "__main__":
    try:
        {"copy": _copy, "vacuum": _vacuum}[sys.argv[1]](*sys.argv[2:])
    except sqlite3.Error as error:
        sys.exit(str(error))
