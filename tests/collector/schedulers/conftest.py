"""A small cluster for each test."""

from collections.abc import Iterator

import pytest

from tests.collector.schedulers.small_cluster import SmallCluster


@pytest.fixture
def cluster() -> Iterator[SmallCluster]:
    """Return two hosts of four GPUs, whose agents have found them."""
    made = SmallCluster()
    yield made
    made.close()
