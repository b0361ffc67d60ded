"""A lake that was damaged: it is named, kept out of backups, set aside, and the rest of the site goes on."""

import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

import gpuledger
from analyzer.interfaces.doctor.examination import looked_at
from analyzer.interfaces.doctor.invariants import examine
from analyzer.interfaces.doctor.sight import Sight, read_beside
from analyzer.settings.settings import Settings
from collector.access.erasure import Replacement, erase
from collector.backup.backup_maker import backups, make_backup
from collector.backup.restoring import restore, verify
from collector.cli.lake import aside, check
from collector.config import CollectorConfig
from collector.errors import BackupError, StoreError
from collector.http.health import LakeFiles
from collector.lake.compaction import compact
from collector.lake.damage import FOLDER, glanced, set_aside
from collector.lake.damage import check as look_through
from collector.lake.tidying import check_files
from collector.registry import open_registry
from collector.store.books import mirror
from collector.store.database import Store
from collector.store.lake import LakeSettings, default_lake
from collector.store.noted import NOTES, lost, named_files
from tests.analyzer.ledger.fleet import DAY, HOUR, MONDAY, Fleet
from tests.operations.site import Site

NOW = MONDAY + DAY
NEVER = float("inf")


def flip_ten_bits(file: Path) -> None:
    """Turn ten bits spread over a file."""
    content = bytearray(file.read_bytes())
    for number in range(1, 11):
        content[number * len(content) // 12] ^= 1 << (number % 8)
    file.write_bytes(content)


def flip_one_bit(file: Path) -> None:
    """Turn one bit in the middle of a file."""
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 4
    file.write_bytes(content)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "a bit": flip_one_bit,
    "ten bits": flip_ten_bits,
    "a truncation": lambda file: os.truncate(file, file.stat().st_size // 2),
    "a missing file": lambda file: file.unlink(),
}
each_damage = pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
# That each is found is asked of all; what is done then is the same whether a file's bytes are other ones or fewer.
damage_once_found = pytest.mark.parametrize(
    "damage",
    [
        pytest.param(damage, id=name, marks=[] if name in ("ten bits", "a missing file") else pytest.mark.soak)
        for name, damage in DAMAGES.items()
    ],
)


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose lake has files; who damages it takes a copy."""
    store = tmp_path_factory.mktemp("sealed") / "store.duckdb"
    with Site(store) as site:
        for batches in (range(360), range(360, 720)):  # more rows of each than stay in the catalogue
            site.take(batches)
            site.seal()
    return store


@pytest.fixture
def path(sealed: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    shutil.copytree(sealed.parent, tmp_path / "here")
    return tmp_path / "here" / sealed.name


def samples_of(path: Path) -> Path:
    """Return the older file of the lake that has samples of GPUs."""
    return min((path.parent / f"{path.name}.lake" / "data").rglob("gpu_samples/*.parquet"))


def doctor(store: Store, path: Path) -> list[str]:
    """Return what the doctor calls bad."""
    with store.session() as session:
        sight = Sight(store, session, Settings(), CollectorConfig(store=path), time.time_ns() // 1000)
        return bad_lines(sight)


def bad_lines(sight: Sight) -> list[str]:
    """Return what somebody must mend."""
    return [line.what for section in looked_at(sight) for line in section.lines if line.answer == "bad"]


def test_a_whole_lake_is_said_to_be(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Else the damages below could be anything; and every file was noted when it was sealed."""
    with Store.open(path) as store:
        with store.session() as session:
            assert [file.name for file in named_files(session) if file.sha256 is None] == []
        assert look_through(store, NEVER, NOW) == (0, [])
        assert check_files(store, NEVER, NOW).said == "every file of the lake is intact"
        assert LakeFiles(store)().ok
        assert not [what for what in doctor(store, path) if "lake" in what]
        assert verify(make_backup(store, tmp_path / "backups").path).is_whole
    assert check(["--store", str(path)]) == 0
    assert aside(["--all", "--store", str(path)]) == 0
    assert "nothing was set aside" in capsys.readouterr().out


@each_damage
def test_damage_is_named_wherever_it_is_asked(
    path: Path, tmp_path: Path, damage: Callable[[Path], object], capsys: pytest.CaptureFixture[str]
) -> None:
    """One pass of the upkeep finds it; from then on readiness and the doctor say so, and no backup is made of it."""
    file = samples_of(path)
    damage(file)
    assert check(["--store", str(path)]) == 1
    assert file.name in capsys.readouterr().out
    with Site(path) as site:
        with pytest.raises(StoreError, match=file.name):
            check_files(site.store, NEVER, NOW)
        assert not LakeFiles(site.store)().ok
        assert [what for what in doctor(site.store, path) if file.name in what]
        with pytest.raises(BackupError, match=file.name):
            make_backup(site.store, tmp_path / "backups")
    assert backups(tmp_path / "backups") == []


@damage_once_found
def test_what_is_set_aside_leaves_the_rest(path: Path, tmp_path: Path, damage: Callable[[Path], object]) -> None:
    """Other files are read, what comes is sealed, a backup is whole, and the file is kept for who may mend it."""
    file = samples_of(path)
    damage(file)
    there = file.exists()
    assert aside(["--all", "--store", str(path)]) == 0
    with Site(path) as site:
        assert site.rows() == 360 * 2
        site.take([720])
        assert site.rows() == 361 * 2
        assert glanced(site.store) == []
        with site.store.session() as session:
            assert [(rows.table, rows.rows) for rows in lost(session)] == [("gpu_samples", 720)]
        assert verify(make_backup(site.store, tmp_path / "backups").path).is_whole
    assert (path.parent / f"{path.name}.lake" / FOLDER / file.name).exists() == there


def test_only_what_is_damaged_can_be_set_aside(path: Path) -> None:
    """A slip of the name must not take measured hours out of the books."""
    file = samples_of(path)
    with pytest.raises(StoreError, match="none is"):
        aside([file.name, "--store", str(path)])
    assert file.exists()


def test_a_file_damaged_in_an_earlier_backup_is_copied_anew(path: Path, tmp_path: Path) -> None:
    """What the last backup has is linked: its damage must not be handed on as long as the lake has it whole."""
    with Store.open(path) as store:
        first = make_backup(store, tmp_path / "backups")
        copied = next(first.path.rglob("gpu_samples/*.parquet"))
        flip_one_bit(copied)
        assert verify(make_backup(store, tmp_path / "backups").path).is_whole


def test_a_backup_of_a_damaged_file_is_not_called_whole(path: Path, tmp_path: Path) -> None:
    """An earlier release copied what it found: the hash of the copy is then right, and nobody can read it."""
    with Store.open(path) as store:
        made = make_backup(store, tmp_path / "backups")
    catalogue = next(made.path.rglob("catalogue.sqlite"))
    with closing(sqlite3.connect(catalogue)) as connection, connection:
        connection.execute(f"DROP TABLE {NOTES}")
    connection.close()
    flip_ten_bits(next(made.path.rglob("gpu_samples/*.parquet")))
    said = made.manifest
    files = tuple(
        type(file)(file.path, (made.path / file.path).stat().st_size, _sha(made.path / file.path))
        for file in said.files
    )
    type(said)(**{name: getattr(said, name) for name in said.__slots__} | {"files": files}).write(made.path)
    assert [sentence for sentence in verify(made.path).wrong if "gpu_samples" in sentence]


def _sha(path: Path) -> str:
    from collector.backup.manifest import sha256

    return sha256(path)


def test_a_compaction_does_not_make_damage_right(path: Path) -> None:
    """Rows of a turned bit, written anew, would have the hash of a file that is whole."""
    file = samples_of(path)
    with Store.open(path) as store:
        flip_one_bit(file)
        with pytest.raises(StoreError, match=file.name):
            compact(store, NEVER, time.time_ns() // 1000 + 30 * DAY)


def test_a_lake_that_was_not_mounted_is_not_begun_anew(path: Path) -> None:
    """An empty folder where it was would be told as "nothing was ever measured", and sealed into."""
    folder = path.parent / f"{path.name}.lake"
    folder.rename(path.parent / "elsewhere")
    for lake, read_only in ((default_lake(path), False), (None, False), (None, True)):
        with pytest.raises(StoreError, match=r"no lake at .*mount the disk"):
            Store.open(path, lake=lake, read_only=read_only)
        assert not folder.exists()
    (path.parent / "elsewhere").rename(folder)
    with Site(path) as site:
        assert site.rows() == 1440


def test_data_that_were_not_mounted_are_missed(path: Path) -> None:
    """The catalogue may lie elsewhere than the files: what is sealed meanwhile would vanish under the mount."""
    data = path.parent / f"{path.name}.lake" / "data"
    shutil.rmtree(data)
    data.mkdir()
    with pytest.raises(StoreError, match="mount the disk"):
        Store.open(path)
    with pytest.raises(StoreError, match="none is in"):
        Store.open(path, read_only=True)


@pytest.fixture
def mounted(tmp_path: Path) -> tuple[Path, LakeSettings]:
    """A store, and a lake whose data is on a disk of its own, with few rows: all of them lie in the catalogue yet."""
    lake = LakeSettings(default_lake(tmp_path / "store.duckdb").catalogue, str(tmp_path / "disk" / "data"))
    with Site(tmp_path / "store.duckdb", settings=lake) as site:
        site.take(range(10))
        site.seal()
    return tmp_path / "store.duckdb", lake


def test_a_disk_that_is_mounted_late_is_not_replaced(mounted: tuple[Path, LakeSettings]) -> None:
    """Nor by the data of another lake. An empty folder was made in its place, and what was sealed there was hidden."""
    path, lake = mounted
    disk = path.parent / "disk"
    disk.rename(path.parent / "unmounted")
    for there in ([], ["data"], ["data/gpuledger-lake-0"]):
        for name in there:
            (disk / name).mkdir(parents=True)
        before = sorted(disk.rglob("*"))
        with pytest.raises(StoreError, match="is not the folder of this store's lake"):
            Store.open(path, lake=lake)
        words = ["serve", "--store", str(path), "--data", lake.data, "--listen", "127.0.0.1:0"]
        assert gpuledger.main(words) == 3
        assert sorted(disk.rglob("*")) == before
        shutil.rmtree(disk, ignore_errors=True)
    (path.parent / "unmounted").rename(disk)
    with Site(path, settings=lake) as site:
        assert site.rows() == 20


def test_a_disk_that_goes_while_a_server_runs_is_not_sealed_into(mounted: tuple[Path, LakeSettings]) -> None:
    """It says so, keeps what comes, and goes on by itself when the disk is back."""
    path, lake = mounted
    disk = path.parent / "disk"
    with Site(path, settings=lake) as site:
        health = LakeFiles(site.store)
        assert health().ok
        disk.rename(path.parent / "unmounted")
        Path(lake.data).mkdir(parents=True)
        site.take(range(10, 700))
        with pytest.raises(StoreError, match="is not the folder of this store's lake"):
            site.seal()
        assert (health().refuses, "is its disk mounted" in health().sentence) == (True, True)
        assert list(Path(lake.data).iterdir()) == []
        shutil.rmtree(disk)
        (path.parent / "unmounted").rename(disk)
        assert health().ok
        assert site.rows() == 1400
        assert not site.take(range(700, 701))[0]


def test_a_restored_store_takes_its_own_folder(mounted: tuple[Path, LakeSettings], tmp_path: Path) -> None:
    """The sign is of the folder that was lost with the disk."""
    path, lake = mounted
    with Store.open(path, lake=lake, read_only=True) as store:
        make_backup(store, tmp_path / "backups")
    (backup,) = backups(tmp_path / "backups")
    assert verify(backup).is_whole
    restore(backup, tmp_path / "new" / "store.duckdb")
    with Site(tmp_path / "new" / "store.duckdb") as site:
        assert site.rows() == 20
        assert list((tmp_path / "new" / "store.duckdb.lake" / "data").glob("gpuledger-lake-*"))


def test_a_lake_that_is_given_up_is_begun_anew(path: Path) -> None:
    """What agents still hold of it they may send: it was answered "repeated", and was nowhere."""
    shutil.rmtree(path.parent / f"{path.name}.lake")
    with pytest.raises(StoreError, match="mount the disk"):
        Store.open(path, lake=default_lake(path))
    assert aside(["--all", "--store", str(path)]) == 0
    with Site(path) as site:
        assert site.rows() == 0
        with site.store.session() as session:
            assert {rows.name for rows in lost(session)} == {"batches of collector 0"}
        assert site.take(range(700, 721)) == [False] * 21
        assert site.rows() == 42


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """Two hosts with a GPU each that works for a run, the samples of each in a file of the lake."""
    path = tmp_path / "store.duckdb"
    with Store.open(path, lake=default_lake(path), memory_limit="500MB") as store:
        made = Fleet(store)
        for node in ("a", "b"):
            made.own(node, [f"{node}0"])
            made.sample(node, f"{node}0", MONDAY, MONDAY + 12 * HOUR)
            made.hold(f"slurm/alpha/{node}", node, [f"{node}0"], MONDAY, MONDAY + 12 * HOUR)
        yield made


def of_host(fleet: Fleet, node: str) -> dict[tuple[str, str | None], int]:
    """Return the minutes of a host in the ledger by state and cause."""
    with fleet.store.session() as session:
        rows = session.rows(
            "SELECT state, cause, sum(milliseconds)::BIGINT // 60000 FROM ledger WHERE node = ? GROUP BY ALL", [node]
        )
    return {(state, cause): minutes for state, cause, minutes in rows}


def said_of_a_pass(fleet: Fleet) -> str:
    """Return what a pass of the analyzer says, or the upkeep's after it where the damage did not reach what it read."""
    try:
        fleet.analyze()
    except StoreError as error:
        return str(error)
    return " ".join(map(str, look_through(fleet.store, NEVER, NOW)[1]))


@damage_once_found
def test_a_damaged_file_is_named_by_the_pass_and_its_hours_are_not_measured(
    fleet: Fleet, damage: Callable[[Path], object]
) -> None:
    """Ten bits in one file failed every analysis of the site, and nobody said which file it was."""
    path = fleet.store.path
    assert path is not None
    with fleet.store.session() as session:
        ordered = sorted((file for file in named_files(session) if file.table == "gpu_samples"), key=lambda f: f.begun)
    look_through(fleet.store, NEVER, NOW)
    file = path.parent / f"{path.name}.lake" / "data" / ordered[0].path
    damage(file)
    assert file.name in said_of_a_pass(fleet)
    set_aside(fleet.store, look_through(fleet.store, NEVER, NOW)[1])
    with fleet.store.session() as session:
        session.execute("DELETE FROM ledger_hours")  # as if nothing had been booked before
    fleet.analyze()
    assert of_host(fleet, "a") == {("unobserved", "records_lost"): 720}
    assert of_host(fleet, "b") == {("productive", "compute"): 720}
    with fleet.store.session() as session:
        assert [check.name for check in examine(session, Settings()) if not check.is_right] == []


def test_what_held_a_gpu_is_not_nobody_where_that_was_lost(fleet: Fleet) -> None:
    """With the allocations of a day gone, every GPU of it would be "free"."""
    with fleet.store.turn, fleet.store.session() as session:
        session.rows("CALL ducklake_flush_inlined_data('lake', table_name => 'allocations', schema_name => 'main')")
        gone = [file for file in named_files(session) if file.table == "allocations"]
    folder = Path(default_lake(fleet.store.path).data) if fleet.store.path is not None else Path()
    for file in gone:
        (folder / file.path).unlink()
    set_aside(fleet.store, glanced(fleet.store))
    fleet.analyze()
    assert set(of_host(fleet, "a")) == {("unobserved", "records_lost")}


def test_books_that_were_lost_in_the_lake_are_mirrored_again(fleet: Fleet) -> None:
    """The hot file has them still: readers elsewhere must not hear of a ledger with holes."""
    fleet.analyze()
    mirror(fleet.store)
    with fleet.store.turn, fleet.store.session() as session:
        session.rows("CALL ducklake_flush_inlined_data('lake', table_name => 'ledger', schema_name => 'books')")
        before = session.row("SELECT count(*), sum(milliseconds) FROM lake.books.ledger")
        gone = [file for file in named_files(session) if file.table == "ledger"]
    folder = Path(default_lake(fleet.store.path).data) if fleet.store.path is not None else Path()
    for file in gone:
        (folder / file.path).unlink()
    set_aside(fleet.store, glanced(fleet.store))
    mirror(fleet.store)
    with fleet.store.session() as session:
        assert session.row("SELECT count(*), sum(milliseconds) FROM lake.books.ledger") == before


def test_a_damaged_registry_is_named(path: Path) -> None:
    """Who may do what is in it: "not reached from here" sounds as if it were well elsewhere."""
    registry = path.with_name(f"{path.name}.registry.sqlite")
    with open_registry(registry):
        pass
    garble(registry)
    keys, sends, trouble = read_beside(CollectorConfig(store=path))
    assert (keys, sends) == (None, None)
    with Store.open(path, read_only=True) as store, store.session() as session:
        sight = Sight(store, session, Settings(), CollectorConfig(store=path), NOW, registry_error=trouble)
        assert [what for what in bad_lines(sight) if registry.name in what]


def garble(file: Path) -> None:
    """Overwrite most of a file but its first bytes."""
    content = bytearray(file.read_bytes())
    content[200:] = bytes(len(content) - 200)
    file.write_bytes(content)


@pytest.mark.parametrize("damage", [garble, DAMAGES["a truncation"]], ids=["overwritten", "cut"])
def test_a_damaged_catalogue_is_named(path: Path, tmp_path: Path, damage: Callable[[Path], object]) -> None:
    """The words of a library about a disk image tell nobody which file to put back."""
    catalogue = path.parent / f"{path.name}.lake" / "catalogue.sqlite"
    with closing(sqlite3.connect(catalogue)) as connection, connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    damage(catalogue)
    with pytest.raises(StoreError, match=r"catalogue\.sqlite.*gpuledger admin restore"):
        Store.open(path)


def test_what_was_set_aside_goes_with_a_name_that_is_erased(path: Path) -> None:
    """Nobody can replace a name in a file that cannot be read: it would stay on the disk for good."""
    file = samples_of(path)
    flip_ten_bits(file)
    assert aside(["--all", "--store", str(path)]) == 0
    with open_registry(None) as registry:
        erase(CollectorConfig(store=path), registry, Replacement("somebody", "user-1234"), "me")
    assert not (path.parent / f"{path.name}.lake" / FOLDER).exists()


@pytest.mark.parametrize("part", range(1, 8))
def test_a_page_of_the_catalogue_that_was_lost_is_named(path: Path, part: int) -> None:
    """SQLite opens a file of which a page in the middle is gone, and answers with less than there was."""
    catalogue = path.parent / f"{path.name}.lake" / "catalogue.sqlite"
    with closing(sqlite3.connect(catalogue)) as connection, connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (page,) = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    content = bytearray(catalogue.read_bytes())
    at = part * (len(content) // page) // 8 * page
    content[at : at + page] = b"\x0d" + bytes(page - 1)  # a leaf without rows
    catalogue.write_bytes(content)
    with pytest.raises(StoreError, match="catalogue"):
        check(["--store", str(path)])


@damage_once_found
def test_what_a_backup_still_has_is_put_back(
    path: Path, damage: Callable[[Path], object], capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing may be lost that is elsewhere: files never change, and a whole copy of one is that file."""
    file = samples_of(path)
    before = file.read_bytes()
    with Store.open(path) as store:
        whole = make_backup(store, path.with_name(f"{path.name}.backups"))
        newest = make_backup(store, path.with_name(f"{path.name}.backups"))
    copy = newest.path / file.relative_to(path.parent)
    copy.unlink()  # it shares its bytes with the older one
    copy.write_bytes(b"rubbish")
    damage(file)
    assert aside(["--all", "--store", str(path)]) == 0
    assert f"restored from a backup: {file.name}" in capsys.readouterr().out
    assert file.read_bytes() == before
    assert check(["--store", str(path)]) == 0
    assert whole.path.is_dir()


def test_a_store_of_an_earlier_release_misses_its_lake_too(path: Path) -> None:
    """It has written down nowhere what it sealed: batches that came, and are neither here nor there, say so."""
    with Store.open(path) as store, store.hot_session() as session:
        session.execute("DROP TABLE sealed_here")
    shutil.rmtree(path.parent / f"{path.name}.lake")
    with pytest.raises(StoreError, match="mount the disk"):
        Store.open(path, lake=default_lake(path))
