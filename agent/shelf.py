"""The files of a spool: where batches lie, which stream they belong to, and what is set aside as broken.

<directory>/lock                         held while an agent uses it
<directory>/stream                       the UUID of the stream, made with the spool
<directory>/<stream>/<sequence>.batch    one batch a file
<directory>/quarantine/                  what is no batch of this stream, and what the collector refused
"""

import logging
import shutil
import uuid
from dataclasses import replace
from pathlib import Path

from agent.errors import EnvelopeError, SpoolError
from agent.files import ASIDE, hold_lock, sync_directory, write_durably
from agent.wire.envelope import MAX_BYTES, open_envelope, seal

_LOG = logging.getLogger(__name__)
SUFFIX = ".batch"
DIGITS = 20
QUARANTINE_FILES = 100  # the oldest go first; what is wrong with a batch shows in any of them
PLACES = ("lock", "stream", "quarantine")


class Shelf:
    """The directory of one spool. It knows files; what waits and what may go is the spool's business.

    Raises:
        SpoolError: the directory cannot be made or read, or another agent holds it.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.quarantined = 0
        try:
            directory.mkdir(parents=True, exist_ok=True)
            (directory / "quarantine").mkdir(exist_ok=True)
            self._lock = hold_lock(directory / "lock")
        except OSError as error:
            raise SpoolError(f"cannot use {directory} as a spool ({error}); give each agent its own") from error
        try:
            self.stream = self._known_stream() or self._new_stream()
            self._clear_others()
        except OSError as error:
            self._lock.close()
            raise SpoolError(f"cannot read or write the spool {directory}: {error}") from error

    def close(self) -> None:
        """Let another agent use the directory."""
        self._lock.close()

    def batches(self) -> tuple[dict[int, int], int]:
        """Return the whole batches found, sequence to bytes, ascending, and the sequence that comes next.

        What is no batch of this stream is set aside, whatever it is; its number is not given again.
        """
        found: dict[int, int] = {}
        following = self._after_quarantine()
        for path in sorted((self._directory / self.stream).iterdir()):
            sequence = _sequence(path)
            if path.name.endswith(SUFFIX + ASIDE):
                _remove(path)  # a batch that nobody was told of
                continue
            following = max(following, (sequence or 0) + 1) if sequence is not None else following
            wrong = self._wrong_with(path, sequence)
            if sequence is None or wrong:
                self._quarantine(path, wrong)
            else:
                found[sequence] = path.stat().st_size
        return found, following

    def _after_quarantine(self) -> int:
        """Return the number after the last of this stream that was set aside; 0 where none was."""
        own = (self._directory / "quarantine").glob(f"*{SUFFIX}.{self.stream}.*")
        given = [_sequence(Path(path.name.partition(f".{self.stream}.")[0])) for path in own]
        return max((number for number in given if number is not None), default=-1) + 1

    def write(self, sequence: int, body: bytes) -> None:
        """Store a batch durably; an OSError leaves nothing behind."""
        write_durably(self._path(sequence), body)

    def read(self, sequence: int) -> bytes:
        """Return a batch; an OSError where the disk does not give it."""
        return self._path(sequence).read_bytes()

    def remove(self, sequence: int) -> None:
        """Remove a batch. What cannot be removed is sent again after a restart, and counts once."""
        try:
            self._path(sequence).unlink(missing_ok=True)
        except OSError as error:
            _LOG.warning("batch %d cannot be removed: %s", sequence, error)

    def set_aside(self, sequence: int, why: str) -> None:
        """Move a batch into quarantine."""
        self._quarantine(self._path(sequence), why)

    def begin_stream(self, waiting: list[int]) -> dict[int, int]:
        """Make a new stream, number the waiting batches anew in it, drop the old one; return them by new number.

        Until the file `stream` is replaced, the old stream is the valid one, so that a crash leaves one of the two.

        Raises:
            OSError: the disk is full or broken; the old stream stays, and it can be tried again.
        """
        old, stream = self._directory / self.stream, str(uuid.uuid4())
        new = self._directory / stream
        new.mkdir()
        moved: dict[int, int] = {}
        for sequence in waiting:
            try:
                body = _renumbered((old / _name(sequence)).read_bytes(), stream, len(moved))
            except EnvelopeError as error:
                self._quarantine(old / _name(sequence), str(error))
                continue
            write_durably(new / _name(len(moved)), body)
            moved[len(moved)] = len(body)
        write_durably(self._directory / "stream", stream.encode())
        self.stream = stream
        _remove(old)
        return moved

    def _known_stream(self) -> str | None:
        """Return the stream that is written down, else that of the only directory that can be one."""
        try:
            written = (self._directory / "stream").read_text(errors="replace").strip()
        except FileNotFoundError:
            written = ""
        if _is_stream(written):
            (self._directory / written).mkdir(exist_ok=True)
            return written
        candidates = [path.name for path in self._directory.iterdir() if path.is_dir() and _is_stream(path.name)]
        if len(candidates) != 1:
            return None
        _LOG.warning("the spool's note of its stream is lost: going on with the only one there is, %s", candidates[0])
        write_durably(self._directory / "stream", candidates[0].encode())
        return candidates[0]

    def _new_stream(self) -> str:
        stream = str(uuid.uuid4())
        (self._directory / stream).mkdir()
        write_durably(self._directory / "stream", stream.encode())
        return stream

    def _clear_others(self) -> None:
        """Remove what a crash left of another stream, and set aside what has no business here."""
        for path in sorted(self._directory.iterdir()):
            if path.name.endswith(ASIDE) or (path.is_dir() and _is_stream(path.name) and path.name != self.stream):
                _remove(path)
            elif path.name not in PLACES and path.name != self.stream:
                self._quarantine(path, "nothing of the spool's")

    def _wrong_with(self, path: Path, sequence: int | None) -> str:
        """Return why a file is no batch of this stream; empty where it is one."""
        if sequence is None or not path.is_file() or path.is_symlink():
            return "not named as a batch"
        try:
            header, _ = open_envelope(path.read_bytes(), MAX_BYTES)
        except (OSError, EnvelopeError) as error:
            return str(error)
        same = (header.stream, header.sequence) == (self.stream, sequence)
        return "" if same else f"it is batch {header.sequence} of stream {header.stream}"

    def _quarantine(self, path: Path, why: str) -> None:
        self.quarantined += 1
        quarantine = self._directory / "quarantine"
        _LOG.warning("%s is set aside in %s: %s", path.name, quarantine, why)
        try:
            # With its stream in the name, so that a number that was set aside is known to be given.
            path.rename(quarantine / f"{path.name}.{self.stream}.{uuid.uuid4().hex[:8]}")
            kept = sorted(quarantine.iterdir(), key=lambda file: file.lstat().st_mtime_ns)
            for oldest in kept[:-QUARANTINE_FILES]:
                _remove(oldest)
            sync_directory(quarantine)
        except OSError as error:
            _LOG.warning("%s cannot be set aside: %s", path.name, error)

    def _path(self, sequence: int) -> Path:
        return self._directory / self.stream / _name(sequence)


def _name(sequence: int) -> str:
    return f"{sequence:0{DIGITS}}{SUFFIX}"


def _sequence(path: Path) -> int | None:
    stem = path.name.removesuffix(SUFFIX)
    right = path.name.endswith(SUFFIX) and len(stem) == DIGITS and stem.isascii() and stem.isdecimal()
    return int(stem) if right and int(stem) < 2**63 - 1 else None


def _is_stream(name: str) -> bool:
    try:
        return str(uuid.UUID(name)) == name
    except ValueError:
        return False


def _renumbered(body: bytes, stream: str, sequence: int) -> bytes:
    header, messages = open_envelope(body, MAX_BYTES)
    renumbered = replace(header, stream=stream, sequence=sequence)
    return seal(renumbered, [bytes(message) for message in messages.values()])


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
