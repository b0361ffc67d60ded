"""What tests of the agent share."""

import sys
from pathlib import Path

import pytest

from tests.agent.gpu.fake.build import build, compiler

# Clients of every role, of which the agent's alone has 3.10.
collect_ignore = [] if sys.version_info >= (3, 11) else ["test_proxies.py"]


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a driver library that is none, for LD_LIBRARY_PATH; it is built once."""
    if compiler() is None:
        pytest.skip("no C compiler here to build the fake driver library")
    return build(tmp_path_factory.mktemp("nvml"))
