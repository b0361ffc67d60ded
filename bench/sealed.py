"""What a lake holds, as another process sees it while the collector runs."""

import time
from collections.abc import Mapping
from pathlib import Path

from collector.store.database import Store

PATIENCE_SECONDS = 600.0  # for what is left when the last batch was answered
LOOK_SECONDS = 0.2


def sealed_batches(store: Path) -> int:
    """Return how many batches are sealed now."""
    with Store.open(store, read_only=True) as reader, reader.session() as session:
        return int(session.row("SELECT count(*) FROM lake.main.receipts")[0])


def wait_until_sealed(store: Path, batches: int, rows: Mapping[str, int]) -> tuple[float, int]:
    """Wait until so many batches are sealed; return the seconds that took, and how many of their rows are missing.

    `rows` are those of one batch by table. More rows than there should be are an AssertionError: they count twice.
    """
    began = time.monotonic()
    with Store.open(store, read_only=True) as reader, reader.session() as session:
        while (found := int(session.row("SELECT count(*) FROM lake.main.receipts")[0])) < batches:
            if time.monotonic() - began > PATIENCE_SECONDS:
                break
            time.sleep(LOOK_SECONDS)
        took = time.monotonic() - began
        assert found <= batches, f"{found} batches are sealed where {batches} were accepted"
        missing = 0
        for table, each in rows.items():
            (count,) = session.row(f"SELECT count(*) FROM lake.main.{table}")
            assert count <= batches * each, f"{table}: {count} rows are sealed where {batches * each} were accepted"
            missing += batches * each - count
    return took, missing
