"""What a backup holds, and where: every file with its hash, every table with its rows.

The manifest is written last; without it there is no backup. Files lie as they do beside a store's own, in the original
and in a copy alike: a backup is a store that can be read.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from collector.errors import BackupError
from collector.store.lake import default_lake
from collector.store.power import copy_of

if TYPE_CHECKING:
    from collector.config import CollectorConfig

_STORE = "store.duckdb"
PRIVATE = 0o600  # of the registry: whoever reads it learns who is here


@dataclass(frozen=True, slots=True)
class Layout:
    """The files of one store."""

    store: Path

    @classmethod
    def within(cls, folder: Path) -> "Layout":
        """Return the layout of a backup's folder."""
        return cls(folder / _STORE)

    @property
    def log(self) -> Path:
        """DuckDB's log."""
        return self.store.with_name(f"{self.store.name}.wal")

    @property
    def safety(self) -> Path:
        """The copy of metadata that a power cut may make needed; a stranger's must not be taken for this store's."""
        return copy_of(self.store)

    @property
    def registry(self) -> Path:
        """Keys, join tokens and the audit log, where SQLite keeps them."""
        return self.store.with_name(f"{self.store.name}.registry.sqlite")

    @property
    def lake(self) -> Path:
        """The folder of catalogue and data."""
        return self.catalogue.parent

    @property
    def catalogue(self) -> Path:
        """The lake's catalogue."""
        return Path(default_lake(self.store).catalogue.removeprefix("sqlite:"))

    @property
    def data(self) -> Path:
        """The lake's Parquet files."""
        return Path(default_lake(self.store).data)

    @property
    def pages(self) -> Path:
        """The folder of pages that a server keeps for its next start; made again, and in no backup."""
        return self.store.with_name(f"{self.store.name}.pages")


_SUFFIX = ".backups"  # of the folder beside the store


def place_of(config: "CollectorConfig", store: Path) -> Path:
    """Return the folder of the settings, or the one beside a store."""
    return Path(config.backups) if config.backups else store.with_name(store.name + _SUFFIX)


NAME = "manifest.json"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class File:
    """One file, by its path below the backup's folder."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """The account of one backup. Times are microseconds UTC.

    `newest_batch` is the newest that the hot file had; whatever came later is not in `hot`, but may be in `lake`, which
    is copied after it. `elsewhere` names what is backed up by its own means, after this: the `catalogue` where it is
    PostgreSQL's, the `data` where they are in an object store.
    """

    made_at: int
    release: str
    migration: int
    newest_batch: int
    elsewhere: tuple[str, ...]
    files: tuple[File, ...]
    hot_rows: Mapping[str, int] = field(default_factory=dict)
    lake_rows: Mapping[str, int] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """The bytes of all its files, those that earlier backups share among them."""
        return sum(file.bytes for file in self.files)

    def by_path(self) -> dict[str, File]:
        """Return its files by their paths."""
        return {file.path: file for file in self.files}

    def write(self, folder: Path) -> None:
        """Write it, durably: what it speaks of must be on the disk before."""
        path = folder / NAME
        path.write_text(json.dumps({"version": _VERSION} | asdict(self), indent=1) + "\n")
        sync(path)
        sync(folder)

    @classmethod
    def read(cls, folder: Path) -> "Manifest":
        """Return the manifest of a backup.

        Raises:
            BackupError: there is none, or it is of a newer release.
        """
        try:
            said = json.loads((folder / NAME).read_bytes())
            version = said.pop("version")
            if version != _VERSION:
                raise BackupError(f"the backup {folder} has version {version}, this release reads {_VERSION}; upgrade")
            said["files"] = tuple(File(**file) for file in said["files"])
            said["elsewhere"] = tuple(said["elsewhere"])
            return cls(**said)
        except OSError as error:
            raise BackupError(f"{folder} is no backup: it has no {NAME} ({error.strerror})") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BackupError(f"{folder / NAME} is damaged: {error}") from error


def described(folder: Path, path: Path) -> File:
    """Return the account of a file below a backup's folder, reading it whole."""
    return File(path.relative_to(folder).as_posix(), path.stat().st_size, sha256(path))


def sha256(path: Path) -> str:
    """Return the hash of a file's content, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync(path: Path) -> None:
    """Have a file, or the names in a folder, on the disk before going on."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def as_json(manifest: Manifest) -> dict[str, Any]:
    """Return what is told of a backup; its files only by number and bytes."""
    told = asdict(manifest)
    told["files"] = len(manifest.files)
    return told | {"bytes": manifest.bytes}
