"""DuckDB's extensions: files that we know by their hash, or that DuckDB knows by its signature, and no others."""

import shutil
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from collector.errors import StoreError
from collector.store import lake as extensions
from collector.store.database import Store
from collector.store.lake import LakeSettings, default_lake


@pytest.fixture
def lake(tmp_path: Path) -> LakeSettings:
    """Where a lake is to be."""
    return default_lake(tmp_path / "store.duckdb")


def files() -> list[Path]:
    """Return the files that a lake beside a store needs."""
    found = [find_spec(f"duckdb_extension_{name}") for name in ("ducklake", "sqlite_scanner")]
    return [next(Path(each.origin).parent.rglob("*.duckdb_extension")) for each in found if each and each.origin]


def test_nobody_can_load_what_is_not_signed(lake: LakeSettings) -> None:
    """DuckDB passes over its signature for our two files alone, and nobody can have it do so again."""
    with Store.open(None, lake=lake) as store, store.session() as session:
        assert session.row("SELECT current_setting('allow_unsigned_extensions')") == (False,)
        with pytest.raises(StoreError, match="Cannot change allow_unsigned_extensions"):
            session.execute("SET GLOBAL allow_unsigned_extensions = true")


def test_a_file_with_another_hash_is_not_loaded(lake: LakeSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever repackages the wheels, or changes one on the disk, must not bring code into the collector."""
    pinned = {platform: dict.fromkeys(known, "0" * 64) for platform, known in extensions.PINNED.items()}
    monkeypatch.setattr(extensions, "PINNED", pinned)
    with pytest.raises(StoreError, match="is not the file that this release was tested with"):
        Store.open(None, lake=lake)


def test_what_lies_in_a_folder_needs_duckdb_s_signature(lake: LakeSettings, tmp_path: Path) -> None:
    """A site's own files have no hash here: DuckDB's word is what is left."""
    folder = tmp_path / "extensions"
    folder.mkdir()
    for file in files():
        shutil.copy(file, folder)
    with Store.open(None, lake=replace(lake, extensions=folder)):
        pass
    ours = folder / "ducklake.duckdb_extension"
    content = bytearray(ours.read_bytes())
    content[-1] ^= 1  # within the signature
    ours.unlink()  # a loaded library that is written over in place takes the process along, many tests later
    ours.write_bytes(content)
    with pytest.raises(StoreError, match="signature"):
        Store.open(None, lake=replace(lake, extensions=folder))
