"""Fleets that tests share: built once in a process, and never changed."""

import pytest

from simulator.fleet import Fleet
from simulator.site import alpha_site, small_site


@pytest.fixture(scope="session")
def small() -> Fleet:
    """Two hosts, two hours."""
    return Fleet(small_site())


@pytest.fixture(scope="session")
def week() -> Fleet:
    """Cluster alpha; its rows are made only where a test asks for them."""
    return Fleet(alpha_site())


SMALL_KERNELS = tuple(f"80911_{trial}" for trial in (0, 4, 8, 12, 16, 20))  # trials of one kind of the sweep
