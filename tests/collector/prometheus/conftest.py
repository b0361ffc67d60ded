"""A collector of this room's own, and servers where they are installed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.config import CollectorConfig
from tests.collector.prometheus.servers import Exporter
from tests.collector.serving import Running, running


@pytest.fixture
def config(tmp_path: Path) -> CollectorConfig:
    """Settings of a collector that commits at once and lets no scrape wait for long."""
    return CollectorConfig(
        store=tmp_path / "store.duckdb", lake="none", gather_seconds=0, remote_write_wait_seconds=0.2
    )


@pytest.fixture
def collector(config: CollectorConfig) -> Iterator[Running]:
    """A collector that answers."""
    with running(config) as serving:
        yield serving


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    """An exporter whose page a test writes."""
    found = Exporter()
    try:
        yield found
    finally:
        found.close()
