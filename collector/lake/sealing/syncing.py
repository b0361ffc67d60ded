"""Bring what was written below a folder to the disk: DuckDB closes the Parquet files that it writes, and syncs none."""

import ctypes
import os
from pathlib import Path

from collector.errors import StoreError


def sync(folder: Path | None) -> None:
    """Return once everything that was written to the folder's file system would survive a power cut.

    None stands for an object store, which keeps what it has accepted.

    Raises:
        StoreError: the file system says that it could not.
    """
    if folder is None:
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            _syncfs(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise StoreError(f"cannot sync {folder} to disk: {error.strerror}") from error


def _syncfs(descriptor: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "syncfs"):  # outside Linux
        os.sync()
    elif library.syncfs(descriptor):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
