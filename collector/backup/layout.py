"""Where things lie beside a store's file, in the original and in a copy alike: a backup is a store that can be read."""

from dataclasses import dataclass
from pathlib import Path

from collector.store.lake import default_lake
from collector.store.power import copy_of

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
