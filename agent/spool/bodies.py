"""Where the bodies of batches are: on the shelf, or in memory as long as the disk refuses them."""

import errno
import logging
from collections.abc import Callable

from agent.spool.segment_store import SegmentStore

_LOG = logging.getLogger(__name__)
FULL_DISK = (errno.ENOSPC, errno.EDQUOT)
FULL_DISK_TRIES = 8  # each makes room by one batch


class Bodies:
    """The bodies of one spool. `held` are those in memory; `unwritten` counts what the disk refused at first."""

    def __init__(self, segments: SegmentStore) -> None:
        self.unwritten = 0
        self.held: dict[int, bytes] = {}
        self.held_bytes = 0
        self._shelf = segments
        self._refused = False

    def write(self, sequence: int, body: bytes, make_room: Callable[[], bool]) -> bool:
        """Store a batch; return whether it is durably on the disk, else it is held in memory."""
        for _ in range(FULL_DISK_TRIES):
            try:
                self._shelf.write(sequence, body)
            except OSError as error:
                if error.errno in FULL_DISK and make_room():
                    continue
                self._hold(sequence, body, error)
                return False
            self._write_down()
            return True
        self._hold(sequence, body, OSError(errno.ENOSPC, "whatever is removed is used by others at once"))
        return False

    def read(self, sequence: int) -> bytes:
        """Return a batch; an OSError where the disk does not give it."""
        return self.held[sequence] if sequence in self.held else self._shelf.read(sequence)

    def remove(self, sequence: int) -> None:
        """Remove a batch."""
        if (body := self.held.pop(sequence, None)) is None:
            self._shelf.remove(sequence)
        else:
            self.held_bytes -= len(body)

    def clear_memory(self) -> None:
        """Forget what is held in memory: it is on the disk now, under another number."""
        self.held, self.held_bytes = {}, 0

    def _hold(self, sequence: int, body: bytes, error: OSError) -> None:
        if not self._refused:
            _LOG.warning(
                "batch %d cannot be written: %s; until the disk is well, batches wait in memory", sequence, error
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
                self._shelf.write(sequence, body)
            except OSError:
                return  # the next batch tries again
            del self.held[sequence]
            self.held_bytes -= len(body)
        self._refused = False
        _LOG.info("the disk takes batches again")
