"""Copy a SQLite database that others write, by SQLite's own backup API: a program, python sqlite_copy.py FROM TO

It must not run in the collector's process. There DuckDB's extension holds the catalogue open with a SQLite library of
its own, and a second library that closes the same file lets go of the first one's POSIX locks: two writers could then
write at once (sqlite.org/howtocorrupt.html, "Multiple copies of SQLite linked into the same application").
"""

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

_BUSY_SECONDS = 30.0


def _copy(source: str, target: str) -> None:
    """Write one consistent state of `source` to `target`, as one file; closing folds its log in."""
    origin = Path(source).absolute().as_uri()
    with (
        closing(sqlite3.connect(f"{origin}?mode=ro", uri=True, timeout=_BUSY_SECONDS)) as read,
        closing(sqlite3.connect(target)) as written,
    ):
        read.backup(written)
        (verdict,) = written.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        sys.exit(f"the copy of {source} is damaged: {verdict}")


if __name__ == "__main__":
    _copy(sys.argv[1], sys.argv[2])
