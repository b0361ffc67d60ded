"""Gather what the beats said into batches, and lay them in the spool."""

import logging
from collections.abc import Callable, Sequence

from agent.clock import MICROSECONDS, Clock
from agent.errors import EnvelopeError
from agent.sampler import Stamped
from agent.source import Value
from agent.wire.envelope import encode

_LOG = logging.getLogger(__name__)

Tables = dict[str, list[dict[str, Value]]]


class Batcher:
    """Holds the rows of a few beats and gives them to `append` as one batch, which it hands an encoder.

    `append` returns whether the batch is safe; where it is not, its rows are lost, and it has counted that.
    """

    def __init__(
        self, node: str, clock: Clock, batch_seconds: float, append: Callable[[Callable[[str, int], bytes]], bool]
    ) -> None:
        self._node = node
        self._clock = clock
        self._length = round(batch_seconds * MICROSECONDS)
        self._append = append
        self._tables: Tables = {}
        self._began = clock.monotonic()

    def add(self, stamped: Sequence[Stamped]) -> None:
        """Take the rows of one beat; seal a batch where it has become long enough."""
        for said in stamped:
            for name, rows in said.tables.items():
                self._tables.setdefault(name, []).extend(rows)
        if self._clock.monotonic() - self._began >= self._length:
            self.seal()

    def seal(self) -> None:
        """Make a batch of what there is, if anything."""
        tables, self._tables = self._tables, {}
        self._began = self._clock.monotonic()
        if not any(tables.values()):
            return
        try:
            self._append(lambda stream, sequence: self._encoded(stream, sequence, tables))
        except EnvelopeError:
            _LOG.exception("BUG: rows that were checked cannot be encoded; they are lost")

    def _encoded(self, stream: str, sequence: int, tables: Tables) -> bytes:
        return encode(agent=self._node, stream=stream, sequence=sequence, sent_at=self._clock.wall(), tables=tables)
