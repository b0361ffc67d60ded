"""Erase a person's name: seal what waits, replace the name everywhere, and let no old bytes of it remain.

The server must be stopped meanwhile: its hot file is written anew. Agents keep what they measure and send it later.
"""

import hashlib
import secrets
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from collector.access.open_tenant import tenant_of
from collector.backup.layout import Layout
from collector.config import CollectorConfig
from collector.erasure.lake_bytes import purge, tidy_catalogue
from collector.erasure.names import ERASED, NameColumns, Replacement, places
from collector.errors import StoreError
from collector.lake.sealing.seal import seal
from collector.lake.soundness.aside import FOLDER
from collector.lake.upkeep.lake_files import flush
from collector.registry import AuditEntry, Registry
from collector.store.database import Store
from collector.store.lake import found_beside
from collector.store.open_store import open_store
from collector.store.rewriting import rewrite
from collector.store.seal_mark import Mark
from collector.store.session import Session

_SCRYPT = {"n": 2**14, "r": 8, "p": 1, "dklen": 16}


@dataclass(frozen=True, slots=True)
class Erased:
    """What was done: rows by table, and the files of the lake that are gone."""

    rows: dict[str, int]
    files: int

    @property
    def row_count(self) -> int:
        """All rows."""
        return sum(self.rows.values())


def pseudonym() -> str:
    """Return a new pseudonym, from which nothing leads back."""
    return f"{ERASED}{secrets.token_hex(5)}"


def _proof(name: str) -> str:
    """Return what the audit keeps of a name: who knows the name can check it, who does not cannot try many."""
    salt = secrets.token_bytes(16)
    return f"scrypt:{salt.hex()}:{hashlib.scrypt(name.encode(), salt=salt, **_SCRYPT).hex()}"


def erase(config: CollectorConfig, registry: Registry, replacement: Replacement, by: str) -> Erased:
    """Do all of it; to run it again after it was cut off is safe.

    Raises:
        StoreError: the store is in use or the lake cannot be reached, and a sentence says how far it came.
    """
    if not config.lake and found_beside(config.store) is None:
        config = replace(config, lake="none")  # a store that has no lake must not get one by this
    with open_store(config) as store:
        if store.hot is None:
            raise StoreError(f"the store {config.store} is in use; stop its server first")
        _forget(Layout(config.store).pages)
        if store.lake is not None and store.lake.folder is not None:
            _forget(store.lake.folder.parent / FOLDER)
        _seal(store, config)
        rows = _replaced(store, replacement)
        files = purge(store, replacement) if store.lake is not None else 0
        _check(store, replacement)
        path = store.path
    tidy_catalogue(store)
    if path is not None:
        rewrite(path, config.memory_limit)
    erased = Erased(rows, files)
    detail = f"{erased.row_count} rows, {files} files"
    registry.audit.add(
        [AuditEntry(time.time_ns() // 1000, "change", by, "erase user", _proof(replacement.name), detail)]
    )
    return erased


def _forget(folder: Path) -> None:
    """Drop pages that the server kept for its next start, or files of the lake that were set aside: they have the name.

    Raises:
        StoreError: the disk keeps them.
    """
    try:
        if folder.exists():
            shutil.rmtree(folder)
    except OSError as error:
        raise StoreError(f"cannot remove {folder}, which has the name: {error.strerror or error}") from error


def _seal(store: Store, config: CollectorConfig) -> None:
    """Bring what has arrived into the lake: in the bodies as they came no name can be replaced."""
    if store.lake is None:
        return
    tenant = tenant_of(config, store)
    number = tenant.number if tenant is not None else 0
    seal(store, Mark.of(store, number), tenant)
    with store.hot_session() as session:
        (left,) = session.row("SELECT count(*) FROM arrivals")
    if left:
        raise StoreError(f"{left} batches could not be sealed, and their names not be replaced; see the server's log")


def _replaced(store: Store, replacement: Replacement) -> dict[str, int]:
    with store.session() as session:
        hot = _places(session, store.hot)
        rows = _change(session, hot, replacement)
        if store.lake is not None:
            flush(store)
            with store.turn:
                rows |= _change(session, places(session, "lake"), replacement)
    return rows


def _change(session: Session, found: Sequence[NameColumns], replacement: Replacement) -> dict[str, int]:
    rows: dict[str, int] = {}
    with session.transaction():
        for place in found:
            (count,) = session.row(f"SELECT count(*) FROM {place.table} WHERE {place.holds}", replacement.looking)
            if count:
                session.execute(place.change(), replacement.looking if place.goes else replacement.changing)
                rows[place.table] = int(count)
    return rows


def _check(store: Store, replacement: Replacement) -> None:
    """Look again, everywhere.

    Raises:
        StoreError: the name is still there.
    """
    with store.session() as session:
        everywhere = _places(session, store.hot) + (places(session, "lake") if store.lake is not None else [])
        for place in everywhere:
            if session.rows(f"SELECT 1 FROM {place.table} WHERE {place.holds} LIMIT 1", replacement.looking):
                raise StoreError(f"{place.table} still has the name; is a collector sealing? run the same again")


def _places(session: Session, hot: str | None) -> list[NameColumns]:
    database = (hot or "").removesuffix(".main").strip('"').replace('""', '"')
    return places(session, database)
