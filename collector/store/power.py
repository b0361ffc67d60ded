"""What is done to the hot file beside DuckDB: against power cuts, for its owner alone, and written anew.

DuckDB leaves two things to luck in a power cut (both found by tests/power). The log's name. DuckDB syncs its log at
every commit, and removes it and makes it anew at every checkpoint; the folder in which the name stands it never syncs.
ext4 and xfs put the name on the disk with the content; POSIX promises nothing. Without the name the answered batches
are gone, and an older log that is there again does not fit the file any more. So the folder is synced whenever the
store has another log than before.

The blocks of metadata. A checkpoint writes data to free blocks, and then changes the header. But a block of metadata
holds 64 pieces, old and new side by side, and is written over in place, all 256 KiB of it: cut off in the middle it is
neither, its checksum fails, and the whole file cannot be opened. So after each checkpoint the blocks in use are copied
to a file beside the store. While the header is still of the iteration that the copy was made for, a block whose
checksum fails was cut off by a checkpoint that did not finish, and the copy is what it was before: opening the store
puts it right.

A store's files have names of people in them, and their money. Written anew, nothing of what was deleted or changed is
left in the file's free blocks.
"""

import fcntl
import hashlib
import logging
import os
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import reduce
from operator import xor
from pathlib import Path

import duckdb

from collector.errors import StoreError
from collector.store.lake import LakeSettings
from collector.store.session import literal

_LOG = logging.getLogger(__name__)
_HEADERS_AT, _HEADERS = 4096, 8192  # two headers take turns; the one with the higher iteration counts
_ITERATION = struct.Struct("<8xQ")  # behind a checksum
BLOCKS_AT, BLOCK = 3 * 4096, 262_144  # bytes: where blocks begin, and the size of one
_COPY = struct.Struct("<16sQQ")  # magic, iteration, count of blocks; then the ids, the blocks and a sha256 of it all
_MAGIC = b"gpuledger blocks"
_FACTOR, _SEED, _WORD = 0xBF58476D1CE4E5B9, 5381, 2**64 - 1  # of DuckDB's checksum (src/common/checksum.cpp)


@dataclass(frozen=True, slots=True)
class Copy:
    """The blocks of metadata as a header of this iteration needs them."""

    iteration: int
    blocks: dict[int, bytes]


class Safety:
    """Keeps one open store safe. `trouble` says in a sentence what could not be done; None where all is well."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.trouble: str | None = None
        self._log = path.with_name(path.name + ".wal")
        self._last_log: tuple[int, int] | None = None  # inode and size
        self._headers = b""
        self._descriptor: int | None = None
        self._copying = threading.Lock()

    def settle(self) -> bool:
        """Do what is cheap and always right after a commit; return whether a checkpoint calls for a new copy."""
        try:
            self._keep_log_name()
            self.trouble = None
        except OSError as error:
            self.trouble = f"cannot sync {self.path.parent} to disk: {error.strerror}"
        try:
            descriptor = self._own_descriptor()
            return descriptor is not None and self._read_headers(descriptor) != self._headers
        except OSError:  # closed meanwhile by who had the file open before; looked for again at the next commit
            return False

    def copy(self, used: Sequence[int]) -> None:
        """Copy these blocks, which are all that hold metadata in use. A copy that fails is told and tried again."""
        if not self._copying.acquire(blocking=False):
            return
        try:
            descriptor = self._own_descriptor()
            if descriptor is None:
                return
            headers = self._read_headers(descriptor)
            blocks = {number: os.pread(descriptor, BLOCK, _place(number)) for number in used}
            if all(len(block) == BLOCK for block in blocks.values()):
                _write(copy_of(self.path), Copy(_iteration(headers), blocks))
                self._headers = headers
        except OSError as error:
            _LOG.warning("the store's metadata cannot be copied; a power loss may damage it: %s", error)
        finally:
            self._copying.release()

    def forget(self) -> None:
        """Remove the copy of a store that was closed in order: its file is whole, and has another header by now."""
        if not self._log.exists():
            copy_of(self.path).unlink(missing_ok=True)

    def _keep_log_name(self) -> None:
        try:
            status = os.stat(self._log)  # noqa: PTH116 - half the time of Path.stat(), at every commit
        except FileNotFoundError:  # all of it is in the file by now
            self._last_log = None
            return
        # Inodes are used again; a log that is made anew is shorter.
        last = self._last_log
        if last is None or last[0] != status.st_ino or status.st_size < last[1]:
            sync(self.path.parent)
        self._last_log = (status.st_ino, status.st_size)

    def _own_descriptor(self) -> int | None:
        """Return a descriptor by which this process has the file open, looked for anew where the last is no more.

        It may have been that of a database closed a moment ago, and its number may be another file's by now.
        """
        if self._descriptor is None or not _is_of(self._descriptor, self.path):
            self._descriptor = _held(self.path)
        return self._descriptor

    @staticmethod
    def _read_headers(descriptor: int) -> bytes:
        return os.pread(descriptor, _HEADERS, _HEADERS_AT)


def copy_of(path: Path) -> Path:
    """Return where the copy of a store's metadata lies."""
    return path.with_name(path.name + ".metadata")


def mend(path: Path) -> int:
    """Put right what a checkpoint that was cut off left of a store that nobody has open; return the blocks changed.

    Raises:
        OSError: the file cannot be read or written.
    """
    kept = _read(copy_of(path))
    if kept is None or not path.exists() or _held(path) is not None:
        return 0
    with _locked(path) as descriptor:
        if descriptor is None or _iteration(os.pread(descriptor, _HEADERS, _HEADERS_AT)) != kept.iteration:
            return 0
        torn = [number for number in kept.blocks if not _is_whole(os.pread(descriptor, BLOCK, _place(number)))]
        for number in torn:
            os.pwrite(descriptor, kept.blocks[number], _place(number))
        if torn:
            os.fsync(descriptor)
            _LOG.warning(
                "%s: a checkpoint was interrupted; %d blocks were restored to their state before it", path, len(torn)
            )
        return len(torn)


def _place(block: int) -> int:
    return BLOCKS_AT + block * BLOCK


def _is_whole(block: bytes) -> bool:
    """Whether the checksum that a block begins with is that of the rest."""
    stored, *words = struct.unpack(f"<{len(block) // 8}Q", block[: len(block) // 8 * 8])
    return len(block) == BLOCK and stored == reduce(xor, (word * _FACTOR & _WORD for word in words), _SEED)


def _iteration(headers: bytes) -> int:
    if len(headers) < _HEADERS:
        return -1
    return int(max(_ITERATION.unpack_from(headers, at)[0] for at in (0, _HEADERS // 2)))


def _held(path: Path) -> int | None:
    """Return the descriptor by which this process has a file open already, if it has.

    We read by DuckDB's own: to close another one of the same file would give up DuckDB's lock on it (fcntl(2)).
    """
    try:
        descriptors = [int(name) for name in os.listdir("/proc/self/fd")]  # noqa: PTH208 - names are all that is needed
    except OSError:
        return None
    return next((descriptor for descriptor in descriptors if _is_of(descriptor, path)), None)


def _is_of(descriptor: int, path: Path) -> bool:
    """Say whether a descriptor is open, and of this file."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))  # noqa: PTH116 - half the time of Path.stat()
    except OSError:
        return False


@contextmanager
def _locked(path: Path) -> Iterator[int | None]:
    """Open a file under the lock that DuckDB takes; None where another process has it."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield None
        else:
            yield descriptor
    finally:
        os.close(descriptor)


def _write(file: Path, copy: Copy) -> None:
    ids = struct.pack(f"<{len(copy.blocks)}Q", *copy.blocks)
    content = b"".join((_COPY.pack(_MAGIC, copy.iteration, len(copy.blocks)), ids, *copy.blocks.values()))
    fresh = file.with_name(file.name + ".new")
    with fresh.open("wb") as out:
        out.write(content + hashlib.sha256(content).digest())
        out.flush()
        os.fsync(out.fileno())
    fresh.replace(file)
    sync(file.parent)


def _read(file: Path) -> Copy | None:
    """Return a copy, None where there is none that is whole."""
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        return None
    if len(content) < _COPY.size + 32 or hashlib.sha256(content[:-32]).digest() != content[-32:]:
        return None
    magic, iteration, count = _COPY.unpack_from(content)
    start = _COPY.size + 8 * count
    ids = struct.unpack_from(f"<{count}Q", content, _COPY.size)
    if magic != _MAGIC or len(content) != start + count * BLOCK + 32:
        return None
    return Copy(iteration, {number: content[start + n * BLOCK :][:BLOCK] for n, number in enumerate(ids)})


def sync(path: Path) -> None:
    """Have a file, or the names in a folder, on the disk before going on."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


_OTHERS = 0o077  # the rights that nobody else has


def make_private(path: Path | None, lake: LakeSettings | None) -> None:
    """Take from others the rights that earlier releases gave; what belongs to another user is left as it is.

    New files get theirs from the umask, which each command narrows as it begins: DuckDB asks nobody.
    """
    for place in _places(path, lake):
        with suppress(OSError):
            mode = place.stat(follow_symlinks=False).st_mode
            if mode & _OTHERS and not place.is_symlink():
                place.chmod(mode & ~_OTHERS & 0o7777)


def _places(path: Path | None, lake: LakeSettings | None) -> Iterator[Path]:
    if path is not None:
        yield from (path, path.with_name(f"{path.name}.wal"), path.with_name(f"{path.name}.tmp"), copy_of(path))
    if lake is None:
        return
    if lake.file is not None:
        yield lake.file.parent
        yield from (lake.file.with_name(lake.file.name + end) for end in ("", "-wal", "-shm"))
    if lake.folder is not None:
        yield lake.folder
        for folder, folders, files in os.walk(lake.folder):
            yield from (Path(folder) / name for name in (*folders, *files))


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
        raise StoreError(f"cannot rewrite {path}: {str(error).splitlines()[0]}") from error


def _replace(aside: Path, path: Path) -> None:
    sync(aside)
    aside.replace(path)
    _log(path).unlink(missing_ok=True)
    sync(path.parent)


def _remove(aside: Path) -> None:
    for file in (aside, _log(aside)):
        file.unlink(missing_ok=True)


def _log(path: Path) -> Path:
    return path.with_name(path.name + ".wal")
