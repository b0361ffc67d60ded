"""Erase a person's name: seal what waits, replace the name everywhere, and let no old bytes of it remain.

The server must be stopped meanwhile: its hot file is written anew. Agents keep what they measure and send it later. A
name is found and replaced as a whole word. What a lake keeps of changed rows goes: older snapshots, their files, the
catalogue's statistics.
"""

import hashlib
import re
import secrets
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agent.wire.tables import TABLES
from collector.access.open_access import tenant_of
from collector.backup.manifest import Layout
from collector.config import CollectorConfig
from collector.errors import ConfigError, StoreError
from collector.lake.damage import FOLDER
from collector.lake.lake_files import flush
from collector.lake.sealing import seal
from collector.registry import AuditEntry, Registry
from collector.store.books import ERASED
from collector.store.database import Store, open_store
from collector.store.lake import CATALOGUE, found_beside, tables_with_rows
from collector.store.power import rewrite
from collector.store.seal_mark import Mark
from collector.store.session import Session
from collector.store.sqlite_child import vacuum_sqlite

# Of the contract: what holds names of people, and the ids that may bear one. Of the books: what is made from those, and
# who said what of a finding.
COLUMNS = frozenset(
    column.name for table in TABLES.values() for column in table.columns if column.sensitivity != "none"
) | {"caused_by", "subject", "counts", "verdict", "because", "who", "model_first", "model_last", "moved_project"}
_FREE_TEXT = ("quarantine", "content")  # rows that were refused: evidence and no data, so that they simply go
_SHORTEST, _LONGEST = 2, 200


@dataclass(frozen=True, slots=True)
class Replacement:
    """A name, and what stands in its place."""

    name: str
    pseudonym: str

    def __post_init__(self) -> None:
        if not _SHORTEST <= len(self.name) <= _LONGEST or not self.name.isprintable() or "\\E" in self.name:
            raise ConfigError(f"a name to erase has {_SHORTEST} to {_LONGEST} printable characters")
        if not re.fullmatch(r"[a-z0-9-]{4,40}", self.pseudonym):
            raise ConfigError("a pseudonym has 4 to 40 small letters, digits and dashes")

    @property
    def looking(self) -> dict[str, object]:
        """What a statement needs to find the name."""
        between = r"[^\p{L}\p{N}]"
        return {"name": self.name, "pattern": rf"(^|{between})\Q{self.name}\E({between}|$)"}

    @property
    def changing(self) -> dict[str, object]:
        """What a statement needs to put the pseudonym in its place."""
        return self.looking | {"instead": rf"\1{self.pseudonym}\2"}


@dataclass(frozen=True, slots=True)
class NameColumns:
    """One table and those of its columns in which a name can stand."""

    table: str  # with its database and schema, as SQL has it
    columns: tuple[str, ...]
    goes: bool = False  # whether a row that holds the name is deleted

    @property
    def contains(self) -> str:
        """The condition that a row has the text of the name; it needs `$name`."""
        return f"({' OR '.join(f'contains({column}, $name)' for column in self.columns)})"

    @property
    def holds(self) -> str:
        """The condition that a row holds the name; it needs `looking`. No name has the sign that parts the columns."""
        return f"{self.contains} AND regexp_matches(concat_ws(chr(10), {', '.join(self.columns)}), $pattern)"

    def change(self) -> str:
        """Return the statement that takes the name out; it needs `changing`, or `looking` where rows go."""
        if self.goes:
            return f"DELETE FROM {self.table} WHERE {self.holds}"
        # Twice: of two names with one character between, the first match has taken that character.
        once = "regexp_replace({0}, $pattern, $instead, 'g')"
        sets = ", ".join(f"{c} = {once.format(once.format(c))}" for c in self.columns)
        return f"UPDATE {self.table} SET {sets} WHERE {self.holds}"


def _holding(session: Session, found: Sequence[NameColumns], replacement: Replacement) -> list[NameColumns]:
    """Return those places of which a row holds the name.

    Of all it is asked at once which have its text: to plan a pattern takes 5 ms, and most tables have not even that.

    Raises:
        StoreError: a table cannot be read.
    """
    each = [f"(SELECT {n} FROM {place.table} WHERE {place.contains} LIMIT 1)" for n, place in enumerate(found)]
    told = session.rows(" UNION ALL ".join(each), {"name": replacement.name}) if each else []
    having = [found[n] for (n,) in sorted(told)]
    return [
        place
        for place in having
        if session.rows(f"SELECT 1 FROM {place.table} WHERE {place.holds} LIMIT 1", replacement.looking)
    ]


def _places_of(session: Session, database: str) -> list[NameColumns]:
    """Return every place of an attached database."""
    found: dict[tuple[str, str], list[str]] = {}
    for schema, table, column in session.rows(
        "SELECT schema_name, table_name, column_name FROM duckdb_columns() WHERE database_name = ? "
        "AND data_type = 'VARCHAR' ORDER BY ALL",
        [database],
    ):
        if column in COLUMNS or (table, column) == _FREE_TEXT:
            found.setdefault((schema, table), []).append(column)
    quoted = '"' + database.replace('"', '""') + '"'
    return [
        NameColumns(f"{quoted}.{schema}.{table}", tuple(columns), table == _FREE_TEXT[0])
        for (schema, table), columns in found.items()
    ]


def _purge(store: Store, replacement: Replacement) -> int:
    """Rewrite files with changed rows, forget every older snapshot, remove their files; return how many that were.

    Who reads at that moment from an older snapshot gets an error and asks again.

    Raises:
        StoreError: the lake refused; to run it again is safe.
    """
    flush(store)
    with store.turn, store.session() as session:
        session.rows("CALL ducklake_rewrite_data_files('lake', delete_threshold => 0)")
        session.rows("CALL ducklake_expire_snapshots('lake', older_than => now())")
        removed = session.rows("CALL ducklake_cleanup_old_files('lake', cleanup_all => true)")
        with session.transaction():
            # Of a table it only ever widens them; without, the files' own are asked, which are new.
            session.execute(
                f"UPDATE {CATALOGUE}.ducklake_table_column_stats SET min_value = NULL, max_value = NULL "
                "WHERE contains(min_value, $name) OR contains(max_value, $name)",
                {"name": replacement.name},
            )
    return len(removed)


def _tidy_catalogue(store: Store) -> None:
    """Write SQLite's catalogue anew: it overwrites nothing that it deletes. PostgreSQL's VACUUM is PostgreSQL's.

    Raises:
        StoreError: somebody holds the file.
    """
    file = store.lake.file if store.lake is not None else None
    if file is not None:
        vacuum_sqlite(file, 0)


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
        files = _purge(store, replacement) if store.lake is not None else 0
        _check(store, replacement)
        path = store.path
    _tidy_catalogue(store)
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
    try:
        seal(store, Mark.of(store, tenant.number if tenant is not None else 0), tenant)
    finally:
        if tenant is not None:
            tenant.stop()
    with store.hot_session() as session:
        (left,) = session.row("SELECT count(*) FROM arrivals")
    if left:
        raise StoreError(
            f"{left} batches could not be sealed, so names in them were not replaced; see the server's log"
        )


def _replaced(store: Store, replacement: Replacement) -> dict[str, int]:
    with store.session() as session:
        hot = _places(session, store.hot)
        rows = _change(session, hot, replacement)
        if store.lake is not None:
            flush(store)
            with store.turn:
                rows |= _change(session, _lake_places(session), replacement)
    return rows


def _change(session: Session, found: Sequence[NameColumns], replacement: Replacement) -> dict[str, int]:
    rows: dict[str, int] = {}
    with session.transaction():
        for place in _holding(session, found, replacement):
            values = replacement.looking if place.goes else replacement.changing
            rows[place.table] = session.changed(place.change(), values)
    return rows


def _check(store: Store, replacement: Replacement) -> None:
    """Look again, everywhere.

    Raises:
        StoreError: the name is still there.
    """
    with store.session() as session:
        everywhere = _places(session, store.hot) + (_lake_places(session) if store.lake is not None else [])
        for place in _holding(session, everywhere, replacement):
            raise StoreError(f"{place.table} still has the name; is a collector sealing? Run the same command again")


def _lake_places(session: Session) -> list[NameColumns]:
    """Return every place of the lake into whose table a row was ever written."""
    written = {
        f'"lake".{schema}.{table}' for schema in ("main", "books") for table in tables_with_rows(session, schema)
    }
    return [place for place in _places_of(session, "lake") if place.table in written]


def _places(session: Session, hot: str | None) -> list[NameColumns]:
    database = (hot or "").removesuffix(".main").strip('"').replace('""', '"')
    return _places_of(session, database)
