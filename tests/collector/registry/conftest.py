"""A registry over each database that it may rest in: the tests of this room run on all of them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from collector.registry import Registry, open_registry


@pytest.fixture(params=["sqlite", "postgres"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str | Path:
    """Where a site's registry is: two who open it see one another."""
    if request.param == "sqlite":
        return tmp_path / "store.duckdb.registry.sqlite"
    database = request.getfixturevalue("postgres").database()
    return f"postgres:{database}"


@pytest.fixture
def opened(where: str | Path) -> Iterator[Callable[[], Registry]]:
    """Return a function that opens the site's registry once more."""
    registries: list[Registry] = []

    def another() -> Registry:
        registries.append(open_registry(where))
        return registries[-1]

    yield another
    for registry in registries:
        registry.close()


@pytest.fixture
def registry(opened: Callable[[], Registry]) -> Registry:
    """A registry that is new."""
    return opened()
