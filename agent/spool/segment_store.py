"""The files of a spool: where batches lie, which stream they belong to, and what is set aside as broken.

<directory>/lock                         held while an agent uses it
<directory>/stream                       the UUID of the stream, made with the spool
<directory>/lost                         which batches the collector is still to be told of as lost
<directory>/<stream>/<sequence>.batch    one batch a file
<directory>/<stream>/<sequence>.done     the newest, where it is delivered and only its number is still needed
<directory>/quarantine/                  what is no batch of this stream, and what the collector refused
"""

import contextlib
import logging
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from agent.errors import EnvelopeError, SpoolError
from agent.files import ASIDE, Disk, hold_lock
from agent.spool.losses import HIGHEST, Range, lost_ranges, noted
from agent.wire.envelope import MAX_BYTES, header_of, open_envelope, seal

_SUFFIX = ".batch"
_DONE = ".done"  # in its place: a batch that is over, and only its number is still needed
_DIGITS = 20


def _file_name(sequence: int, suffix: str = _SUFFIX) -> str:
    """Return the name of a batch's file; in the order of names they are in the order of sequences."""
    return f"{sequence:0{_DIGITS}}{suffix}"


def _sequence_of(name: str, suffix: str = _SUFFIX) -> int | None:
    """Return the sequence that a file name says, None where it is none of ours."""
    stem = name.removesuffix(suffix)
    right = name.endswith(suffix) and len(stem) == _DIGITS and stem.isascii() and stem.isdecimal()
    return int(stem) if right and int(stem) < HIGHEST else None


def _fault_of(path: Path, stream: str) -> str:
    """Return why a file is no batch of this stream; empty where it is one."""
    sequence = _sequence_of(path.name)
    if sequence is None or path.is_symlink() or not path.is_file():
        return "not a batch file name"
    try:
        if path.stat().st_size > MAX_BYTES:
            return "larger than any batch"
        header, _ = open_envelope(path.read_bytes(), MAX_BYTES)
    except (OSError, EnvelopeError) as error:
        return str(error)
    same = (header.stream, header.sequence) == (stream, sequence)
    return "" if same else f"it is batch {header.sequence} of stream {header.stream}"


def renumbered(body: bytes, stream: str, sequence: int) -> bytes:
    """Return the same rows as another batch.

    Raises:
        EnvelopeError: it is no batch.
    """
    header, messages = open_envelope(body, MAX_BYTES)
    return seal(replace(header, stream=stream, sequence=sequence), [bytes(message) for message in messages.values()])


def rows_of(body: bytes) -> Counter[str]:
    """Return how many rows of each table a batch has, by its header alone; nothing where that cannot be read."""
    try:
        return Counter({part.name: part.rows for part in header_of(body).tables})
    except EnvelopeError:
        return Counter()


BLOCK = 4096  # bytes; a file takes whole blocks of most disks, and small batches would pass the bound unseen


class Pile:
    """Sequence to bytes, in ascending order, since batches come with growing numbers."""

    def __init__(self, sizes: Mapping[int, int] | None = None) -> None:
        self._sizes = dict(sorted((sizes or {}).items()))
        self.bytes = sum(self._sizes.values())

    def __len__(self) -> int:
        return len(self._sizes)

    def __iter__(self) -> Iterator[int]:
        return iter(self._sizes)

    def __contains__(self, sequence: int) -> bool:
        return sequence in self._sizes

    def put(self, sequence: int, size: int) -> None:
        """Add a batch, whose number is the highest."""
        self._sizes[sequence] = size
        self.bytes += size

    def take(self, sequence: int) -> int:
        """Take a batch out and return its bytes; 0 where it was not there."""
        size = self._sizes.pop(sequence, 0)
        self.bytes -= size
        return size

    def oldest(self) -> int | None:
        """Return the lowest number, None where there is none."""
        return next(iter(self._sizes), None)

    def with_all_of(self, other: "Pile") -> "Pile":
        """Return both in one."""
        return Pile(self._sizes | other._sizes)


def occupied(size: int) -> int:
    """Return the bytes that a file of this size takes on disk."""
    return -(-size // BLOCK) * BLOCK


_LOG = logging.getLogger(__name__)
QUARANTINED_FILES_MAX = 100  # the oldest go first; what is wrong with a batch shows in any of them
QUARANTINED_BYTES_MAX = 64 * 10**6
# Where a spool puts what is no batch of its own, and what the collector refused: kept for a look, and bounded.
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
        _LOG.warning("%r is quarantined in %s: %s", path.name, self._directory, why)
        try:
            # With its stream in the name, so that a number that was set aside is known to be given.
            kept = self._directory / f"{path.name[:_NAME_CHARACTERS]}.{stream}.{uuid.uuid4().hex[:8]}"
            self._disk.rename(path, kept)
            self._disk.sync_directory(self._directory)
        except FileNotFoundError:
            return True
        except OSError as error:
            _LOG.warning("%r cannot be quarantined: %s", path.name, error)
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
        self.take(aside, "none", "not a directory")

    def _forget_oldest(self) -> None:
        """Remove the oldest beyond the bounds; the newest stays, however large somebody made it."""
        newest_first = sorted(self._directory.iterdir(), key=_age, reverse=True)
        total = 0
        for place, path in enumerate(newest_first):
            total += _bytes(path)
            if place and (place >= QUARANTINED_FILES_MAX or total > QUARANTINED_BYTES_MAX):
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


# Which stream a spool belongs to, found again after whatever has happened to its directory.
#
# The file `stream` holds a UUID a line: the stream, then what may be removed, since a change of streams was under way.
NOTE = "stream"
_NOTE_BYTES_MAX = 1024  # of a note; a longer one is none


class _StreamNote:
    """The note of one spool's directory."""

    def __init__(self, directory: Path, disk: Disk, quarantine: Quarantine) -> None:
        self._directory = directory
        self._disk = disk
        self._quarantine = quarantine

    def settle(self) -> str:
        """Return the stream, whose directory is there; a new one where none can be found again.

        Raises:
            OSError: the directory cannot be read or written.
        """
        stream, *removable = self._read() or [""]
        for old in removable:
            with contextlib.suppress(OSError):
                if old != stream:
                    self._disk.remove(self._directory / old)
        if stream and (self._directory / stream).is_dir():
            return stream
        stream = self._only() or self._made()
        self.write(stream)
        return stream

    def write(self, stream: str, *removable: str) -> None:
        """Note durably which stream is valid, and what may be removed."""
        self._disk.write(self._directory / NOTE, "\n".join((stream, *removable)).encode())

    def _read(self) -> list[str]:
        path = self._directory / NOTE
        if path.is_symlink() or (path.exists() and not path.is_file()):
            self._quarantine.take(path, "none", "no file")
        try:
            with path.open("rb") as file:
                lines = file.read(_NOTE_BYTES_MAX).decode("ascii", "replace").split()
        except FileNotFoundError:
            return []
        except OSError as error:
            self._quarantine.take(path, "none", f"it cannot be read: {error}")
            return []
        return lines if lines and all(map(_is_stream, lines)) else []

    def _only(self) -> str | None:
        """Return the stream whose directory was written to last: opening another would strand what waits there."""
        named = (path for path in self._directory.iterdir() if _is_stream(path.name) and not path.is_symlink())
        streams = (path for path in named if path.is_dir())
        newest = max(streams, key=lambda path: path.stat().st_mtime_ns, default=None)
        if newest is None:
            return None
        _LOG.warning("the spool's stream file is lost: continuing with %s", newest.name)
        return newest.name

    def _made(self) -> str:
        stream = str(uuid.uuid4())
        self._disk.make_directory(self._directory / stream)
        self._disk.sync_directory(self._directory)  # a note must never be more durable than what it names
        return stream


def _is_stream(name: str) -> bool:
    """Return whether this is written as a stream's UUID is."""
    try:
        return str(uuid.UUID(name)) == name
    except ValueError:
        return False


_LOCK, _LOST, _QUARANTINE = "lock", "lost", "quarantine"
_MOST_LOST_BYTES = 16 * 2**10
PRIVATE = 0o700  # batches name users


class SegmentStore:
    """The directory of one spool. It knows files; what waits and what may go is the spool's business.

    What it found at the start: `found` are the whole batches, sequence to bytes on disk, ascending; `broken` the
    numbers of those that were none; `done` those of which only the number is there; `lost` the ranges to be told;
    `following` is the number that comes next.

    Raises:
        SpoolError: the directory cannot be made or read, or another agent holds it.
    """

    def __init__(self, directory: Path, disk: Disk | None = None) -> None:
        self._directory = directory
        self._disk = disk or Disk()
        self.found: dict[int, int] = {}
        self.broken: list[int] = []
        self.done: list[int] = []
        self.following = 0
        try:
            if not directory.is_dir():
                directory.mkdir(PRIVATE, parents=True)
                self._disk.sync_directory(directory.parent)
            self._lock = hold_lock(directory / _LOCK)
        except OSError as error:
            raise SpoolError(f"cannot use {directory} as a spool ({error}); each agent needs its own") from error
        try:
            self._quarantine = Quarantine(directory / _QUARANTINE, self._disk)
            self._note = _StreamNote(directory, self._disk, self._quarantine)
            self.stream = self._note.settle()
            self._clear_others()
            self.lost = self._lost()
            self._look()
        except OSError as error:
            self._lock.close()
            raise SpoolError(f"cannot read or write the spool {directory}: {error}") from error

    @property
    def quarantined(self) -> int:
        """Files and batches that were set aside since the agent began."""
        return self._quarantine.count

    def close(self) -> None:
        """Let another agent use the directory."""
        self._lock.close()

    def write(self, sequence: int, body: bytes) -> None:
        """Store a batch durably; an OSError leaves nothing behind."""
        path = self._path(sequence)
        try:
            self._disk.write(path, body)
        except OSError:
            with contextlib.suppress(OSError):
                self._disk.remove(path)
            raise

    def read(self, sequence: int) -> bytes:
        """Return a batch; an OSError where the disk does not give it."""
        return self._path(sequence).read_bytes()

    def remove(self, sequence: int) -> None:
        """Remove a batch. What cannot be removed is sent again after a restart, and counts once."""
        try:
            self._disk.remove(self._path(sequence))
        except OSError as error:
            _LOG.warning("batch %d cannot be removed: %s", sequence, error)

    def mark_done(self, sequence: int) -> None:
        """Note that of a batch only the number is needed. Where the disk refuses, it is sent again after a restart."""
        with contextlib.suppress(OSError):
            self._disk.rename(self._path(sequence), self._path(sequence, _DONE))

    def remove_done(self, sequence: int) -> None:
        """Forget a number: a higher one is there."""
        with contextlib.suppress(OSError):
            self._disk.remove(self._path(sequence, _DONE))

    def set_aside(self, sequence: int, why: str) -> bool:
        """Move a batch into quarantine; return whether it is out of the way."""
        return self._quarantine.take(self._path(sequence), self.stream, why)

    def keep_lost(self, ranges: Sequence[Range]) -> None:
        """Note what the collector is still to be told of as lost; what the disk does not take, a restart forgets."""
        path = self._directory / _LOST
        with contextlib.suppress(OSError):
            if ranges:
                self._disk.write(path, noted(self.stream, ranges))
            else:
                self._disk.remove(path)

    def begin_stream(self, waiting: Sequence[int], held: Mapping[int, bytes]) -> dict[int, int]:
        """Make a new stream, number the waiting batches anew in it, drop the old one; return them by new number.

        `held` are bodies that are not on disk. Until the note is replaced the old stream is the valid one, so that a
        crash leaves one of the two; while both are there, what waits lies here twice.

        Raises:
            OSError: the disk is full or broken; the old stream stays, and it can be tried again.
        """
        old, new = self.stream, str(uuid.uuid4())
        self._note.write(old, new)
        try:
            self._disk.make_directory(self._directory / new)
            moved = self._copied(waiting, held, new)
            self._note.write(new, old)
        except OSError:
            with contextlib.suppress(OSError):
                self._note.write(old)
                self._disk.remove(self._directory / new)
            raise
        self.stream = new
        with contextlib.suppress(OSError):
            self._disk.remove(self._directory / old)  # else at the next start: the note says that it may go
        return moved

    def _copied(self, waiting: Sequence[int], held: Mapping[int, bytes], stream: str) -> dict[int, int]:
        moved: dict[int, int] = {}
        for sequence in waiting:
            if (body := self._renumbered(sequence, held.get(sequence), stream, len(moved))) is not None:
                self._disk.create(self._directory / stream / _file_name(len(moved)), body)
                moved[len(moved)] = occupied(len(body))
        self._disk.sync_directory(self._directory / stream)
        self._disk.sync_directory(self._directory)
        return moved

    def _renumbered(self, sequence: int, body: bytes | None, stream: str, number: int) -> bytes | None:
        """Return a batch under another number, None where it cannot be read: one bad file must not stop the rest."""
        try:
            return renumbered(self.read(sequence) if body is None else body, stream, number)
        except (OSError, EnvelopeError) as error:
            self.set_aside(sequence, f"it cannot be renumbered: {error}")
            return None

    def _look(self) -> None:
        """Find the whole batches, and the number that comes next.

        What is no batch of this stream is set aside, whatever it is; its number is not given again.
        """
        for path in self._files():
            if (done := _sequence_of(path.name, _DONE)) is not None:
                self.done.append(done)
                continue
            wrong, sequence = _fault_of(path, self.stream), _sequence_of(path.name)
            if wrong or sequence is None:
                self._quarantine.take(path, self.stream, wrong)
                self.broken += [] if sequence is None else [sequence]
            else:
                self.found[sequence] = occupied(path.stat().st_size)
        set_aside = [_sequence_of(name) for name in self._quarantine.names_of(self.stream)]
        given = [*self.found, *self.broken, *self.done, *(last for _, last in self.lost), *set_aside]
        self.following = max((number for number in given if number is not None), default=-1) + 1

    def _files(self) -> Iterator[Path]:
        """Yield what lies in the stream, in the order of names; what nobody was told of is removed."""
        for path in sorted((self._directory / self.stream).iterdir()):
            if not path.name.endswith(ASIDE):
                yield path
                continue
            with contextlib.suppress(OSError):
                self._disk.remove(path)

    def _lost(self) -> list[Range]:
        path = self._directory / _LOST
        try:
            with path.open("rb") as file:
                return lost_ranges(self.stream, file.read(_MOST_LOST_BYTES))
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            self._quarantine.take(path, "none", f"it is not a list of ranges: {error}")
            return []

    def _clear_others(self) -> None:
        """Remove what a crash left, and set aside what has no business here."""
        for path in sorted(self._directory.iterdir()):
            if path.name.endswith(ASIDE):
                with contextlib.suppress(OSError):
                    self._disk.remove(path)
            elif path.name not in (_LOCK, NOTE, _LOST, _QUARANTINE, self.stream):
                self._quarantine.take(path, "none", "not of this stream")

    def _path(self, sequence: int, suffix: str = _SUFFIX) -> Path:
        return self._directory / self.stream / _file_name(sequence, suffix)
