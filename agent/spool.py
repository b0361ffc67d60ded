"""A bounded queue of batches on disk: what was not yet delivered, and what was but is not yet safe at the collector.

The newest batch stays until there is a newer one, so that the sequence survives a restart without a file of its own.
What was delivered is known only to the running agent: after a restart all that lies here is sent again, counts once.
"""

import errno
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from agent.shelf import Shelf

_LOG = logging.getLogger(__name__)
FULL_DISK = (errno.ENOSPC, errno.EDQUOT)
FULL_DISK_TRIES = 8  # each makes room by one batch


@dataclass(slots=True)
class SpoolCounts:
    """What became of batches since the agent began; the range is that of the newest run of drops."""

    dropped: int = 0
    dropped_from: int | None = None
    dropped_until: int | None = None
    unwritten: int = 0


class Spool:
    """The queue of one agent. All its methods may be called from any thread.

    `max_bytes` bounds what waits: beyond it, and on a full disk, the oldest goes first, since the newest says what is
    wrong now. `kept_bytes` bounds what was acknowledged and is kept until the collector has sealed it.
    """

    def __init__(self, shelf: Shelf, max_bytes: int, kept_bytes: int) -> None:
        self._shelf = shelf
        self._max_bytes = max_bytes
        self._kept_bytes = kept_bytes
        self._changed = threading.Condition()
        self._waiting, self._next = shelf.batches()  # sequence to bytes, ascending
        self._kept: dict[int, int] = {}
        self._sending: int | None = None
        self._marker: int | None = None  # the newest batch, where only its number is still needed
        self.counts = SpoolCounts()
        self._drop_beyond(max_bytes)

    @property
    def stream(self) -> str:
        """The stream that new batches belong to."""
        return self._shelf.stream

    @property
    def waiting(self) -> int:
        """Batches that wait."""
        with self._changed:
            return len(self._waiting)

    @property
    def waiting_bytes(self) -> int:
        """Bytes that wait on disk."""
        with self._changed:
            return sum(self._waiting.values())

    @property
    def quarantined(self) -> int:
        """Files that were set aside since the agent began."""
        return self._shelf.quarantined

    def append(self, make: Callable[[str, int], bytes]) -> bool:
        """Store the batch that `make` returns for a stream and a sequence; return whether it is durably there."""
        with self._changed:
            body = make(self.stream, self._next)
            if not self._write(self._next, body):
                self.counts.unwritten += 1
                return False
            if self._marker is not None:
                self._shelf.remove(self._marker)
                self._marker = None
            self._waiting[self._next] = len(body)
            self._next += 1
            self._drop_beyond(self._max_bytes)
            self._changed.notify_all()
            return True

    def oldest(self, timeout_seconds: float) -> tuple[int, bytes] | None:
        """Return the oldest waiting batch for sending, or None where there is none within the timeout."""
        with self._changed:
            if not self._waiting:
                self._changed.wait(timeout_seconds)
            for sequence in list(self._waiting):
                try:
                    body = self._shelf.read(sequence)
                except OSError as error:
                    self._set_aside(sequence, f"it cannot be read: {error}")
                    continue
                self._sending = sequence
                return sequence, body
        return None

    def acknowledge(self, sequence: int, sealed_through: int) -> None:
        """Note that the collector has a batch, and up to where it needs nothing more from us."""
        with self._changed:
            self._sending = None
            if sequence in self._waiting:
                self._kept[sequence] = self._waiting.pop(sequence)
            for old in [number for number in self._kept if number <= sealed_through]:
                self._forget(old)
            while sum(self._kept.values()) > self._kept_bytes:
                self._forget(min(self._kept))

    def release(self) -> None:
        """Note that nothing is being sent any more: the batch waits again."""
        with self._changed:
            self._sending = None

    def send_again(self) -> None:
        """Let everything that is kept wait again: the collector has lost what it had."""
        with self._changed:
            self._waiting = dict(sorted((self._kept | self._waiting).items()))
            self._kept = {}
            self._changed.notify_all()

    def refuse(self, sequence: int, why: str) -> None:
        """Set a batch aside that the collector will never take."""
        with self._changed:
            self._sending = None
            self._set_aside(sequence, why)

    def begin_stream(self) -> None:
        """Go on under a new stream: waiting batches are numbered anew, what is kept of the old one is let go.

        The collector knows our sequence with another body, so this spool is a copy of another agent's, or an old one.
        What waits was not accepted under the old stream, so it counts once under the new one.

        Raises:
            OSError: the disk is full or broken; the old stream stays.
        """
        with self._changed:
            self._waiting = self._shelf.begin_stream(list(self._waiting))
            self._sending = self._marker = None
            self._kept = {}
            self._next = len(self._waiting)

    def wake(self) -> None:
        """Let `oldest` return at once, to stop its caller."""
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        """Let another agent use the directory."""
        self._shelf.close()

    def _write(self, sequence: int, body: bytes) -> bool:
        for _ in range(FULL_DISK_TRIES):
            try:
                self._shelf.write(sequence, body)
            except OSError as error:
                if error.errno in FULL_DISK and self._make_room():
                    continue
                _LOG.warning("batch %d cannot be written: %s; its beats are lost and counted", sequence, error)
                return False
            return True
        return False

    def _drop_beyond(self, limit: int) -> None:
        while len(self._waiting) > 1 and sum(self._waiting.values()) > limit and self._drop_oldest():
            pass

    def _make_room(self) -> bool:
        """Let go of one batch: one that the collector has already, else the oldest that it has not."""
        if self._kept:
            self._forget(min(self._kept))
            return True
        return self._drop_oldest()

    def _drop_oldest(self) -> bool:
        """Drop the oldest batch that is not being sent this moment; return whether there was one."""
        for sequence in self._waiting:
            if sequence != self._sending:
                self._shelf.remove(sequence)
                del self._waiting[sequence]
                self._declare(sequence)
                return True
        return False

    def _declare(self, sequence: int) -> None:
        counts = self.counts
        if counts.dropped_until != sequence - 1:
            counts.dropped_from = sequence
            _LOG.warning("the spool is full: the oldest batches are dropped, from %d on", sequence)
        counts.dropped_until = sequence
        counts.dropped += 1

    def _forget(self, sequence: int) -> None:
        del self._kept[sequence]
        if sequence == self._next - 1:
            self._marker = sequence
        else:
            self._shelf.remove(sequence)

    def _set_aside(self, sequence: int, why: str) -> None:
        if self._waiting.pop(sequence, None) is not None:
            self._shelf.set_aside(sequence, why)
