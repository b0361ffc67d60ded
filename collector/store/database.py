"""Open the DuckDB store and bring its schema up to date. With session.py the only importer of duckdb."""

import re
from pathlib import Path

import duckdb

from collector.errors import StoreError
from collector.store.migrations import migrate, require_current
from collector.store.session import Session

# A log of 1 GB ingests as fast but stalls for seconds when it is folded in; 64 MB keeps answers prompt (bench/).
WAL_AUTOCHECKPOINT = "64MB"


class Store:
    """The hot DuckDB file, or a temporary store in memory where `path` is None."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, path: Path | None = None) -> None:
        self._connection = connection
        self.path = path

    @classmethod
    def open(
        cls, path: Path | None, *, read_only: bool = False, memory_limit: str = "1GB", threads: int = 2
    ) -> "Store":
        """Open the store, bring its schema up to date, and return it.

        Raises:
            StoreError: the file is missing, locked by another process, or of a newer release.
        """
        config: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": memory_limit,
            "threads": str(threads),
            "wal_autocheckpoint": WAL_AUTOCHECKPOINT,
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "preserve_insertion_order": "false",
        }
        if read_only:
            del config["wal_autocheckpoint"]
            if path is None or not path.exists():
                raise StoreError(
                    f"there is no store at {path}; make one with gpuledger serve --store or gpuledger demo --store"
                )
        try:
            connection = duckdb.connect(str(path) if path else ":memory:", read_only=read_only, config=config)
        except duckdb.Error as error:
            raise StoreError(_opening_failed(path, str(error))) from error
        store = cls(connection, path)
        try:
            with store.session() as session:
                (require_current if read_only else migrate)(session)
        except BaseException:
            store.close()  # or the file stays locked for as long as the traceback lives
            raise
        return store

    def session(self) -> Session:
        """Return a new cursor; each thread needs its own."""
        return Session(self._connection.cursor())

    def size_bytes(self) -> int:
        """Return the bytes of the file and its log; 0 for a store in memory."""
        files = [self.path, self.path.with_name(self.path.name + ".wal")] if self.path else []
        return sum(file.stat().st_size for file in files if file.exists())

    def checkpoint(self) -> None:
        """Fold the log into the file."""
        with self.session() as session:
            session.execute("CHECKPOINT")

    def close(self) -> None:
        """Close the store; its log is folded in."""
        self._connection.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _opening_failed(path: Path | None, error: str) -> str:
    """Say why a store cannot be opened, and what to do."""
    if "lock on file" in error:  # DuckDB allows one process that writes, and then none that reads
        holder = re.search(r"PID (\d+)", error)
        by = f"process {holder[1]}" if holder else "another process"
        return f"the store {path} is in use by {by}; ask it with --server URL, or stop it first"
    if "different configuration" in error:
        return f"the store {path} is already open in this process; use that one"
    said = "it is no DuckDB file" if "in-memory database" in error else error.splitlines()[0]
    return f"cannot open the store {path}: {said}"
