"""A store, a writer, and a scheduler's source that is asked by hand: what both clusters of our own making share."""

from pathlib import Path
from typing import Any

from collector.config import CollectorConfig
from collector.pipeline.writer import Writer
from collector.schedulers.poller import PollBatches
from collector.store.database import Store
from tests.analyzer.ledger.fleet import MINUTE


class Asked:
    """What a source says is landed in a store, and read back. A cluster sets `source` and `landing`."""

    source: Any
    batch_commit: PollBatches

    def __init__(self, now: int) -> None:
        self.store = Store.open(None, memory_limit="500MB")
        self.writer = Writer(self.store, CollectorConfig(store=Path("unused")))
        self.writer.start()
        self.session = self.store.session()
        self.now = now

    def poll(self, at: int | None = None) -> dict[str, int]:
        """Ask and land, a minute after the last time or at a time; return how many rows were new, by table."""
        self.now = self.now + MINUTE if at is None else at
        found = self.source.poll(self.session, self.now)
        self.batch_commit.land(found)
        self.source.landed(found)
        return {name: len(rows) for name, rows in found.tables.items()}

    def close(self) -> None:
        """End the writer and the store."""
        self.session.close()
        self.writer.close()
        self.store.close()
