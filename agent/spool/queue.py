"""The queue of batches: what waits, what is kept until it is sealed, what is dropped and told as lost.

Of the newest batch the number stays until there is a newer one, so that the sequence survives a restart. What is kept
until it is sealed is known only to the running agent: after a restart it is sent again, and counts once.
"""

import errno
import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from agent.files import Disk
from agent.spool.losses import Losses, Range
from agent.spool.segment_store import Pile, SegmentStore, occupied, rows_of

_LOG = logging.getLogger(__name__)
# Where the bodies of batches are: in segments, or in memory as long as the disk refuses them.
_FULL_DISK = (errno.ENOSPC, errno.EDQUOT)
_FULL_DISK_TRIES = 8  # each makes room by one batch


class Bodies:
    """The bodies of one spool. `held` are those in memory; `unwritten` counts what the disk refused at first."""

    def __init__(self, segments: SegmentStore) -> None:
        self.unwritten = 0
        self.held: dict[int, bytes] = {}
        self.held_bytes = 0
        self._segments = segments
        self._refused = False

    def write(self, sequence: int, body: bytes, make_room: Callable[[], bool]) -> bool:
        """Store a batch; return whether it is durably on the disk, else it is held in memory."""
        for _ in range(_FULL_DISK_TRIES):
            try:
                self._segments.write(sequence, body)
            except OSError as error:
                if error.errno in _FULL_DISK and make_room():
                    continue
                self._hold(sequence, body, error)
                return False
            self._write_down()
            return True
        self._hold(sequence, body, OSError(errno.ENOSPC, "the space freed is used by other files at once"))
        return False

    def read(self, sequence: int) -> bytes:
        """Return a batch; an OSError where the disk does not give it."""
        return self.held[sequence] if sequence in self.held else self._segments.read(sequence)

    def remove(self, sequence: int) -> None:
        """Remove a batch."""
        if (body := self.held.pop(sequence, None)) is None:
            self._segments.remove(sequence)
        else:
            self.held_bytes -= len(body)

    def clear_memory(self) -> None:
        """Forget what is held in memory: it is on the disk now, under another number."""
        self.held, self.held_bytes = {}, 0

    def _hold(self, sequence: int, body: bytes, error: OSError) -> None:
        if not self._refused:
            _LOG.warning(
                "batch %d cannot be written: %s; batches wait in memory until the disk recovers", sequence, error
            )
        self._refused = True
        self.unwritten += 1
        self.held[sequence] = body
        self.held_bytes += len(body)

    def _write_down(self) -> None:
        """The disk is well: what waits in memory can go there too, and so outlive us."""
        if not self._refused:
            return
        for sequence, body in list(self.held.items()):
            try:
                self._segments.write(sequence, body)
            except OSError:
                return  # the next batch tries again
            del self.held[sequence]
            self.held_bytes -= len(body)
        self._refused = False
        _LOG.info("the disk accepts batches again")


# Trouble of the process or of the whole disk that passes: no batch is at fault.
_PASSING = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EINTR, errno.ESTALE, errno.ETIMEDOUT)
MEMORY_BYTES = 4 * 10**6  # of batches that the disk refuses


class Spool:
    """The queue of one agent. All its methods may be called from any thread.

    `max_bytes` bounds what waits: beyond it, and on a full disk, the oldest goes first, since the newest says what is
    wrong now. `kept_bytes` bounds what was acknowledged and is kept until the collector has sealed it. A batch that
    the disk refuses waits in memory, so that a disk that is full or broken does not blind a host whose network works.
    """

    def __init__(self, segments: SegmentStore, max_bytes: int, kept_bytes: int) -> None:
        self._segments = segments
        self._bodies = Bodies(segments)
        self._max_bytes = max_bytes
        self._kept_bytes = kept_bytes
        self._changed = threading.Condition()
        self._waiting, self._kept = Pile(segments.found), Pile()
        self._next = segments.following
        self._sending: int | None = None
        self._closed = False
        self._done = segments.done  # batches of which only the number is still there
        self._losses = Losses(segments.lost, segments.keep_lost)
        for sequence in segments.broken:
            self._losses.add(sequence, Counter())
        self._drop_beyond()

    @property
    def stream(self) -> str:
        """The stream that new batches belong to."""
        return self._segments.stream

    # A beat and a scrape read these while a slow disk holds the lock, so they take none.
    @property
    def waiting(self) -> int:
        """Batches that wait."""
        return len(self._waiting)

    @property
    def waiting_bytes(self) -> int:
        """Bytes that wait, on disk or in its stead."""
        return self._waiting.bytes

    @property
    def dropped(self) -> int:
        """Batches that the collector will never get, since the agent began: dropped, broken or never written."""
        return self._losses.batches

    @property
    def dropped_rows(self) -> Counter[str]:
        """The rows of these by table, as far as they could be read."""
        return self._losses.rows

    @property
    def unwritten(self) -> int:
        """Batches that the disk refused since the agent began; they wait in memory."""
        return self._bodies.unwritten

    @property
    def quarantined(self) -> int:
        """Files that were set aside since the agent began."""
        return self._segments.quarantined

    @property
    def untold_loss(self) -> Range | None:
        """A range of lost batches that no batch tells of yet, to be told in the next one; None where there is none."""
        return self._losses.untold()

    def append(self, make: Callable[[str, int], bytes], tells: Sequence[Range] = ()) -> bool:
        """Store the batch that `make` returns for a stream and a sequence; return whether it is durably there.

        `tells` are the ranges of lost batches that its rows speak of.
        """
        with self._changed:
            if self._closed:
                return False
            sequence, body = self._next, make(self.stream, self._next)
            durable = self._bodies.write(sequence, body, self._make_room)
            self._next += 1
            self._waiting.put(sequence, occupied(len(body)))
            self._losses.told(tells, sequence)
            if durable:
                self._forget_numbers()
            self._drop_beyond()
            self._changed.notify_all()
            return durable

    def lose(self, rows: Mapping[str, int]) -> None:
        """Count rows that never became a batch; without the lock, since a disk may be hanging on it."""
        self._losses.count(rows)

    def oldest(self, timeout_seconds: float) -> tuple[int, bytes] | None:
        """Return the oldest waiting batch for sending, or None where there is none within the timeout.

        Raises:
            OSError: the disk gives nothing for now.
        """
        with self._changed:
            if not len(self._waiting):
                self._changed.wait(timeout_seconds)
            while not self._closed and (sequence := self._waiting.oldest()) is not None:
                if (body := self._read(sequence)) is not None:
                    self._sending = sequence
                    return sequence, body
        return None

    def acknowledge(self, sequence: int, sealed_through: int) -> None:
        """Note that the collector has a batch, and up to where it needs nothing more from us."""
        with self._changed:
            self._sending = None
            if self._closed:
                return
            self._losses.arrived(sequence)
            if sequence in self._waiting:
                self._kept.put(sequence, self._waiting.take(sequence))
            while (old := self._kept.oldest()) is not None and (
                old <= sealed_through or self._kept.bytes > self._kept_bytes
            ):
                self._forget(old)

    def release(self) -> None:
        """Note that nothing is being sent any more: the batch waits again."""
        with self._changed:
            self._sending = None

    def send_again(self) -> None:
        """Let everything that is kept wait again: the collector has lost what it had."""
        with self._changed:
            self._waiting, self._kept = self._kept.with_all_of(self._waiting), Pile()
            self._changed.notify_all()

    def refuse(self, sequence: int, why: str) -> None:
        """Set a batch aside that the collector will never take. It knows the number: that is no loss to be told."""
        with self._changed:
            self._sending = None
            self._losses.tell_again(sequence)
            if not self._closed and self._waiting.take(sequence):
                self._segments.set_aside(sequence, why)
                self._bodies.remove(sequence)

    def begin_stream(self) -> None:
        """Go on under a new stream: waiting batches are numbered anew, what is kept of the old one is let go.

        The collector knows our sequence with another body, so this spool is a copy of another agent's, or an old one.
        What waits was not accepted under the old stream, so it counts once under the new one. What was lost under the
        old one is not told any more: its numbers mean nothing now.

        Raises:
            OSError: the disk is full or broken; the old stream stays.
        """
        with self._changed:
            self._sending = None
            if self._closed:
                return
            self._waiting = Pile(self._numbered_anew())
            self._done, self._next = [], len(self._waiting)
            self._kept = Pile()
            self._bodies.clear_memory()
            self._losses.clear()

    def wake(self) -> None:
        """Let `oldest` return at once, to stop its caller."""
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        """Let another agent use the directory. An answer that comes later changes nothing there any more."""
        self._closed = True
        self._segments.close()

    def _read(self, sequence: int) -> bytes | None:
        """Return a batch, or None where it is set aside because it alone cannot be read.

        Raises:
            OSError: others could not be read either.
        """
        try:
            return self._bodies.read(sequence)
        except OSError as error:
            if error.errno in _PASSING:
                raise
            moved = self._segments.set_aside(sequence, f"it cannot be read: {error}")
            self._waiting.take(sequence)
            self._losses.add(sequence, Counter())
            if not moved:  # then the disk is at fault: go slowly, lest it all be given up in a moment
                raise
            return None

    def _drop_beyond(self) -> None:
        while len(self._waiting) > 1 and self._waiting.bytes > self._max_bytes and self._drop(self._waiting):
            pass
        while self._bodies.held_bytes > MEMORY_BYTES and self._ease_memory():
            pass

    def _make_room(self) -> bool:
        """Let go of one batch: one that the collector has already, else the oldest that it has not."""
        if (kept := self._kept.oldest()) is not None:
            self._forget(kept)
            return True
        return self._drop(sequence for sequence in self._waiting if sequence not in self._bodies.held)

    def _ease_memory(self) -> bool:
        """Let go of one batch in memory: one that the collector has already, else the oldest that it has not."""
        kept = next((one for one in self._bodies.held if one in self._kept and one != self._next - 1), None)
        if kept is None:
            return self._drop(one for one in self._bodies.held if one in self._waiting)
        self._forget(kept)
        return True

    def _drop(self, candidates: Iterable[int]) -> bool:
        """Drop the first that may go; return whether there was one.

        Not the one that is being sent this moment, and not the newest, which keeps the number.
        """
        sequence = next((one for one in candidates if one not in (self._sending, self._next - 1)), None)
        if sequence is None:
            return False
        try:
            rows = rows_of(self._bodies.read(sequence))  # by its header: what is inside is not unpacked
        except OSError:
            rows = Counter()
        self._losses.add(sequence, rows)  # noted before it is done: a kill between the two must leave no silent hole
        self._bodies.remove(sequence)
        self._waiting.take(sequence)
        return True

    def _forget(self, sequence: int) -> None:
        self._kept.take(sequence)
        if sequence == self._next - 1 and sequence not in self._bodies.held:
            self._segments.mark_done(sequence)
            self._done.append(sequence)
        else:
            self._bodies.remove(sequence)

    def _forget_numbers(self) -> None:
        """A higher number is on the disk."""
        for sequence in self._done:
            self._segments.remove_done(sequence)
        self._done = []

    def _numbered_anew(self) -> dict[int, int]:
        for _ in range(_FULL_DISK_TRIES - 1):
            try:
                return self._segments.begin_stream(list(self._waiting), self._bodies.held)
            except OSError as error:
                if error.errno not in _FULL_DISK or not self._make_room():
                    raise
        return self._segments.begin_stream(list(self._waiting), self._bodies.held)


def open_spool(directory: Path, max_bytes: int, kept_bytes: int, *, sync: bool = True) -> Spool:
    """Return the spool in a directory; `sync` is whether each batch is on the disk before it counts as kept.

    Raises:
        SpoolError: the directory cannot be made or read, or another agent holds it.
    """
    return Spool(SegmentStore(directory, Disk(sync=sync)), max_bytes, kept_bytes)
