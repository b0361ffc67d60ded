"""A backup of a store that is being written: nothing that was answered is lost in it, and nothing counts twice."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from collector.backup.backup_maker import PARTIAL, Copy, backups, make_backup, new_backup
from collector.backup.manifest import NAME, Layout
from collector.backup.restoring import restore, verify
from collector.errors import BackupError, StoreError
from collector.store.database import Store
from collector.store.sqlite_child import copy_sqlite
from tests.operations.site import Site
from tests.waiting import PATIENCE_SECONDS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a store of three sealed batches and three that are not."""
    folder = tmp_path_factory.mktemp("written")
    with Site(folder / "store.duckdb") as made:
        made.take(range(1, 4))
        made.seal()
        made.take(range(4, 7))
    return folder


@pytest.fixture
def site(written: Path, tmp_path: Path) -> Iterator[Site]:
    """Yield a copy of it."""
    shutil.copytree(written, tmp_path, dirs_exist_ok=True)
    with Site(tmp_path / "store.duckdb") as made:
        yield made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where backups lie."""
    return tmp_path / "backups"


def restored(backup: Path, store: Path) -> Site:
    """Return the store of a backup, opened as a server would."""
    restore(backup, store)
    return Site(store)


def test_what_was_answered_before_it_is_in_it_once(site: Site, folder: Path, tmp_path: Path) -> None:
    """Sealed or not yet: both come back, and the whole of it is a store like any other."""
    made = make_backup(site.store, folder)
    assert verify(made.path).wrong == ()
    assert made.manifest.hot_rows["arrivals"] == 3
    with restored(made.path, tmp_path / "other" / "new.duckdb") as back:
        assert back.batches() == [1, 2, 3, 4, 5, 6]
        assert back.take([6, 7]) == [True, False]


def interrupted(site: Site, folder: Path, between: Callable[[], object], *, lake_first: bool = False) -> Path:
    """Make a backup between whose two halves something happens."""
    assert site.store.path is not None
    with new_backup(folder, time.time_ns() // 1000) as place:
        copy = Copy(site.store, Layout(site.store.path), place, None, lambda: False)
        first, second = (copy.lake, copy.hot_file) if lake_first else (copy.hot_file, copy.lake)
        first()
        between()
        second()
        copy.manifest(0).write(place)
    return backups(folder)[-1]


def test_what_is_sealed_between_the_halves_is_neither_lost_nor_doubled(
    site: Site, folder: Path, tmp_path: Path
) -> None:
    """It is in both copies: the marker of the lake makes the start forget it in the hot file."""
    backup = interrupted(site, folder, site.seal)
    with restored(backup, tmp_path / "new.duckdb") as back:
        assert back.batches() == [1, 2, 3, 4, 5, 6]


def test_what_came_between_the_halves_counts_once_when_it_is_sent_again(
    site: Site, folder: Path, tmp_path: Path
) -> None:
    """It is in the lake alone, and its agent was never told that it is safe in the store that was restored."""

    def more() -> None:
        site.take([7, 8])
        site.seal()

    backup = interrupted(site, folder, more)
    with restored(backup, tmp_path / "new.duckdb") as back:
        assert back.take([7, 8, 9]) == [True, True, False]
        assert back.batches() == [1, 2, 3, 4, 5, 6, 7, 8, 9]


def test_the_other_order_would_lose(site: Site, folder: Path, tmp_path: Path) -> None:
    """Why the hot file comes first: what is sealed between a lake's copy and a hot file's is in neither."""
    with pytest.raises(StoreError, match="older than what this store has sealed"):
        interrupted(site, folder, site.seal, lake_first=True)
    assert backups(folder) == []


def test_writers_go_on_meanwhile(tmp_path: Path, folder: Path) -> None:
    """Every backup taken beside a writer and a sealer has all that was answered before it began, each once."""
    answered, stop = [0], threading.Event()
    with Site(tmp_path / "store.duckdb") as site:

        def write() -> None:
            while not stop.is_set():
                site.take([answered[0] + 1])
                answered[0] += 1
                if answered[0] % 7 == 0:
                    site.seal()

        writer = threading.Thread(target=write)
        writer.start()
        made = []
        for _ in range(2):
            before = answered[0]
            made.append((before, make_backup(site.store, folder)))
        stop.set()
        writer.join(PATIENCE_SECONDS)
    for number, (before, backup) in enumerate(made):
        assert verify(backup.path).wrong == ()
        with restored(backup.path, tmp_path / f"{number}.duckdb") as back:
            found = back.batches()
            assert found == list(range(1, len(found) + 1))
            assert len(found) >= before


def test_a_store_without_a_lake_is_backed_up_too(tmp_path: Path, folder: Path) -> None:
    """Rows then lie in the one file."""
    with Site(tmp_path / "store.duckdb", lake=False) as site:
        site.take([1, 2])
        made = make_backup(site.store, folder)
    restore(made.path, tmp_path / "new.duckdb")
    with Store.open(tmp_path / "new.duckdb") as store, store.session() as session:
        assert session.row("SELECT count(*) FROM gpu_samples") == (4,)
    assert verify(made.path).wrong == ()


def test_a_second_backup_links_what_the_first_has(site: Site, folder: Path) -> None:
    """Parquet files never change, so that a backup a day costs a day's files and not the whole lake."""
    site.take(range(100, 360))  # more rows than stay in the catalogue
    site.seal()
    first = make_backup(site.store, folder)
    data = [file.path for file in first.manifest.files if file.path.endswith(".parquet")]
    assert data
    second = make_backup(site.store, folder)
    assert second.new_bytes < first.new_bytes
    for path in data:
        assert (first.path / path).stat().st_ino == (second.path / path).stat().st_ino
    assert verify(second.path).wrong == ()


def test_what_the_last_backup_has_lost_is_copied_anew(site: Site, folder: Path) -> None:
    """A backup that is damaged must not spoil those that follow."""
    site.take(range(100, 360))
    site.seal()
    first = make_backup(site.store, folder)
    data = next(file.path for file in first.manifest.files if file.path.endswith(".parquet"))
    os.truncate(first.path / data, 3)
    assert verify(make_backup(site.store, folder).path).wrong == ()
    (backups(folder)[-1] / NAME).write_text("{}")
    assert verify(make_backup(site.store, folder).path).wrong == ()


def test_a_backup_shares_nothing_with_the_store(site: Site, folder: Path) -> None:
    """A file that the store loses or spoils is whole in the backup."""
    site.take(range(100, 360))
    site.seal()
    made = make_backup(site.store, folder)
    assert site.store.lake is not None
    assert site.store.lake.folder is not None
    for path in site.store.lake.folder.rglob("*.parquet"):
        path.write_bytes(b"")
    assert verify(made.path).wrong == ()


def test_old_backups_are_let_go(site: Site, folder: Path) -> None:
    """What is made every night must not fill the disk."""
    made = [make_backup(site.store, folder, keep=2).path for _ in range(4)]
    assert backups(folder) == made[-2:]


def test_the_registry_comes_along(site: Site, folder: Path, tmp_path: Path) -> None:
    """Keys and the audit log belong to the site; without them every agent would have to join anew."""
    assert site.store.path is not None
    with closing(sqlite3.connect(Layout(site.store.path).registry)) as registry, registry:
        registry.execute("CREATE TABLE keys (name)")
        registry.execute("INSERT INTO keys VALUES ('n14')")
    made = make_backup(site.store, folder)
    restored(made.path, tmp_path / "new.duckdb").close()
    for copy in (Layout.within(made.path), Layout(tmp_path / "new.duckdb")):
        assert copy.registry.stat().st_mode & 0o777 == 0o600
    with closing(sqlite3.connect(Layout(tmp_path / "new.duckdb").registry)) as registry, registry:
        assert registry.execute("SELECT name FROM keys").fetchall() == [("n14",)]
    registry.close()


def test_rows_that_are_not_counted_again_are_noticed(site: Site, folder: Path) -> None:
    """Whole files can still be the wrong ones: the manifest says how many rows each table had."""
    made = make_backup(site.store, folder)
    said = json.loads((made.path / NAME).read_text())
    said["hot_rows"]["receipts"] += 1
    said["lake_rows"]["main.gpu_samples"] -= 1
    (made.path / NAME).write_text(json.dumps(said))
    assert verify(made.path).wrong == (
        "receipts in the hot file has 6 rows and had 7",
        "main.gpu_samples in the lake has 6 rows and had 5",
    )


def test_a_backup_can_be_read_where_it_lies(site: Site, folder: Path, tmp_path: Path) -> None:
    """It is laid out as a store, also after it was carried to another machine."""
    made = make_backup(site.store, folder)
    moved = tmp_path / "elsewhere" / "backup"
    shutil.copytree(made.path, moved)
    shutil.rmtree(folder)
    assert verify(moved).wrong == ()


def test_two_backups_at_once_are_refused(site: Site, folder: Path) -> None:
    """They would clear away each other's half."""
    with new_backup(folder, 1), pytest.raises(BackupError, match="another backup is being written"):
        make_backup(site.store, folder)


def test_a_catalogue_is_never_opened_by_a_second_library_of_this_process() -> None:
    """That would let go of DuckDB's locks on it; the copy is made by a program of its own."""
    assert "sqlite3" not in (ROOT / "collector" / "backup" / "backup_maker.py").read_text()
    text = (ROOT / "collector" / "store" / "sqlite_child.py").read_text()
    ours = text[text.index("def copy_sqlite(") : text.index("def _copy(")]  # the rest is the program's
    assert "sqlite3." not in ours
    assert "subprocess.run(" in ours


def test_what_sqlite_cannot_read_is_one_sentence(tmp_path: Path) -> None:
    """The program's traceback is not what an operator should read."""
    (tmp_path / "broken").write_bytes(b"no database" * 1000)
    with pytest.raises(StoreError, match="file is not a database"):
        copy_sqlite(tmp_path / "broken", tmp_path / "copy")


KILLED = """
import os, sys, threading, time
from pathlib import Path
from collector.backup.backup_maker import make_backup
from tests.operations.site import Site
site = Site(Path(sys.argv[1]))
print("open", flush=True)
sys.stdin.readline()
threading.Timer(float(sys.argv[3]), os._exit, [9]).start()
while True:
    make_backup(site.store, Path(sys.argv[2]), keep=100)
"""


@pytest.mark.parametrize("delay", [0.3, *(pytest.param(delay, marks=pytest.mark.soak) for delay in (0.05, 0.6, 0.9))])
def test_a_backup_that_is_killed_leaves_the_old_ones_whole(tmp_path: Path, folder: Path, delay: float) -> None:
    """Whatever it was doing; the next one clears away what it left, and the store is as it was."""
    with Site(tmp_path / "store.duckdb") as site:
        site.take(range(1, 4))
        site.seal()
        old = make_backup(site.store, folder).path
    command = [sys.executable, "-c", KILLED, str(tmp_path / "store.duckdb"), str(folder), str(delay)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        process.communicate("go\n", timeout=PATIENCE_SECONDS)
    assert process.returncode == 9
    assert old in backups(folder)
    assert all(verify(path).wrong == () for path in backups(folder))
    with Site(tmp_path / "store.duckdb") as site:
        assert site.batches() == [1, 2, 3]
        newest = make_backup(site.store, folder, keep=100).path
        assert list(folder.glob(f"{PARTIAL}*")) == []
        assert verify(newest).wrong == ()


def test_a_restore_that_is_killed_leaves_no_store(site: Site, folder: Path, tmp_path: Path) -> None:
    """Half of a store must not look like one: the hot file gets its name last."""
    made = make_backup(site.store, folder)
    target = tmp_path / "new" / "store.duckdb"
    program = (
        "import os, sys; from pathlib import Path; import collector.backup.restoring as r; "
        "r.Path.rename = lambda *_: os._exit(9); r.restore(Path(sys.argv[1]), Path(sys.argv[2]))"
    )
    command = [sys.executable, "-c", program, str(made.path), str(target)]
    assert subprocess.run(command, cwd=ROOT, timeout=PATIENCE_SECONDS).returncode == 9
    assert not target.exists()
    with restored(made.path, target) as back:
        assert back.batches() == [1, 2, 3, 4, 5, 6]
