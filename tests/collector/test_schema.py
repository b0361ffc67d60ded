"""The store's tables are the contract's, whatever release made it."""

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from agent.wire.contract import SCHEMA_VERSION, Table
from agent.wire.tables import TABLES
from collector.errors import StoreError
from collector.store import database
from collector.store.database import Store
from collector.store.lake import attach, default_lake
from collector.store.schemas import SCHEMA_DIRECTORY, available, column_sql, migrate
from tests.new_stores import attached_at_once, made_at_once

TYPES = {"string": "VARCHAR", "int64": "BIGINT", "float64": "DOUBLE", "bool": "BOOLEAN"}
# All that a database can hold beside rows, as it says itself; what is numbered as it is made is left out.
HELD = (
    "SELECT table_name, column_index, column_name, data_type, is_nullable, column_default FROM duckdb_columns()",
    "SELECT table_name, constraint_type, constraint_text, constraint_column_names FROM duckdb_constraints()",
    "SELECT table_name, index_name, sql FROM duckdb_indexes()",
    "SELECT sequence_name, sql FROM duckdb_sequences()",
    "SELECT view_name, sql FROM duckdb_views() WHERE NOT internal",
    "SELECT function_name, macro_definition FROM duckdb_functions() WHERE NOT internal",
    "SELECT type_name, logical_type FROM duckdb_types() WHERE NOT internal",
    "SELECT table_name, estimated_size FROM duckdb_tables()",
    "FROM migrations",
)


@pytest.fixture(scope="module")
def migrated() -> Iterator[Store]:
    """A store that the migrations have made."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(database, "migrate", migrate)
        with Store.open(None) as store:
            yield store


def test_the_script_of_new_stores_of_tests_makes_what_the_migrations_make(
    migrated: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every other test may then stand on it."""
    monkeypatch.setattr(database, "migrate", made_at_once())
    with Store.open(None) as made, made.session() as ours, migrated.session() as theirs:
        for query in HELD:
            assert sorted(map(repr, ours.rows(query))) == sorted(map(repr, theirs.rows(query)))


def test_the_copied_lake_of_tests_is_the_one_that_the_product_makes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every other test may then stand on it; what is drawn by lot and the moments are each lake's own."""

    def catalogue(name: str, attaching: Callable[..., None]) -> dict[str, list[str]]:
        store = tmp_path / name / "store.duckdb"
        store.parent.mkdir()
        lake = default_lake(store)
        monkeypatch.setattr(database, "attach", attaching)
        Store.open(store, lake=lake).close()
        assert lake.file is not None
        with closing(sqlite3.connect(lake.file)) as made:
            tables = [table for (table,) in made.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            return {table: rows(made.execute(f"SELECT * FROM {table}"), store.parent) for table in tables}

    def rows(found: sqlite3.Cursor, folder: Path) -> list[str]:
        own = [column[0].endswith(("_uuid", "_time")) for column in found.description]
        told = [repr([value for value, is_own in zip(row, own, strict=True) if not is_own]) for row in found]
        # What a snapshot changed is a list in no order.
        return sorted(" ".join(sorted(re.split(r"[][', ]+", row.replace(str(folder), "")))) for row in told)

    assert catalogue("copied", attached_at_once()) == catalogue("made", attach)


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)
def test_the_migrations_make_exactly_the_contracts_columns_and_the_batch(table: Table, migrated: Store) -> None:
    """One declaration makes wire, store and documents; a column in one of them alone would be lost in another."""
    with migrated.session() as session:
        found = session.rows(
            "SELECT column_name, data_type, is_nullable FROM duckdb_columns() WHERE table_name = ?",
            [table.name],
        )
    declared = [(column.name, TYPES[column.type], not column.required) for column in table.columns]
    assert sorted(found) == sorted([*declared, ("batch", "BIGINT", False)])


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)
def test_every_column_is_usable_unquoted(table: Table, migrated: Store) -> None:
    """A column named `at` cost an earlier draft its SQL: it is a keyword of DuckDB 1.5."""
    with migrated.session() as session:
        for column in table.columns:
            name = column.name
            session.execute(
                f"SELECT {name}, t.{name} AS {name} FROM {table.name} t WHERE {name} IS NULL ORDER BY {name}"
            )
            session.execute(f"SELECT {name}, count(*) FROM {table.name} GROUP BY {name}")


def contract_sql(version: int) -> str:
    """Return what a version of the contract added: tables that it began, columns that it appended."""
    return "\n".join(filter(None, (_added(table, version) for table in TABLES.values())))


def _added(table: Table, version: int) -> str:
    if not table.columns_at(version - 1):
        columns = ",\n    ".join([*map(column_sql, table.columns_at(version)), "batch BIGINT NOT NULL"])
        made = f"-- A row is {table.row}.\nCREATE TABLE {table.name} (\n    {columns}\n);\n"
        return made if table.columns_at(version) else ""
    new = [column for column in table.columns if column.since == version]
    return "".join(f"ALTER TABLE {table.name} ADD COLUMN {column_sql(column)};\n" for column in new)


@pytest.mark.parametrize(
    ("version", "file"),
    [
        (1, "0001_contract.sql"),
        (2, "0003_contract_v2.sql"),
        (3, "0013_contract_v3.sql"),
        (4, "0016_contract_v4.sql"),
        (5, "0021_contract_v5.sql"),
        (6, "0024_contract_v6.sql"),
        (7, "0027_contract_v7.sql"),
    ],
)
def test_the_generated_schema_is_the_committed_one(version: int, file: str) -> None:
    """Each version of the contract has the migration that it generates, and is never changed after its release.

    What the ledger makes of the new columns may follow in the same file.
    """
    made, _, _ = (SCHEMA_DIRECTORY / file).read_text().partition("\n-- What the ledger books of them")
    assert made == contract_sql(version)


def test_every_version_of_the_contract_has_its_migration() -> None:
    """A column that no migration adds would refuse every batch that carries it."""
    assert max(column.since for table in TABLES.values() for column in table.columns) == SCHEMA_VERSION == 7


def test_migrations_are_numbered_without_gap_or_double() -> None:
    """They are applied in order and remembered by number."""
    assert [number for number, _ in available()] == list(range(len(available())))


def test_a_store_is_brought_up_to_date_once(tmp_path: Path) -> None:
    """Opening again changes nothing, and what was stored stays."""
    for _ in range(2):
        with Store.open(tmp_path / "store.duckdb") as store, store.session() as session:
            numbers = session.rows("SELECT number FROM migrations ORDER BY number")
            assert numbers == [(number,) for number, _ in available()]


@pytest.mark.parametrize("read_only", [True, False])
def test_a_store_of_a_newer_release_is_refused(tmp_path: Path, *, read_only: bool) -> None:
    """An older release would misread it, or worse, write to it."""
    with Store.open(tmp_path / "store.duckdb") as store, store.session() as session:
        session.execute("INSERT INTO migrations VALUES (9999, 'from_the_future.sql')")
    with pytest.raises(StoreError, match=r"migration 9999, which this release does not know; upgrade gpuledger"):
        Store.open(tmp_path / "store.duckdb", read_only=read_only)


def test_a_store_of_an_older_release_is_not_read_but_brought_up_to_date(tmp_path: Path) -> None:
    """A reader may not migrate; it says who can."""
    last = available()[-1][0]
    with Store.open(tmp_path / "store.duckdb") as store, store.session() as session:
        session.execute("DELETE FROM migrations WHERE number = ?", [last])
    with pytest.raises(StoreError, match=f"lacks migration {last}; start gpuledger serve on it once"):
        Store.open(tmp_path / "store.duckdb", read_only=True)


def test_a_missing_store_is_not_made_by_reading(tmp_path: Path) -> None:
    """A mistyped path must not read as an empty fleet."""
    with pytest.raises(StoreError, match=r"there is no store at .*none\.duckdb"):
        Store.open(tmp_path / "none.duckdb", read_only=True)
    assert not (tmp_path / "none.duckdb").exists()


def test_a_file_that_is_no_store_is_said_to_be_none(tmp_path: Path) -> None:
    """Whatever lies there, the answer is one sentence with the path."""
    path = tmp_path / "notes.txt"
    path.write_text("dear diary, " * 1000)
    with pytest.raises(StoreError, match=r"cannot open the store .*notes\.txt"):
        Store.open(path)
