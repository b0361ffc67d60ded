"""A backup that was damaged, and a restore that would overwrite: both say so before anything is lost."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from collector.backup.backup_maker import make_backup
from collector.backup.manifest import NAME, Manifest
from collector.backup.restoring import restore, verify
from collector.errors import BackupError, StoreError
from collector.store.database import Store
from tests.operations.site import Site


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup of a store whose lake has files; who damages it takes a copy."""
    here = tmp_path_factory.mktemp("whole")
    with Site(here / "store.duckdb") as site:
        site.take(range(360))  # more rows than stay in the catalogue
        site.seal()
        return make_backup(site.store, here / "backups").path


def test_what_is_whole_is_said_to_be(whole: Path) -> None:
    """Else the damages below could be anything."""
    assert verify(whole).wrong == ()


DAMAGES: dict[str, Callable[[Path], object]] = {
    "a file that is gone": lambda file: file.unlink(),
    "a file that was cut": lambda file: os.truncate(file, file.stat().st_size - 1),
    "a byte that has turned": lambda file: file.write_bytes(bytes([file.read_bytes()[0] ^ 1]) + file.read_bytes()[1:]),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("kind", ["store.duckdb", "catalogue.sqlite", ".parquet"])
def test_damage_is_noticed_and_not_restored(
    whole: Path, tmp_path: Path, kind: str, damage: Callable[[Path], object]
) -> None:
    """A backup that cannot be trusted must say so before the day on which it is needed."""
    backup = tmp_path / "backups" / whole.name
    shutil.copytree(whole, backup)
    file = next(file for file in Manifest.read(backup).files if file.path.endswith(kind))
    damage(backup / file.path)
    assert [sentence.split()[0] for sentence in verify(backup).wrong] == [file.path]
    with pytest.raises(BackupError, match=r"use another backup"):
        restore(backup, tmp_path / "new.duckdb")
    assert not (tmp_path / "new.duckdb").exists()


@pytest.mark.parametrize("content", [b"", b"[]", b'{"version": 1}', b'{"version": 99}', b"\xff"])
def test_a_manifest_that_is_none_is_said(tmp_path: Path, content: bytes) -> None:
    """It is read first, from a disk that may have failed."""
    (tmp_path / NAME).write_bytes(content)
    with pytest.raises(BackupError):
        Manifest.read(tmp_path)


@pytest.mark.parametrize("name", ["", ".wal", ".lake", ".registry.sqlite"])
def test_a_restore_overwrites_nothing(whole: Path, tmp_path: Path, name: str) -> None:
    """Whoever mistypes a path at night must not lose the store that was still good."""
    target = tmp_path / "new.duckdb"
    there = tmp_path / f"new.duckdb{name}"
    there.write_text("mine")
    with pytest.raises(BackupError, match="overwrites nothing"):
        restore(whole, target)
    assert there.read_text() == "mine"


def test_a_restore_to_a_full_disk_says_how_much_room_there_is(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files fitted, and opening it did not: SQLite calls that a "disk I/O error", as if the disk were broken."""

    def full(*_: object, **__: object) -> Store:
        raise StoreError("the store refused a statement: disk I/O error")

    monkeypatch.setattr(Store, "open", full)
    with pytest.raises(
        BackupError, match=r"cannot restore to .*new\.duckdb, where [0-9,]+ MB are free: the store refused"
    ):
        restore(whole, tmp_path / "new.duckdb")
    assert list(tmp_path.iterdir()) == [], "nothing of it is left on the full disk"
