"""A store with the telemetry of a few hosts, and jobs as Slurm's accounting tells of them."""

from collections.abc import Iterator

import pytest

from tests.collector.importing.site import Site


@pytest.fixture
def site() -> Iterator[Site]:
    """Return two hosts of four GPUs, a day long, sampled every half minute."""
    made = Site()
    yield made
    made.store.close()
