"""One command takes a person's name out of all: rows, snapshots, files, the catalogue, what is not sealed yet."""

import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass
from hashlib import scrypt
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from agent.wire.tables import TABLES
from analyzer.analysis import analyze
from analyzer.settings.settings import Settings
from collector.access.erasure import _SCRYPT, COLUMNS, Erased, Replacement, _replaced, erase, pseudonym
from collector.access.open_access import registry_of
from collector.backup.manifest import Layout
from collector.config import CollectorConfig
from collector.errors import ConfigError, StoreError
from collector.lake.sealing import seal
from collector.pipeline.decoding.batch import decode
from collector.pipeline.writer import Writer
from collector.registry import AuditEntry, open_registry
from collector.store.books import mirror
from collector.store.database import Store, open_store
from collector.store.seal_mark import Mark
from dashboards.disk_cache import DiskCache, PageRecord
from tests.collector.batches import NOW
from tests.collector.batches import body as encoded
from tests.waiting import PATIENCE_SECONDS

NAME, OTHER = "zephyrine", "zephyr"
BEGAN = NOW - 10_000_000
SEALED, UNSEALED = {1: 300, 2: 2, 3: 2}, 3  # runs in each batch
WHO = Replacement(NAME, "erased-0123456789")


def rows(number: int) -> dict[str, list[dict[str, Any]]]:
    """Return rows in which names stand in every way that hosts and schedulers tell them."""
    at = {"node": "n14", "started_at": BEGAN - number, "ended_at": NOW - number}
    run = f"declared/n14/{NAME}-{number}"
    of_run = {"node": "n14", "gpu_uuid": f"GPU-{number}", "started_at": BEGAN}
    mine = of_run | {"run_id": run, "user": NAME, "account": f"acct_{NAME}", "name": f"{NAME}-{NAME} train"}
    mine |= {"project": "vision", "labels": f'{{"owner": "{NAME}", "mail": "{NAME}@lab"}}', "member": f"{NAME}-0"}
    theirs = of_run | {"run_id": f"slurm/a/{number}", "user": OTHER, "name": f"{NAME}s", "gpu_uuid": "GPU-99"}
    return {
        "allocations": [mine, theirs],
        "process_samples": [at | {"run_id": run, "pid": 7, "owner": NAME, "gpu_uuid": f"GPU-{number}"}],
        "disk_samples": [at | {"device": f"/home/{NAME}", "mount_kind": "nfs", "read_bytes": 1}],
        "gpu_samples": [at | {"gpu_uuid": f"GPU-{number}", "up": True, "utilization_ratio": 0.5}],
    }


def land(writer: Writer, sequence: int, count: int) -> None:
    """Let a writer take a batch with rows of so many runs."""
    tables: dict[str, list[dict[str, Any]]] = {}
    for number in range(sequence * 1000, sequence * 1000 + count):
        for name, found in rows(number).items():
            tables.setdefault(name, []).extend(found)
    writer.submit(decode(encoded(sequence, tables), NOW)).result(PATIENCE_SECONDS)


def everything(config: CollectorConfig) -> list[tuple[str, str]]:
    """Return (place, text) of every text that readers of the store can meet."""
    found = []
    with open_store(config) as store, store.session() as session:
        tables = session.rows(
            "SELECT database_name, schema_name, table_name, list(column_name) FROM duckdb_columns() "
            "WHERE data_type = 'VARCHAR' AND schema_name IN ('main', 'books') AND NOT starts_with(database_name, '__') "
            "AND database_name <> 'system' AND database_name <> 'temp' GROUP BY ALL"
        )
        for database, schema, table, columns in tables:
            place = f'"{database}".{schema}.{table}'
            for row in session.rows(f"SELECT DISTINCT {', '.join(columns)} FROM {place}"):
                told = zip(columns, row, strict=True)
                found += [(f"{place}.{column}", str(text)) for column, text in told if text is not None]
    return found


def word(name: str) -> "re.Pattern[str]":
    """Return what finds a name as a word."""
    return re.compile(rf"(?<![^\W_]){name}(?![^\W_])")


@dataclass(frozen=True)
class Told:
    """A store before and after, and what the command said."""

    config: CollectorConfig
    folder: Path
    before: list[tuple[str, str]]
    after: list[tuple[str, str]]
    names_on_disk_before: list[str]  # files
    erased: Erased
    entry: AuditEntry


def built(config: CollectorConfig) -> None:
    """Make a store with sealed rows in several snapshots, a ledger over them, and rows that are not sealed yet."""
    with open_store(config) as store:
        writer = Writer(store, config)
        writer.start()
        for sequence, runs in SEALED.items():  # the first is large enough for files, the others lie in the catalogue
            land(writer, sequence, runs)
            if store.lake is not None:
                seal(store, writer.mark)
        analyze(store, Settings(), now_us=NOW + 86_400_000_000)
        mirror(store)
        land(writer, 9, UNSEALED)
        writer.close()


@pytest.fixture(scope="module", params=["beside", "none"])
def told(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Told:
    """A store with a lake beside it, and one without, from which the name was erased."""
    folder = tmp_path_factory.mktemp("site")
    lake = "" if request.param == "beside" else "none"
    config = CollectorConfig(store=folder / "s.duckdb", lake=lake, gather_seconds=0)
    built(config)
    kept = DiskCache(Layout(config.store).pages, lambda: "one")
    kept.open()
    kept.put(f"of {NAME}", PageRecord(1, "a page", 0))
    before, on_disk = everything(config), files_with_the_name(folder)
    with registry_of(config, config.store) as registry:
        erased = erase(config, registry, WHO, "cli:mira")
        (entry,) = registry.audit.since(0)
    return Told(config, folder, before, everything(config), on_disk, erased, entry)


def files_with_the_name(folder: Path) -> list[str]:
    """Return the files that hold its bytes; the other run is called zephyrines."""
    found = re.compile(NAME.encode() + rb"(?!s)")
    return [path.name for path in folder.rglob("*") if path.is_file() and found.search(path.read_bytes())]


def test_the_name_is_gone_and_all_else_is_as_it_was(told: Told) -> None:
    """Every place that spoke of the person speaks of the pseudonym; other names and words that contain it stay."""
    assert [place for place, text in told.before if word(NAME).search(text)], "or this test shows nothing"
    assert [one for one in told.after if word(NAME).search(one[1])] == []
    # What was not sealed has come into the lake meanwhile, so there is more; nothing that was there is missing.
    expected = {(place, word(NAME).sub(WHO.pseudonym, text)) for place, text in told.before}
    assert expected - set(told.after) == set()
    assert {text for place, text in told.after if place.endswith(".user")} == {WHO.pseudonym, OTHER}
    names = {text for place, text in told.after if place.endswith("allocations.name")}
    assert names == {f"{WHO.pseudonym}-{WHO.pseudonym} train", f"{NAME}s"}
    assert told.erased.row_count > 3 * sum(SEALED.values())


def test_what_had_arrived_and_was_not_sealed_is_not_forgotten(told: Told) -> None:
    """It is sealed first: in the body of a batch nothing can be replaced."""
    with open_store(told.config) as store, store.session() as session:
        (runs,) = session.row("SELECT count(DISTINCT run_id) FROM allocations WHERE user = ?", [WHO.pseudonym])
    assert runs == sum(SEALED.values()) + UNSEALED


def test_no_byte_of_it_is_left_on_the_disk(told: Told) -> None:
    """Neither in the clear, nor in what compression hides: every Parquet file that is left is opened and read."""
    assert told.names_on_disk_before, "or this test shows nothing"
    assert files_with_the_name(told.folder) == []
    for path in told.folder.rglob("*.parquet"):
        columns = pq.read_table(path).columns
        texts = [text for column in columns if str(column.type) == "string" for text in column.to_pylist()]
        assert not [text for text in texts if text and word(NAME).search(text)], path
    assert not list(told.folder.glob("*.rewriting*"))
    assert not list(told.folder.glob("*.pages")), "pages are kept compressed"


def test_the_audit_knows_it_by_its_hash_alone(told: Told) -> None:
    """Who knows the name can check that it was done; nobody can read it, nor whose pseudonym stands in the ledger."""
    assert (told.entry.actor, told.entry.action) == ("cli:mira", "erase user")
    assert NAME not in repr(told.entry)
    assert WHO.pseudonym not in repr(told.entry)
    _, salt, digest = told.entry.subject.split(":")
    hashed = {name: scrypt(name.encode(), salt=bytes.fromhex(salt), **_SCRYPT).hex() for name in (NAME, OTHER)}
    assert hashed[NAME] == digest != hashed[OTHER]
    assert re.fullmatch(r"\d+ rows, \d+ files", told.entry.detail)


def test_twice_is_no_harm_and_the_collector_goes_on(told: Told) -> None:
    """What was cut off is run again; and then more comes, and is sealed."""
    with registry_of(told.config, told.config.store) as registry:
        assert erase(told.config, registry, WHO, "test").row_count == 0
    with open_store(told.config) as store:
        writer = Writer(store, told.config)
        writer.start()
        land(writer, 10, 2)
        writer.close()
        if store.lake is not None:
            assert seal(store, Mark.of(store)).batches == 1
            with closing(sqlite3.connect(store.lake.file or "")) as catalogue:
                assert catalogue.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_a_store_in_use_is_left_alone(tmp_path: Path) -> None:
    """The sentence says whom to stop; nothing was done."""
    config = CollectorConfig(store=tmp_path / "s.duckdb", lake="none")
    open_store(config).close()
    code = f"import duckdb, time; c = duckdb.connect({str(config.store)!r}); print('held', flush=True); time.sleep(600)"
    holder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        holder.stdout.readline()
        with open_registry(None) as registry:
            with pytest.raises(StoreError, match=f"in use by process {holder.pid}"):
                erase(config, registry, WHO, "test")
            assert registry.audit.since(0) == []
    finally:
        holder.kill()
        holder.communicate()


@pytest.mark.parametrize("name", ["", "x", "a\nb", "x" * 201, "a\\Eb"])
def test_what_is_no_name_is_refused(name: str) -> None:
    """A slip must not replace half of the ledger."""
    with pytest.raises(ConfigError):
        Replacement(name, pseudonym())


def test_any_name_is_taken_as_it_is_written() -> None:
    """No sign of it is a pattern, and none ends a statement; and what only looks alike is left."""
    names = ["o'neil", "a.b", "(x)", "$1", "\\1", "müller", "a%b", '"q"', "DOMAIN\\mira", "mira@lab"]
    others = [name.replace(".", "x").replace("(", "").replace(")", "") + "0" for name in names]
    expected = {(user, f'{{"u": "{user}"}}') for user in (*names, *others)}
    with Store.open(None) as store, store.session() as session:
        for row in expected:
            session.execute("INSERT INTO allocations (batch, run_id, user, labels) VALUES (1, 'r', ?, ?)", row)
        for number, name in enumerate(names):
            assert _replaced(store, Replacement(name, f"erased-{number}x")) == {'"memory".main.allocations': 1}
            expected.remove((name, f'{{"u": "{name}"}}'))
            expected.add((f"erased-{number}x", f'{{"u": "erased-{number}x"}}'))
            assert set(session.rows("SELECT user, labels FROM allocations")) == expected, name


@pytest.mark.parametrize("column", ["account", "name", "user"])
def test_a_name_is_found_in_any_one_column(column: str) -> None:
    """The first of a table, one between others that have something, and the last."""
    with Store.open(None) as store, store.session() as session:
        values = {"account": "a", "member": None, "name": "m", "user": "u"}
        bearing = values | {column: NAME}
        for row in (values, bearing, dict.fromkeys(values, f"{NAME}s")):
            session.execute(
                "INSERT INTO allocations (batch, run_id, account, member, name, user) VALUES (1, 'r', ?, ?, ?, ?)",
                [row[name] for name in ("account", "member", "name", "user")],
            )
        assert _replaced(store, WHO) == {'"memory".main.allocations': 1}
        assert session.rows(f"SELECT count(*) FROM allocations WHERE {column} = ?", [WHO.pseudonym]) == [(1,)]


def test_every_column_that_may_bear_a_name_is_looked_at() -> None:
    """A column that is added to the contract as bearing names is erased from by that."""
    for table in TABLES.values():
        for column in table.columns:
            assert (column.name in COLUMNS) == (column.sensitivity != "none"), (table.name, column.name)
