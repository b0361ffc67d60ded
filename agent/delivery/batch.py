"""Gather what the beats said into batches, and write them on a thread of its own."""

import logging
import queue
import threading
from collections import Counter
from collections.abc import Callable, Sequence

from agent.clock import Clock
from agent.errors import EnvelopeError
from agent.sampling.sampler import Stamped, tables_of
from agent.source import Tables
from agent.spool.queue import Spool
from agent.wire.envelope import encode
from agent.wire.units import SECOND_US

_LOG = logging.getLogger(__name__)


class Draft:
    """The rows of a batch that has no stream and no number yet; called with them, it is the batch.

    Raises:
        EnvelopeError: BUG, when called: rows that were checked cannot be encoded.
    """

    def __init__(self, node: str, clock: Clock, tables: Tables) -> None:
        self._node = node
        self._clock = clock
        self._tables = tables

    def __call__(self, stream: str, sequence: int) -> bytes:
        """Return the batch under a stream and a sequence."""
        sent_at = self._clock.wall()
        return encode(agent=self._node, stream=stream, sequence=sequence, sent_at=sent_at, tables=self._tables)

    @property
    def rows(self) -> Counter[str]:
        """How many rows there are of each table."""
        return Counter({name: len(rows) for name, rows in self._tables.items() if rows})

    @property
    def tells(self) -> list[tuple[int, int]]:
        """The ranges of lost batches that the rows tell of, first and last sequence."""
        told = ((row.get("dropped_from"), row.get("dropped_until")) for row in self._tables.get("agent_samples", []))
        return [(first, last) for first, last in told if isinstance(first, int) and isinstance(last, int)]


class Batcher:
    """Holds the rows of a few beats and gives them to `append` as one batch.

    `append` returns whether the batch is safe; where it is not, it has counted that.
    """

    def __init__(self, node: str, clock: Clock, batch_seconds: float, append: Callable[[Draft], bool]) -> None:
        self._node = node
        self._clock = clock
        self._length = round(batch_seconds * SECOND_US)
        self._append = append
        self._said: list[Stamped] = []
        self._began = clock.monotonic()

    def add(self, stamped: Sequence[Stamped]) -> None:
        """Take the rows of one beat; seal a batch where it has become long enough."""
        self._said += stamped
        if self._clock.monotonic() - self._began >= self._length:
            self.seal()

    def seal(self) -> None:
        """Make a batch of what there is, if anything."""
        tables, self._said = tables_of(self._said), []
        self._began = self._clock.monotonic()
        if not any(tables.values()):
            return
        try:
            self._append(Draft(self._node, self._clock, tables))
        except EnvelopeError:
            _LOG.exception("BUG: validated rows cannot be encoded; they are lost")


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
                _LOG.warning("the spool's disk is not responding: new readings are lost and counted")
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
                _LOG.exception("BUG: validated rows cannot be spooled; they are lost")
                self._spool.lose(draft.rows)
