"""What the store already has of each stream, so that a batch counts once however often it is delivered.

And what an earlier tenancy left is forgotten: batches that were answered, not sealed, and whose stream another has had
since. The agents keep them until they are sealed, and have sent them to the next owner.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping

from collector.store.seal_mark import COLLECTOR_BITS, Mark
from collector.store.session import Session

MAX_STREAMS = 100_000  # remembered; what is forgotten is looked up again
StreamKey = tuple[str, int]  # stream and sequence
_OWN = "SELECT stream, sequence, body_hash, batch, false AS sealed FROM receipts"
# Of a shared lake also what other collectors have sealed; what both have is one row twice, which changes no maximum.
_EVERYWHERE = f"{_OWN} UNION ALL SELECT stream, sequence, body_hash, batch, true FROM lake.main.receipts"


class StreamBook:
    """The highest committed sequence of each stream, and the highest that is sealed, from the receipts.

    A sequence above the highest is new without a look-up, which is every batch but the repeated ones. For those the
    receipts are read, once for a whole group. `mark` says up to which batch the lake has all; where there is no lake,
    what is committed is as safe as it will ever be.
    """

    def __init__(
        self, session: Session, max_streams: int = MAX_STREAMS, mark: Mark | None = None, *, shared: bool = False
    ) -> None:
        self._session = session
        self._max_streams = max_streams
        self._mark = mark
        self._receipts = f"({_EVERYWHERE if shared else _OWN})"
        self._highest: OrderedDict[str, int] = OrderedDict()
        self._sealed: dict[str, int] = {}
        self._unsealed: deque[tuple[int, str, int]] = deque()  # batch, stream, sequence, in the order of commits
        if mark is not None:
            self._unsealed.extend(
                session.rows("SELECT batch, stream, sequence FROM receipts WHERE batch > ? ORDER BY batch", [mark.upto])
            )

    def highest(self, stream: str) -> int:
        """Return the highest committed sequence of a stream that was learned of or advanced; -1 where there is none."""
        return self._highest.get(stream, -1)

    def sealed(self, stream: str) -> int:
        """Return the highest sequence of such a stream that is safe where every reader finds it; -1 where none is."""
        if self._mark is None:
            return self.highest(stream)
        while self._unsealed and self._unsealed[0][0] <= self._mark.upto:
            _, passed, sequence = self._unsealed.popleft()
            if passed in self._highest:
                self._sealed[passed] = max(sequence, self._sealed.get(passed, -1))
        return self._sealed.get(stream, -1)

    def hashes(self, keys: Iterable[StreamKey]) -> dict[StreamKey, str]:
        """Return the body hash of those keys that the store has taken."""
        wanted = list(keys)
        self._learn({stream for stream, _ in wanted})
        old = [(stream, sequence) for stream, sequence in wanted if sequence <= self._highest[stream]]
        if not old:
            return {}
        found = self._session.rows(
            f"SELECT stream, sequence, body_hash FROM {self._receipts} JOIN (SELECT unnest(?::VARCHAR[]) AS stream, "
            "unnest(?::BIGINT[]) AS sequence) USING (stream, sequence)",
            [[stream for stream, _ in old], [sequence for _, sequence in old]],
        )
        return {(stream, sequence): body_hash for stream, sequence, body_hash in found}

    def advance(self, committed: Iterable[tuple[int, StreamKey]]) -> None:
        """Note what has been committed, each with the number of its batch, ascending."""
        for batch, (stream, sequence) in committed:
            self._highest[stream] = max(sequence, self.highest(stream))
            if self._mark is not None:
                self._unsealed.append((batch, stream, sequence))

    def forget(self, streams: Iterable[str]) -> None:
        """Look at these streams anew when they are met next: another collector has had them."""
        others = set(streams)
        for stream in others:
            self._highest.pop(stream, None)
            self._sealed.pop(stream, None)
        self._unsealed = deque(each for each in self._unsealed if each[1] not in others)

    def forget_oldest(self) -> None:
        """Keep memory bounded; call it when a group is done."""
        while len(self._highest) > self._max_streams:
            stream, _ = self._highest.popitem(last=False)
            self._sealed.pop(stream, None)

    def _learn(self, streams: set[str]) -> None:
        unknown = [stream for stream in streams if stream not in self._highest]
        for stream in streams:
            self._highest.setdefault(stream, -1)
            self._highest.move_to_end(stream)
        if not unknown:
            return
        upto = self._mark.upto if self._mark is not None else 0
        for stream, highest, sealed in self._session.rows(
            f"SELECT stream, max(sequence), max(sequence) FILTER (sealed OR batch <= ?) FROM {self._receipts} "
            "WHERE stream IN (SELECT unnest(?::VARCHAR[])) GROUP BY stream",
            [upto, unknown],
        ):
            self._highest[stream] = highest
            if sealed is not None:
                self._sealed[stream] = sealed


# Batches are numbered by the clock that dates the leases, so that a number says under which tenancy it was given.
_LEFT = f"""
SELECT r.batch
FROM receipts r JOIN (SELECT unnest(?::VARCHAR[]) AS stream, unnest(?::BIGINT[]) AS since) h USING (stream)
WHERE r.batch > ? AND r.batch <= ? AND (r.batch >> {COLLECTOR_BITS}) < h.since
"""
NEVER = 2**55  # a since that no batch comes after: of streams that are not ours any more


def disown(hot: Session, since: Mapping[str, int], after: int, upto: int) -> int:
    """Forget of these streams what came before they were ours, between two batches, and return how many it was.

    Raises:
        StoreError: the hot file refused; nothing was forgotten.
    """
    left = [batch for (batch,) in hot.rows(_LEFT, [list(since), list(since.values()), after, upto])]
    if left:
        with hot.transaction():
            for table in ("arrivals", "receipts"):
                hot.execute(f"DELETE FROM {table} WHERE batch IN (SELECT unnest(?::BIGINT[]))", [left])
    return len(left)
