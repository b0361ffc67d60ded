"""What lies on the disk is for the server's user alone: names of people and money are in it, whatever the umask was."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.backup.making import make
from collector.backup.restoring import restore
from tests.operations.site import Site


@pytest.fixture
def lax() -> Iterator[None]:
    """A process that would let everybody read what it writes; before each step, since a store changes it."""
    before = os.umask(0o000)
    yield
    os.umask(before)


def readable_by_others(folder: Path) -> list[str]:
    """Return what below a folder others than its owner may read, write or enter."""
    return sorted(
        str(path.relative_to(folder)) for path in folder.rglob("*") if stat.S_IMODE(path.lstat().st_mode) & 0o077
    )


@pytest.mark.usefixtures("lax")
def test_a_store_its_lake_and_its_backups_are_their_owners_alone(tmp_path: Path) -> None:
    """They were 0644 and 0755: any user of the machine could read who ran what, and at what price."""
    with Site(tmp_path / "store.duckdb") as site:
        site.take(range(360))
        site.seal()
        site.take([360])
        assert (tmp_path / "store.duckdb.wal").exists()
        assert readable_by_others(tmp_path) == []
        os.umask(0o000)
        backup = make(site.store, tmp_path / "backups").path
        assert readable_by_others(tmp_path) == []
    os.umask(0o000)
    restore(backup, tmp_path / "new.duckdb")
    assert readable_by_others(tmp_path) == []


@pytest.mark.usefixtures("lax")
def test_what_an_earlier_release_left_open_is_shut(tmp_path: Path) -> None:
    """An upgrade must not leave the old files as they were."""
    with Site(tmp_path / "store.duckdb") as site:
        site.take(range(360))
        site.seal()
    for path in tmp_path.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    with Site(tmp_path / "store.duckdb"):
        assert readable_by_others(tmp_path) == []
