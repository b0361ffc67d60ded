"""What lies on the disk is for the server's user alone: names of people and money are in it, whatever the umask was."""

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import gpuledger
from collector.backup.backup_maker import make_backup
from collector.backup.restoring import restore
from tests.operations.site import Site

LAX = 0o000


@pytest.fixture
def lax() -> Iterator[None]:
    """A process that would let everybody read what it writes."""
    before = os.umask(LAX)
    yield
    os.umask(before)


def command(name: str, folder: Path) -> int:
    """Run a function below as a command begins and ends."""
    return gpuledger.main(
        [name, str(folder)], {name: gpuledger.Command(name, f"tests.collector.access.test_private_files:{name}", "")}
    )


def readable_by_others(folder: Path) -> list[str]:
    """Return what below a folder others than its owner may read, write or enter."""
    return sorted(
        str(path.relative_to(folder)) for path in folder.rglob("*") if stat.S_IMODE(path.lstat().st_mode) & 0o077
    )


def serving(arguments: list[str]) -> int:
    """Do what a server does with a store: samples come and are sealed, and a backup is made and put back elsewhere."""
    folder = Path(arguments[0])
    own = folder / "own"
    own.mkdir()
    with Site(own / "store.duckdb") as site:
        site.take(range(360))
        site.seal()
        site.take([360])
        assert (own / "store.duckdb.wal").exists()
        backup = make_backup(site.store, folder / "backups").path
    restore(backup, folder / "new.duckdb")
    return len(readable_by_others(folder))


def opening(arguments: list[str]) -> int:
    """Open the store, and no more."""
    own = Path(arguments[0], "own")
    with Site(own / "store.duckdb"):
        return len(readable_by_others(own))


@pytest.mark.usefixtures("lax")
def test_a_store_its_lake_and_its_backups_are_their_owners_alone(tmp_path: Path) -> None:
    """They were 0644 and 0755: any user of the machine could read who ran what, and at what price."""
    assert command("serving", tmp_path) == 0
    assert len(list(tmp_path.rglob("*.parquet"))) > 2
    assert readable_by_others(tmp_path) == []
    assert os.umask(LAX) == LAX, "whoever calls a command as a function keeps its own"


@pytest.mark.usefixtures("lax")
def test_what_an_earlier_release_left_open_is_shut(tmp_path: Path) -> None:
    """An upgrade must not leave the old files as they were."""
    assert command("serving", tmp_path) == 0
    for path in tmp_path.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    assert len(readable_by_others(tmp_path / "own")) > 10
    assert command("opening", tmp_path) == 0


@pytest.mark.usefixtures("lax")
def test_a_command_that_is_profiled_has_its_own_umask(tmp_path: Path) -> None:
    """What somebody's training writes is read by whom they meant it for."""
    ran = subprocess.run(
        [sys.executable, "-m", "gpuledger", "run", "--quiet", "--", "sh", "-c", "umask"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        cwd=tmp_path,
    )
    assert int(ran.stdout, 8) == LAX
