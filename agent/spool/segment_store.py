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
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from agent.errors import EnvelopeError, SpoolError
from agent.files import ASIDE, Disk, hold_lock
from agent.spool.losses import Range, lost_ranges, noted
from agent.spool.pile import occupied
from agent.spool.quarantine import Quarantine
from agent.spool.record import DONE, SUFFIX, fault_of, file_name, renumbered, sequence_of
from agent.spool.stream import NOTE, StreamNote

_LOG = logging.getLogger(__name__)
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
            raise SpoolError(f"cannot use {directory} as a spool ({error}); give each agent its own") from error
        try:
            self._quarantine = Quarantine(directory / _QUARANTINE, self._disk)
            self._note = StreamNote(directory, self._disk, self._quarantine)
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
            self._disk.rename(self._path(sequence), self._path(sequence, DONE))

    def remove_done(self, sequence: int) -> None:
        """Forget a number: a higher one is there."""
        with contextlib.suppress(OSError):
            self._disk.remove(self._path(sequence, DONE))

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
                self._disk.create(self._directory / stream / file_name(len(moved)), body)
                moved[len(moved)] = occupied(len(body))
        self._disk.sync_directory(self._directory / stream)
        self._disk.sync_directory(self._directory)
        return moved

    def _renumbered(self, sequence: int, body: bytes | None, stream: str, number: int) -> bytes | None:
        """Return a batch under another number, None where it cannot be read: one bad file must not stop the rest."""
        try:
            return renumbered(self.read(sequence) if body is None else body, stream, number)
        except (OSError, EnvelopeError) as error:
            self.set_aside(sequence, f"it cannot be numbered anew: {error}")
            return None

    def _look(self) -> None:
        """Find the whole batches, and the number that comes next.

        What is no batch of this stream is set aside, whatever it is; its number is not given again.
        """
        for path in self._files():
            if (done := sequence_of(path.name, DONE)) is not None:
                self.done.append(done)
                continue
            wrong, sequence = fault_of(path, self.stream), sequence_of(path.name)
            if wrong or sequence is None:
                self._quarantine.take(path, self.stream, wrong)
                self.broken += [] if sequence is None else [sequence]
            else:
                self.found[sequence] = occupied(path.stat().st_size)
        set_aside = [sequence_of(name) for name in self._quarantine.names_of(self.stream)]
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
            self._quarantine.take(path, "none", f"it is no list of ranges: {error}")
            return []

    def _clear_others(self) -> None:
        """Remove what a crash left, and set aside what has no business here."""
        for path in sorted(self._directory.iterdir()):
            if path.name.endswith(ASIDE):
                with contextlib.suppress(OSError):
                    self._disk.remove(path)
            elif path.name not in (_LOCK, NOTE, _LOST, _QUARANTINE, self.stream):
                self._quarantine.take(path, "none", "nothing of this stream's")

    def _path(self, sequence: int, suffix: str = SUFFIX) -> Path:
        return self._directory / self.stream / file_name(sequence, suffix)
