"""Where sealed samples live: a DuckLake, Parquet files with a catalogue in SQLite (a site) or PostgreSQL (fleets)."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from collector.errors import StoreError
from collector.store.extensions import load
from collector.store.lake_schema import make_tables
from collector.store.literal import literal

if TYPE_CHECKING:
    from collector.store.session import Session

_NAME = "lake"
CATALOGUE = f"__ducklake_metadata_{_NAME}"  # as DuckLake attaches it, whatever keeps it
# Rows of a commit that are fewer than this go into the catalogue, not into a Parquet file of their own.
_INLINED_ROWS = 500
_INLINING = "ducklake_default_data_inlining_row_limit"
# Row ids only ever grow: where the next one is none yet, no snapshot has a row.
_WRITTEN = f"""
SELECT t.table_name FROM {CATALOGUE}.ducklake_table t JOIN {CATALOGUE}.ducklake_schema s USING (schema_id)
JOIN {CATALOGUE}.ducklake_table_stats r USING (table_id)
WHERE s.schema_name = ? AND t.end_snapshot IS NULL AND r.next_row_id > 0
"""
_DAMAGED = (
    "malformed",
    "not a database",
    "disk I/O error",
    "Failed to load DuckLake",
)  # in SQLite's words, and DuckLake's
_BUSY_MS = 10_000  # readers and writers of a SQLite catalogue wait for one another instead of failing (spikes.md, B3)


@dataclass(frozen=True, slots=True)
class S3:
    """An object store and who we are to it. Without an endpoint it is Amazon's."""

    endpoint: str = ""  # http://host:port or https://host
    region: str = "us-east-1"
    key_id: str = ""
    secret: str = ""


@dataclass(frozen=True, slots=True)
class LakeSettings:
    """Which lake. `catalogue` reads `sqlite:PATH` or `postgres:DSN`; `data` is a folder or an s3:// address."""

    catalogue: str
    data: str
    s3: S3 = S3()
    extensions: Path | None = None

    @property
    def file(self) -> Path | None:
        """The catalogue's file; None where a server keeps it."""
        kind, _, rest = self.catalogue.partition(":")
        return Path(rest) if kind == "sqlite" else None

    @property
    def folder(self) -> Path | None:
        """The data's folder; None where an object store keeps it."""
        return None if self.data.startswith("s3://") else Path(self.data)


def default_lake(store: Path, extensions: Path | None = None) -> LakeSettings:
    """Return the lake that belongs to a store's file: all of it in a folder beside it."""
    folder = store.with_name(store.name + ".lake")
    return LakeSettings(f"sqlite:{folder / 'catalogue.sqlite'}", str(folder / "data"), S3(), extensions)


def found_beside(store: Path) -> LakeSettings | None:
    """Return the lake that lies beside a store's file, if one does."""
    own = default_lake(store)
    return own if own.file is not None and own.file.exists() else None


def attach(session: "Session", settings: LakeSettings, *, read_only: bool) -> None:
    """Attach the lake as `lake`; one who may write makes what is missing: folders, tables, columns.

    Raises:
        StoreError: an extension is missing, or the catalogue or the data cannot be reached.
    """
    load(session, _extensions(settings), settings.extensions)
    if settings.data.startswith("s3://"):
        session.execute(_secret(settings.s3))
    if not read_only:
        _make_folders(settings)
    elif settings.file is not None and not settings.file.exists():
        raise StoreError(f"there is no lake at {settings.file}; gpuledger serve makes it")
    options = [f"DATA_PATH {literal(settings.data)}"]
    if settings.folder is not None and settings.file is not None and settings.folder.parent == settings.file.parent:
        options.append("OVERRIDE_DATA_PATH true")  # all of it lies in one folder, which may have been moved or copied
    if settings.file is not None:
        options += ["META_JOURNAL_MODE 'WAL'", f"META_BUSY_TIMEOUT {_BUSY_MS}"]
    if read_only:
        options.append("READ_ONLY")
    session.execute(f"SET GLOBAL {_INLINING} = {_INLINED_ROWS}")
    session.execute(f"ATTACH {literal(f'ducklake:{settings.catalogue}')} AS {_NAME} ({', '.join(options)})")
    if not read_only:
        make_tables(session)


def tables_with_rows(session: "Session", schema: str) -> set[str]:
    """Return the tables of one schema of the lake into which a row was ever written; of the others none has a row.

    One question to the catalogue, where each statement over a table asks for its columns, files and statistics. In a
    transaction that has read of the lake before, every table that has a row for it is among them.

    Raises:
        StoreError: the catalogue does not answer.
    """
    return {table for (table,) in session.rows(_WRITTEN, [schema])}


def delete(session: "Session", statement: str) -> None:
    """Run a DELETE whose rows others may be reading; the caller holds the store's turn.

    Of few rows DuckLake notes in the catalogue that they are gone, in a table that it makes and drops as it needs it: a
    reader whose snapshot is older looks for that table in vain and fails. A file that names them is there or is not.

    Raises:
        StoreError: the store refused; the transaction is over.
    """
    with session.another() as settings:
        known = settings.rows("SELECT 1 FROM duckdb_settings() WHERE name = ?", [_INLINING])
        try:
            if known:
                settings.execute(f"SET GLOBAL {_INLINING} = 0")
            session.execute(statement)
        finally:
            if known:
                settings.execute(f"SET GLOBAL {_INLINING} = {_INLINED_ROWS}")


def named_damage(settings: LakeSettings, error: StoreError) -> StoreError:
    """Return an opening's error, with the catalogue's name where that is damaged; its library speaks of an image."""
    if settings.file is None or not any(words in str(error) for words in _DAMAGED):
        return error
    return StoreError(
        f"the lake's catalogue {settings.file} is damaged, and was left as it is: put back a backup "
        f"(gpuledger admin restore); a copy of it may say more ({error})"
    )


def _extensions(settings: LakeSettings) -> tuple[str, ...]:
    catalogue = "sqlite_scanner" if settings.file is not None else "postgres_scanner"
    return (catalogue, *(("httpfs",) if settings.data.startswith("s3://") else ()), "ducklake")


def _make_folders(settings: LakeSettings) -> None:
    try:
        for folder in (settings.file and settings.file.parent, settings.folder):
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot make the lake's folder {error.filename}: {error.strerror}") from error


def _secret(s3: S3) -> str:
    """Return the statement that tells DuckDB how to reach the object store; nothing of it is kept on disk."""
    url = urlsplit(s3.endpoint)
    parts = ["TYPE s3", f"KEY_ID {literal(s3.key_id)}", f"SECRET {literal(s3.secret)}"]
    parts.append(f"REGION {literal(s3.region)}")
    if s3.endpoint:
        parts += [f"ENDPOINT {literal(url.netloc)}", "URL_STYLE 'path'"]
        parts.append(f"USE_SSL {'true' if url.scheme == 'https' else 'false'}")
    return f"CREATE OR REPLACE SECRET lake_data ({', '.join(parts)})"
