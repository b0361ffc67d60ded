"""Where sealed samples live: a DuckLake, Parquet files with a catalogue in SQLite (a site) or PostgreSQL (fleets).

DuckDB's extensions for it are loaded from their wheels: nothing is downloaded, and only the files that we know are
loaded. The wheels (duckdb-extension-*) are repackaged by a third party. Each file is therefore compared with the hash
that is pinned here. A site that builds or mirrors its own names their folder, and DuckDB checks its own signature on
what lies there. On a file that we know by its hash it passes over that, which took 0.13 s a file and start; once they
are loaded it is told to check again, and lets nobody allow it otherwise.
"""

import hashlib
import os
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from collector.errors import StoreError
from collector.store.session import Session, literal

DUCKDB_VERSION = "1.5.5"
_WHEEL_OF = {"sqlite_scanner": "sqlite-scanner", "postgres_scanner": "postgres-scanner"}

# sha256 of the files in the wheels of 1.5.5 on PyPI, by platform (PRAGMA platform).
PINNED: dict[str, dict[str, str]] = {
    "linux_amd64": {
        "ducklake": "e51bf9e8d933d0e83780ae096455501b542cf962569a2ce5613532d702c08302",
        "httpfs": "887c392b1e49128d11667c81e3698d8b00dfdeb456771acf66d05a0f74f7b7d8",
        "postgres_scanner": "b1ced4cfc6311313e117c2afb3eac76508718778dde0716421503c7dbfb5605c",
        "sqlite_scanner": "693d2bf90779df23ca5ebe0688639b9adfc11c2d55ae3466b33e28be16afaa5e",
    },
    "linux_arm64": {
        "ducklake": "d0b57c8e261b89a1ae367c7224f0857cfde72ab6cf2609f188e0de9b897b1088",
        "httpfs": "eba6e263e395a83966090f1f11ade63630b1b21422f0f2813858d179d42ea1e9",
        "postgres_scanner": "e2469cce1e855e8c842a1487dd8168cf27904c03baaf1f2c227529403315d819",
        "sqlite_scanner": "8d3dafb7dce28c7e74abac9f78a9063b8eda02c257e7aaa026e441bf277aece7",
    },
    "osx_arm64": {
        "ducklake": "1b72fc42164dbf21948e5a912cefc383b24071852f9e70209874ebd0a73b7caa",
        "httpfs": "10514b4ef19f80bf4ec4bf90c124f5d34625f2606263b40ae8ec7979905bb779",
        "postgres_scanner": "f39dd59bf57679d0242e19e180d90b4222e5cdb691ab67c7506658f3548c0e05",
        "sqlite_scanner": "a3548846bd643cb717265a0a11352af2e830a466ca068f4cae2552af658879f2",
    },
}


def load(session: Session, names: tuple[str, ...], folder: Path | None = None) -> None:
    """Load extensions, each from its wheel, or from `folder`, where an operator answers for what lies there.

    Raises:
        StoreError: one is missing, of another DuckDB, or not the file that we know; the sentence says what to install.
    """
    if "httpfs" in names:
        _use_no_proxy()
    (platform,) = session.row("PRAGMA platform")
    for name in names:
        path = _named(folder, name) if folder else _pinned(platform, name)
        session.execute(f"LOAD {literal(path)}")
    session.execute("SET GLOBAL allow_unsigned_extensions = false")


def allowed(folder: Path | None) -> dict[str, str]:
    """Return the settings of a database that is to load extensions: of files with pinned hashes no signature."""
    return {"allow_unsigned_extensions": "true" if folder is None else "false"}


def _use_no_proxy() -> None:
    """Have DuckDB's client of HTTP ask no proxy that the environment names: it would see our key's name and signatures.

    libcurl reads these variables with every request, and `SET http_proxy = ''` changes nothing of that (DuckDB 1.5.5).
    """
    if os.environ.get("no_proxy") != "*":  # once, before there are threads that read them
        os.environ |= {"no_proxy": "*", "NO_PROXY": "*"}


def _named(folder: Path, name: str) -> Path:
    path = folder / f"{name}.duckdb_extension"
    if not path.is_file():
        raise StoreError(f"there is no {path.name} in the folder of extensions {folder}")
    return path


def _pinned(platform: str, name: str) -> Path:
    wheel = f"duckdb-extension-{_WHEEL_OF.get(name, name)}=={DUCKDB_VERSION}"
    package = find_spec(f"duckdb_extension_{name}")
    if package is None or package.origin is None:
        raise StoreError(f"DuckDB's extension {name} is not installed; run: pip install {wheel}")
    path = Path(package.origin).parent / "extensions" / f"v{DUCKDB_VERSION}" / f"{name}.duckdb_extension"
    expected = PINNED.get(platform, {}).get(name)
    if expected is None:
        raise StoreError(
            f"no hash is known for DuckDB's extension {name} on {platform}; put trusted files "
            "in a folder and name it: extensions = FOLDER"
        )
    if not path.is_file():
        raise StoreError(f"{path} is missing; run: pip install --force-reinstall {wheel}")
    if _sha256(path) != expected:
        raise StoreError(f"{path} is not the file that this release was tested with; run: pip install {wheel}")
    return path


def _sha256(path: Path) -> str:
    there = path.stat()
    return _hashed(path, there.st_mtime_ns, there.st_size, there.st_ino)


@cache
def _hashed(path: Path, *_: int) -> str:
    """Return a file's hash, read once for as long as the file is the same."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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


_BESIDE = ".lake"  # how the name of the folder beside a store ends


def default_lake(store: Path, extensions: Path | None = None) -> LakeSettings:
    """Return the lake that belongs to a store's file: all of it in a folder beside it."""
    folder = store.with_name(store.name + _BESIDE)
    return LakeSettings(f"sqlite:{folder / 'catalogue.sqlite'}", str(folder / "data"), S3(), extensions)


def found_beside(store: Path) -> LakeSettings | None:
    """Return the lake that lies beside a store's file, if one does."""
    own = default_lake(store)
    return own if own.file is not None and own.file.exists() else None


def attach(session: Session, settings: LakeSettings, *, read_only: bool) -> None:
    """Attach the lake as `lake`; one who may write makes the folders that are missing.

    Raises:
        StoreError: an extension is missing, or the catalogue or the data cannot be reached.
    """
    load(session, _extensions(settings), settings.extensions)
    if settings.data.startswith("s3://"):
        session.execute(_secret(settings.s3))
    if not read_only:
        _make_folder(settings.file and settings.file.parent)
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
    _require_own_data(session, settings)
    if not read_only:
        _make_folder(settings.folder)


def _require_own_data(session: Session, settings: LakeSettings) -> None:
    """See that the data is where the catalogue has it, or was moved along with it.

    Raises:
        StoreError: it lies elsewhere, as settings say that were not named.
    """
    if settings.folder is None or settings.file is None:
        return  # of another catalogue DuckLake says so itself
    (was,) = session.row(f"SELECT value FROM {CATALOGUE}.ducklake_metadata WHERE key = 'data_path'")
    then, now = Path(was), settings.folder
    together = then.name == now.name and (then.parent.name == now.parent.name or then.parent.suffix == _BESIDE)
    if then.absolute() != now.absolute() and not ("://" not in was and together):
        raise StoreError(
            f"the files of the lake {settings.file} lie in {was}, not in {now}; name the settings of its server with "
            "--config FILE"
        )


def tables_with_rows(session: Session, schema: str) -> set[str]:
    """Return the tables of one schema of the lake into which a row was ever written; of the others none has a row.

    One question to the catalogue, where each statement over a table asks for its columns, files and statistics. In a
    transaction that has read of the lake before, every table that has a row for it is among them.
    """
    return {table for (table,) in session.rows(_WRITTEN, [schema])}


def delete(session: Session, statement: str) -> None:
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
        f"the lake's catalogue {settings.file} is damaged, and was left as it is: restore a backup (gpuledger admin "
        f"restore); a copy of it may tell more ({error})"
    )


def _extensions(settings: LakeSettings) -> tuple[str, ...]:
    catalogue = "sqlite_scanner" if settings.file is not None else "postgres_scanner"
    return (catalogue, *(("httpfs",) if settings.data.startswith("s3://") else ()), "ducklake")


def _make_folder(folder: Path | None) -> None:
    try:
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
