"""Is a backup what it was? Every file is read and hashed, the copy is opened, every table is counted."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from collector.backup.lake_files import noted_hashes
from collector.backup.layout import Layout
from collector.backup.manifest import Manifest, sha256
from collector.backup.open_backup import hot_rows, lake_rows
from collector.errors import StoreError
from collector.store.parquet_file import unreadable


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was read, and every sentence that says that something is not as it was."""

    manifest: Manifest
    wrong: tuple[str, ...]

    @property
    def is_whole(self) -> bool:
        """Whether it can be restored."""
        return not self.wrong


def verify(folder: Path) -> Verdict:
    """Hold a backup to its manifest. Nothing of it is changed.

    Raises:
        BackupError: it has no manifest that can be read.
    """
    manifest = Manifest.read(folder)
    wrong = _wrong_files(folder, manifest)
    if not wrong:  # a file that is damaged is not opened
        wrong = _damaged_before(folder, manifest)
    if not wrong:
        wrong = _wrong_counts(Layout.within(folder), manifest)
    return Verdict(manifest, tuple(wrong))


def _wrong_files(folder: Path, manifest: Manifest) -> list[str]:
    """Return a sentence for each file that is not there, or not what it was."""
    wrong = []
    for file in manifest.files:
        path = folder / file.path
        if not path.is_file():
            wrong.append(f"{file.path} is missing")
        elif path.stat().st_size != file.bytes:
            wrong.append(f"{file.path} has {path.stat().st_size:,} bytes and had {file.bytes:,}")
        elif sha256(path) != file.sha256:
            wrong.append(f"{file.path} has changed: its sha256 is another")
    return wrong


def _damaged_before(folder: Path, manifest: Manifest) -> list[str]:
    """Return a sentence for each file of the lake that was damaged before it was copied: its hash is right in vain.

    Those are read whose hash was not noted when they were written.
    """
    catalogue = Layout.within(folder).catalogue
    noted = noted_hashes(catalogue) if catalogue.exists() else {}
    wrong = []
    for file in manifest.files:
        was = noted.get(Path(file.path).name)
        if was is not None and was != file.sha256:
            wrong.append(f"{file.path} was damaged when it was copied: it is not what was written")
        elif was is None and file.path.endswith(".parquet") and (why := unreadable(folder / file.path)) is not None:
            wrong.append(f"{file.path} cannot be read: {why}")
    return wrong


def _wrong_counts(copy: Layout, manifest: Manifest) -> list[str]:
    try:
        hot = hot_rows(copy, list(manifest.hot_rows))
        lake = lake_rows(copy) if manifest.lake_rows else {}
    except StoreError as error:
        return [f"it cannot be opened: {error}"]
    return [*_differing("the hot file", manifest.hot_rows, hot), *_differing("the lake", manifest.lake_rows, lake)]


def _differing(where: str, then: Mapping[str, int], now: Mapping[str, int]) -> list[str]:
    return [
        f"{table} in {where} has {now.get(table, 0):,} rows and had {then.get(table, 0):,}"
        for table in sorted({*then, *now})
        if then.get(table) != now.get(table)
    ]
