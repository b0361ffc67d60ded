"""One store for all tests of the assistant, which only read it."""

from pathlib import Path

import pytest

from analyzer.settings.settings import Settings
from tests.assistant.sites import store_at


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Settings]:
    """A store of the small site and its settings."""
    return store_at(tmp_path_factory.mktemp("assistant"))
