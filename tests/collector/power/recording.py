"""Read what recorder.c wrote, and compile it."""

import os
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

_HEAD = struct.Struct("<IIIQQ")


class Kind(IntEnum):
    """What was done; the numbers are those of recorder.c."""

    CREATE = 1
    WRITE = 2
    TRUNCATE = 3
    RENAME = 4
    UNLINK = 5
    MKDIR = 6
    RMDIR = 7
    SYNC_FILE = 8
    SYNC_DIRECTORY = 9
    SYNC_ALL = 10


@dataclass(frozen=True, slots=True)
class Event:
    """One call. `offset` is where was written, or the size that a file was cut to; `path` is below the root."""

    kind: Kind
    path: str
    inode: int
    offset: int
    data: bytes
    to: str = ""
    end: int = 0  # where its record ends in the log


def compiled(folder: Path) -> Path:
    """Return the library to preload."""
    library = folder / "recorder.so"
    source = Path(__file__).with_name("recorder.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", library, source, "-ldl"], check=True)
    return library


def events(log: bytes, root: Path) -> Iterator[Event]:
    """Yield what is recorded, in order."""
    at = 0
    while at < len(log):
        kind, path_length, data_length, inode, offset = _HEAD.unpack_from(log, at)
        at += _HEAD.size
        paths = [_below(path, root) for path in log[at : at + path_length].decode().split("\0")]
        data = log[at + path_length : at + path_length + data_length]
        at += path_length + data_length
        yield Event(Kind(kind), paths[0], inode, offset, data, paths[1] if len(paths) > 1 else "", at)


def _below(path: str, root: Path) -> str:
    return os.path.relpath(path, root) if path else ""
