"""Fold the log of an SQLite file in, and write the file anew where so many bytes are free: `… FILE BYTES`.

A process of its own: SQLite's locks are a process's, and the server has the lake's SQLite beside Python's. Of two in
one process each sees no lock of the other's, and the one that closes removes the log from under the other.
"""

import sqlite3
import sys
from contextlib import closing
from pathlib import Path


def _vacuum(file: Path, free_bytes: int) -> None:
    """Tidy a file up.

    Raises:
        sqlite3.Error: it cannot be opened, or somebody would not let go of it.
    """
    with closing(sqlite3.connect(file, timeout=10.0, isolation_level=None)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        (page,) = connection.execute("PRAGMA page_size").fetchone()
        (free,) = connection.execute("PRAGMA freelist_count").fetchone()
        if free * page >= free_bytes:
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


if __name__ == "__main__":
    try:
        _vacuum(Path(sys.argv[1]), int(sys.argv[2]))
    except sqlite3.Error as error:
        sys.exit(str(error))
