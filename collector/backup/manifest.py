"""What a backup holds, and where: every file with its hash, every table with its rows.

The manifest is written last; without it there is no backup. Files lie as they do beside a store's own, in the original
and in a copy alike: a backup is a store that can be read, without changing a byte of it. Its hot file is opened as it
lies, its catalogue from a copy of the copy. Of a lake whose catalogue is a SQLite file: which files that names, and
where they lie below its data.
"""

import hashlib
import json
import shutil
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from collector.config import CollectorConfig
from collector.errors import BackupError
from collector.store.database import Store
from collector.store.lake import LakeSettings, default_lake, tables_with_rows
from collector.store.noted import NOTES
from collector.store.power import copy_of, sync
from collector.store.session import Session

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


def place_of(config: CollectorConfig, store: Path) -> Path:
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
    PostgreSQL's, with the `registry`, the `data` where they are in an object store.
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
            raise BackupError(f"{folder} is not a backup: it has no {NAME} ({error.strerror})") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BackupError(f"{folder / NAME} is damaged: {error}") from error


def described(folder: Path, path: Path) -> File:
    """Return the account of a file below a backup's folder, reading it whole."""
    return File(path.relative_to(folder).as_posix(), path.stat().st_size, sha256(path))


def sha256(path: Path) -> str:
    """Return the hash of a file's content, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def as_json(manifest: Manifest) -> dict[str, Any]:
    """Return what is told of a backup; its files only by number and bytes."""
    told = asdict(manifest)
    told["files"] = len(manifest.files)
    return told | {"bytes": manifest.bytes}


_FILES = """
SELECT s.path, s.path_is_relative, t.path, t.path_is_relative, f.path, f.path_is_relative
FROM (SELECT table_id, path, path_is_relative FROM ducklake_data_file
      UNION SELECT table_id, path, path_is_relative FROM ducklake_delete_file) f
JOIN ducklake_table t USING (table_id) JOIN ducklake_schema s USING (schema_id)
"""


def named_files(catalogue: Path) -> list[Path]:
    """Return the paths, below the data's folder, of all files that a copy of a catalogue names, old snapshots' too.

    Only a copy may be asked, in a file that nobody else has open.

    Raises:
        BackupError: it is no catalogue, or it names files outside the data's folder.
    """
    with _read(catalogue) as read:
        return sorted({_below(row) for row in read.execute(_FILES)})


def noted_hashes(catalogue: Path) -> dict[str, str]:
    """Return the hashes that a copy of a catalogue notes, by the names of the files; that of an older release has none.

    Raises:
        BackupError: it is no catalogue.
    """
    with _read(catalogue) as read:
        if not read.execute("SELECT 1 FROM sqlite_master WHERE name = ?", [NOTES]).fetchall():
            return {}
        return dict(read.execute(f"SELECT name, sha256 FROM {NOTES} WHERE sha256 IS NOT NULL"))


@contextmanager
def _read(catalogue: Path) -> Iterator[sqlite3.Connection]:
    """Give a connection that changes nothing; what SQLite says of a file that is none is said of the catalogue."""
    try:
        with closing(sqlite3.connect(f"{catalogue.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as read:
            yield read
    except sqlite3.Error as error:
        raise BackupError(f"{catalogue} cannot be read as a catalogue: {error}") from error


def _below(row: tuple[str, int, str, int, str, int]) -> Path:
    schema, schema_relative, table, table_relative, file, file_relative = row
    path = Path(schema) / table / file
    if not (schema_relative and table_relative and file_relative) or path.is_absolute() or ".." in path.parts:
        raise BackupError(f"the lake has a file outside its own folder, which is not backed up: {file}")
    return path


_MEMORY, _THREADS = "256MB", 1


@contextmanager
def open_backup(copy: Layout) -> Iterator[Store]:
    """Give the store of a backup, read-only; it may have been moved since it was made.

    Raises:
        StoreError: it cannot be opened.
    """
    with tempfile.TemporaryDirectory(prefix="gpuledger-backup-") as folder:
        lake = None
        if copy.catalogue.exists():
            catalogue = Path(folder) / "catalogue.sqlite"
            shutil.copyfile(copy.catalogue, catalogue)
            point(catalogue, copy.data)
            lake = LakeSettings(f"sqlite:{catalogue}", str(copy.data))
        with Store.open(
            copy.store, lake=lake, read_only=True, memory_limit=_MEMORY, threads=_THREADS, may_lack=lake is None
        ) as store:
            yield store


def point(catalogue: Path, data: Path) -> None:
    """Write into a catalogue that nobody has open where its data lie now."""
    with closing(sqlite3.connect(catalogue)) as written, written:
        written.execute("UPDATE ducklake_metadata SET value = ? WHERE key = 'data_path'", [f"{data}/"])


def lake_rows(copy: Store) -> dict[str, int]:
    """Return the rows of each table of a copy's lake, as a reader counts them.

    Those into which nobody ever wrote have none, and are not asked: most tables of a site.
    """
    with copy.session() as session:
        tables = session.rows(  # of duckdb_tables() DuckLake would read every table's statistics
            "SELECT DISTINCT schema_name, table_name FROM duckdb_columns() WHERE database_name = 'lake' ORDER BY ALL"
        )
        filled = {schema: tables_with_rows(session, schema) for schema in {schema for schema, _ in tables}}
        places = {f"{schema}.{table}": f"lake.{schema}.{table}" for schema, table in tables if table in filled[schema]}
        counts = counted(session, places)
        return {name: counts.get(name, 0) for name in (f"{schema}.{table}" for schema, table in tables)}


def hot_rows(copy: Store, tables: Iterable[str]) -> dict[str, int]:
    """Return the rows of these tables of a copy's hot file."""
    with copy.hot_session() as session:
        return counted(session, {table: table for table in tables})


def counted(session: Session, places: Mapping[str, str]) -> dict[str, int]:
    """Return the rows of each table, by its name: one question, since each would ask the catalogue anew."""
    if not places:
        return {}
    each = (f"SELECT '{name}', count(*) FROM {place}" for name, place in places.items())
    counts = dict(session.rows(" UNION ALL ".join(each)))
    return {name: counts[name] for name in places}
