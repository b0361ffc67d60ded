"""A store with a lake, written as the collector writes it: batches land, are sealed, and are counted again."""

from collections.abc import Iterable
from pathlib import Path

from collector.lake.sealing import seal
from collector.pipeline.batch_commit import BatchCommit, Receipt
from collector.pipeline.decoding.batch import decode
from collector.store.database import Store
from collector.store.lake import LakeSettings, default_lake
from collector.store.seal_mark import Mark
from tests.collector.batches import NOW, STREAM, body

ROWS = 2  # of gpu_samples in each batch


class Site:
    """One store that is open for writing."""

    def __init__(self, path: Path, *, lake: bool = True, settings: LakeSettings | None = None) -> None:
        beside = default_lake(path) if lake else None
        self.store = Store.open(path, lake=settings or beside, memory_limit="500MB")
        self.mark = Mark.of(self.store)
        self._landing = BatchCommit(self.store, self.mark)

    def take(self, sequences: Iterable[int], stream: str = STREAM) -> list[bool]:
        """Commit batches of a stream; return of each whether it was there already."""
        answers = self._landing.land([decode(body(sequence, stream=stream), NOW) for sequence in sequences])
        assert all(isinstance(answer, Receipt) for answer in answers)
        return [answer.repeated for answer in answers if isinstance(answer, Receipt)]

    def seal(self) -> None:
        """Seal what was committed."""
        seal(self.store, self.mark)

    def rows(self) -> int:
        """Return how many samples every reader would count once all is sealed."""
        self.seal()
        with self.store.session() as session:
            return int(session.row("SELECT count(*) FROM gpu_samples")[0])

    def batches(self) -> list[int]:
        """Return the sequences whose rows are there, once for each time that they are."""
        self.seal()
        with self.store.session() as session:
            found = session.rows(
                "SELECT r.sequence FROM gpu_samples s JOIN receipts r USING (batch) WHERE gpu_uuid = 'GPU-0' ORDER BY 1"
            )
        return [sequence for (sequence,) in found]

    def close(self) -> None:
        """Close the store."""
        self._landing.close()
        self.store.close()

    def __enter__(self) -> "Site":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
