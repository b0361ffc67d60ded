"""One real Slurm for all tests of a worker."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.collector.schedulers.slurm.cluster import PACKAGES, Cluster, missing


@pytest.fixture(scope="package")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Return a Slurm that runs, or skip where it is not installed."""
    if absent := missing():
        pytest.skip(f"Slurm is not installed ({', '.join(absent)}); make services, or apt-get install {PACKAGES}")
    cluster = Cluster(_short(tmp_path_factory))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def _short(factory: pytest.TempPathFactory) -> Path:
    """Return a directory whose name leaves room for the name of a socket, which the kernel limits to 107 bytes."""
    here = factory.mktemp("slurm")
    assert len(str(here)) < 90, f"{here} is too long for a socket; use a shorter --basetemp"
    return here
