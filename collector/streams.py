"""What the store already has of each stream, so that a batch counts once however often it is delivered."""

from collections import OrderedDict
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collector.store.session import Session

MAX_STREAMS = 100_000  # remembered; what is forgotten is looked up again
Key = tuple[str, int]  # stream and sequence


class StreamBook:
    """The highest committed sequence of each stream, from the receipts.

    A sequence above the highest is new without a look-up, which is every batch but the repeated ones. For those the
    receipts are read, once for a whole group.
    """

    def __init__(self, session: "Session", max_streams: int = MAX_STREAMS) -> None:
        self._session = session
        self._max_streams = max_streams
        self._highest: OrderedDict[str, int] = OrderedDict()

    def highest(self, stream: str) -> int:
        """Return the highest committed sequence of a stream that was learned of or advanced; -1 where there is none."""
        return self._highest.get(stream, -1)

    def hashes(self, keys: Iterable[Key]) -> dict[Key, str]:
        """Return the body hash of those keys that the store has taken."""
        wanted = list(keys)
        self._learn({stream for stream, _ in wanted})
        old = [(stream, sequence) for stream, sequence in wanted if sequence <= self._highest[stream]]
        if not old:
            return {}
        found = self._session.rows(
            "SELECT stream, sequence, body_hash FROM receipts JOIN (SELECT unnest(?::VARCHAR[]) AS stream, "
            "unnest(?::BIGINT[]) AS sequence) USING (stream, sequence)",
            [[stream for stream, _ in old], [sequence for _, sequence in old]],
        )
        return {(stream, sequence): body_hash for stream, sequence, body_hash in found}

    def advance(self, keys: Iterable[Key]) -> None:
        """Note what has been committed."""
        for stream, sequence in keys:
            self._highest[stream] = max(sequence, self.highest(stream))

    def forget_oldest(self) -> None:
        """Keep memory bounded; call it when a group is done."""
        while len(self._highest) > self._max_streams:
            self._highest.popitem(last=False)

    def _learn(self, streams: set[str]) -> None:
        unknown = [stream for stream in streams if stream not in self._highest]
        for stream in streams:
            self._highest.setdefault(stream, -1)
            self._highest.move_to_end(stream)
        if unknown:
            known = self._session.rows(
                "SELECT stream, max(sequence) FROM receipts "
                "WHERE stream IN (SELECT unnest(?::VARCHAR[])) GROUP BY stream",
                [unknown],
            )
            self._highest.update(known)
