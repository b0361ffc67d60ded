"""A collector that every test of this room may ask for."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.config import CollectorConfig
from tests.collector.serving import Running, running


@pytest.fixture
def config(tmp_path: Path) -> CollectorConfig:
    """Settings of a collector of this test's own, which commits at once."""
    return CollectorConfig(store=tmp_path / "store.duckdb", gather_seconds=0)


@pytest.fixture
def collector(config: CollectorConfig) -> Iterator[Running]:
    """A collector that answers."""
    with running(config) as serving:
        yield serving
