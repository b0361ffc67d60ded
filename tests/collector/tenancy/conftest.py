"""Lakes over which several may book: a folder with its catalogue in SQLite, and one in PostgreSQL."""

from pathlib import Path

import pytest

from collector.store.lake import LakeSettings
from tests.analyzer.ledger.several import in_folder


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.soak)])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> LakeSettings:
    """A lake that is empty; the rules are the same whatever keeps its catalogue."""
    return _lake(request, tmp_path)


@pytest.fixture(params=["sqlite", "postgres"])
def either_lake(request: pytest.FixtureRequest, tmp_path: Path) -> LakeSettings:
    """A lake that is empty, for what the two catalogues do in ways of their own."""
    return _lake(request, tmp_path)


def _lake(request: pytest.FixtureRequest, tmp_path: Path) -> LakeSettings:
    if request.param == "sqlite":
        return in_folder(tmp_path)
    database = request.getfixturevalue("postgres").database()
    return LakeSettings(f"postgres:{database}", str(tmp_path / "lake"))
