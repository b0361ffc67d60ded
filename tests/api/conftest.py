"""One small site for all tests that only read it."""

from collections.abc import Iterator

import pytest

from tests.api.sites import Site, site


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A running server on the small site, with keys of two teams."""
    with site(tmp_path_factory.mktemp("api")) as running:
        yield running
