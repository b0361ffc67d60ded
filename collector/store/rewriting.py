"""Write a store's hot file anew, so that nothing of what was deleted or changed is left in its free blocks."""

import os
from pathlib import Path

import duckdb

from collector.errors import StoreError
from collector.store.literal import literal

_ASIDE = ".rewriting"


def rewrite(path: Path, memory_limit: str = "1GB") -> None:
    """Copy all tables into a new file and put that in the old one's place, whole or not at all.

    The store must be closed. The disk needs room for both files for a moment.

    Raises:
        StoreError: it is in use, or the disk is full; the old file is as it was.
    """
    aside = path.with_name(path.name + _ASIDE)
    _remove(aside)
    try:
        connection = duckdb.connect(":memory:", config={"memory_limit": memory_limit})
        try:
            for name, file in (("old", path), ("new", aside)):
                connection.execute(f"ATTACH {literal(file)} AS {name}")
            connection.execute("COPY FROM DATABASE old TO new")
            connection.execute("CHECKPOINT new")
        finally:
            connection.close()
        _replace(aside, path)
    except (duckdb.Error, OSError) as error:
        _remove(aside)
        raise StoreError(f"cannot write {path} anew: {str(error).splitlines()[0]}") from error


def _replace(aside: Path, path: Path) -> None:
    with aside.open("rb") as file:
        os.fsync(file.fileno())
    aside.replace(path)
    _log(path).unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _remove(aside: Path) -> None:
    for file in (aside, _log(aside)):
        file.unlink(missing_ok=True)


def _log(path: Path) -> Path:
    return path.with_name(path.name + ".wal")
