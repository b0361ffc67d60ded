"""Load DuckDB's extensions from their wheels: nothing is downloaded, and only the files that we know are loaded.

The wheels (duckdb-extension-*) are repackaged by a third party. Each file is therefore compared with the hash that is
pinned here. A site that builds or mirrors its own names their folder, and DuckDB checks its own signature on what lies
there. On a file that we know by its hash it passes over that, which took 0.13 s a file and start; once they are loaded
it is told to check again, and lets nobody allow it otherwise.
"""

import hashlib
import os
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from collector.errors import StoreError
from collector.store.literal import literal

if TYPE_CHECKING:
    from collector.store.session import Session

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


def load(session: "Session", names: tuple[str, ...], folder: Path | None = None) -> None:
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
        raise StoreError(f"DuckDB's extension {name} is not installed; type: pip install {wheel}")
    path = Path(package.origin).parent / "extensions" / f"v{DUCKDB_VERSION}" / f"{name}.duckdb_extension"
    expected = PINNED.get(platform, {}).get(name)
    if expected is None:
        raise StoreError(
            f"no hash is known of DuckDB's extension {name} for {platform}; "
            "put the files that you trust into a folder and name it: extensions = FOLDER"
        )
    if not path.is_file():
        raise StoreError(f"{path} is missing; type: pip install --force-reinstall {wheel}")
    if _sha256(path) != expected:
        raise StoreError(f"{path} is not the file that this release was tested with; type: pip install {wheel}")
    return path


def _sha256(path: Path) -> str:
    there = path.stat()
    return _hashed(path, there.st_mtime_ns, there.st_size, there.st_ino)


@cache
def _hashed(path: Path, *_: int) -> str:
    """Return a file's hash, read once for as long as the file is the same."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
