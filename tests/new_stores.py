"""Stores of tests: they have one thread and no upkeep of their own, and new ones are made at once.

They get in one script the tables that the migrations make, which takes a third of the time.

The script is what a store says of itself that the migrations have made, so that it is theirs; that nothing is lost on
the way is held by tests/collector/test_schema.py. A store that has any table is brought up to date by the migrations.

New lakes begin with a copy of the catalogue of one that the product has made, which takes half of the time.
"""

import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from collector.lake import keeper
from collector.store import database
from collector.store.database import Store
from collector.store.lake import LakeSettings, attach, default_lake
from collector.store.schemas import migrate
from collector.store.session import Session, literal

_TABLES = "SELECT sql FROM duckdb_tables() WHERE database_name = 'memory' ORDER BY table_oid"
_DONE = "SELECT number, file FROM migrations ORDER BY number"
_HAS_TABLES = "SELECT 1 FROM duckdb_tables() LIMIT 1"


@cache
def _script() -> str:
    """Return the script; the store that it is read of is made by the migrations."""
    with Store.open(None) as store, store.session() as session:
        tables = [sql for (sql,) in session.rows(_TABLES)]
        done = ", ".join(f"({number}, {literal(file)})" for number, file in session.rows(_DONE))
    return "\n".join([*tables, f"INSERT INTO migrations VALUES {done}"])


def made_at_once() -> Callable[[Session], None]:
    """Return what brings a store up to date in place of `migrate`."""
    script = _script()

    def bring_up_to_date(session: Session) -> None:
        if session.rows(_HAS_TABLES):
            migrate(session)
            return
        with session.transaction():
            session.execute(script)

    return bring_up_to_date


@cache
def _catalogue() -> bytes:
    """Return the catalogue of a lake without a row."""
    with TemporaryDirectory() as folder:
        lake = default_lake(Path(folder) / "store.duckdb")
        assert lake.file is not None
        Store.open(lake.file.parent.parent / "store.duckdb", lake=lake).close()
        return lake.file.read_bytes()


def attached_at_once() -> Callable[..., None]:
    """Return what attaches a lake in place of `attach`."""
    made = _catalogue()

    def attach_copied(session: Session, settings: LakeSettings, *, read_only: bool) -> None:
        file, folder = settings.file, settings.folder
        if (
            file is not None
            and folder is not None
            and folder.parent == file.parent
            and not (read_only or file.exists())
        ):
            with suppress(OSError):  # what is wrong with the place is told below
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(made)
                with closing(sqlite3.connect(file)) as catalogue:
                    catalogue.execute("UPDATE ducklake_metadata SET value = ? WHERE key = 'data_path'", [f"{folder}/"])
                    catalogue.commit()
        attach(session, settings, read_only=read_only)

    return attach_copied


@pytest.fixture(scope="session", autouse=True)
def _stores_of_one_thread() -> None:
    """Stores open with one thread, as a server's does: over small tables a second one waits for work by spinning.

    That took half of the processor time of a pass over a lake. Commands that tests start have their own threads, and so
    have the fleets of tests/analyzer/ledger that are held to others: in any order of rows the ledger is the same.
    """
    database.THREADS = 1


@pytest.fixture(scope="session", autouse=True)
def _new_stores_at_once(_stores_of_one_thread: None) -> None:
    """New stores are made by one script, which is what the migrations make; new lakes by a copy of one."""
    setattr(database, "migrate", made_at_once())  # noqa: B010  # it is no public name of that module
    setattr(database, "attach", attached_at_once())  # noqa: B010


@pytest.fixture(scope="session", autouse=True)
def _upkeep_when_it_is_called() -> None:
    """A server of a test does not roll up and clean its store by itself; a test of upkeep calls it.

    It begins 30 s after the start, so which servers of tests did it depended on how fast the machine was.
    """
    keeper.LOOK_SECONDS = 86_400.0
