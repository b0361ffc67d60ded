"""Write batches on a thread of its own: while a checkpoint floods the disk a sync takes seconds, and no beat waits."""

import logging
import queue
import threading

from agent.delivery.batch import Draft
from agent.spool import Spool

_LOG = logging.getLogger(__name__)
MOST_WAITING = 32  # batches for a disk that hangs; what comes then is lost, and counted


class Scribe:
    """Lays drafts in a spool; start() it, close() it."""

    def __init__(self, spool: Spool, most_waiting: int = MOST_WAITING) -> None:
        self._spool = spool
        self._drafts: queue.Queue[Draft | None] = queue.Queue(most_waiting)
        self._thread = threading.Thread(target=self._run, name="scribe", daemon=True)
        self._overflowing = False

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def append(self, draft: Draft) -> bool:
        """Take a draft; return whether there was room for it."""
        try:
            self._drafts.put_nowait(draft)
        except queue.Full:
            if not self._overflowing:
                _LOG.warning("the disk of the spool does not answer: what is read now is lost, and counted")
            self._overflowing = True
            self._spool.lose(draft.rows)
            return False
        self._overflowing = False
        return True

    def close(self, timeout_seconds: float) -> None:
        """Write what is there and end; after the timeout what is left is given up, since the disk hangs."""
        try:
            self._drafts.put(None, timeout=timeout_seconds)
        except queue.Full:
            return
        self._thread.join(timeout_seconds)

    def _run(self) -> None:
        while (draft := self._drafts.get()) is not None:
            try:
                self._spool.append(draft, draft.tells)
            except Exception:  # noqa: BLE001  one bad draft must not end the writing of all others
                _LOG.exception("BUG: rows that were checked cannot be kept; they are lost")
                self._spool.lose(draft.rows)
