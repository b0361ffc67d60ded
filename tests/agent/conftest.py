"""What tests of the agent share."""

from pathlib import Path

import pytest

from tests.agent.gpu.fake.build import build, compiler


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a driver library that is none, for LD_LIBRARY_PATH; it is built once."""
    if compiler() is None:
        pytest.skip("no C compiler here to build the fake driver library")
    return build(tmp_path_factory.mktemp("nvml"))
