"""Every command reads and writes the lake of its server, wherever that lies; or it refuses, and says what to name."""

import argparse
import contextlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from analyzer.interfaces.cli.command import opened
from analyzer.settings.settings import site_of
from collector.backup.backup_maker import backups
from collector.backup.manifest import Layout, point
from collector.store.books import mirror
from collector.store.database import Store, lake_of, open_store
from dashboards.server.app import ServerConfig, create_server
from tests.analyzer.ledger.fleet import MONDAY, Fleet, priced
from tests.analyzer.small_site import small_site
from tests.dashboards.serving import served
from tests.fleet.s3 import KEY_ID, REGION, SECRET
from tests.operations.commands import OUT, said

LATER = MONDAY + 86_400_000_000
WEEK = "2025-W46"
# What has no --server, and what has: the arguments of each, without those that name the site.
LOCAL = (
    ["bill", "csv", "--since", WEEK, "--out", OUT],
    ["bill", "focus", "--since", WEEK, "--out", OUT],
    ["bill", "teams", "check"],
)
BOTH = (
    ["report", WEEK, "--json"],
    ["report", "traffic", "--since", WEEK, "--json"],
    ["runs", "--since", WEEK, "--json"],
    ["findings", "--since", WEEK, "--json"],
    ["recommendations", "--since", WEEK, "--json"],
    ["recommendations", "savings", "--json"],
    ["bill", "prices", "check", "--json"],
    ["bill", "charges", WEEK, "--json"],
    ["bill", "costs", WEEK, "--json"],
    ["capacity", "demand", "--json"],
)
# Those whose answers take least: of a fleet's site, where each reading asks PostgreSQL and S3, and beside a server. How
# a command finds its lake is one thing for all; a folder is read by each, and each refuses to guess at either.
QUICK = ("traffic", "runs", "prices", "costs", "demand", "csv", "teams")


@dataclass(frozen=True)
class Place:
    """A site on disk: its store, and settings that lie beside nothing."""

    store: Path
    settings: Path

    def named(self) -> list[str]:
        """Return the arguments that name its settings."""
        return ["--config", str(self.settings)]


AGES = [f"{name}_days = 4000" for name in ("raw", "minute", "hour", "receipt")]


def set_up(folder: Path, lines: list[str]) -> Place:
    """Write the settings of a site in a folder of its own: `lines` say where its lake is."""
    place = Place(folder / "hot" / "store.duckdb", folder / "site.toml")
    place.store.parent.mkdir(parents=True)
    prices = priced(folder, H100_80GB=2.6).prices
    assert prices is not None
    head = ["[collector]", f'store = "{place.store}"', 'listen = "127.0.0.1:0"', *AGES, *lines]
    place.settings.write_text("\n".join([*head, "[analyzer]", f'prices = "{prices}"', ""]))
    return place


def filled(place: Place, kind: str) -> Place:
    """Fill a site with a ledger of the small site, as after a sealing into a lake whose catalogue is of this kind."""
    config, settings = site_of(None, place.settings)
    with open_store(config) as store:
        fleet = small_site(Fleet(store))
        fleet.analyze(now=LATER, settings=settings)
        mirror(store, "the test")
        with store.hot_session() as session:
            session.execute("INSERT INTO sealed_here VALUES (0, 1, ?)", [kind])
        with store.session() as session, session.transaction():
            session.execute("INSERT INTO lake.main.markers VALUES (0, 1, 1)")
    return place


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A site with its lake beside the store."""
    return filled(set_up(tmp_path_factory.mktemp("site") / "beside", []), "sqlite")


def moved(beside: Place, folder: Path) -> Place:
    """Return a copy of that site, whose lake's data are in a folder elsewhere."""
    place = set_up(folder, [f'data = "{folder}/elsewhere/data"'])
    shutil.copytree(beside.store.parent, place.store.parent, dirs_exist_ok=True)
    lake = Layout(place.store)
    data = folder / "elsewhere" / "data"
    data.parent.mkdir()
    lake.data.rename(data)
    point(lake.catalogue, data)
    return place


@pytest.fixture(scope="module", params=["folder", "fleet"])
def place(request: pytest.FixtureRequest, beside: Place, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A site whose lake is not beside its store."""
    folder = tmp_path_factory.mktemp("site") / request.param
    if request.param == "folder":
        return moved(beside, folder)
    s3 = request.getfixturevalue("s3")
    lines = [
        f'lake = "postgres:{request.getfixturevalue("postgres").database()}"',
        f'data = "{s3.prefix()}"',
        f's3_endpoint = "{s3.endpoint}"',
        f's3_region = "{REGION}"',
        f's3_key_id = "{KEY_ID}"',
        f's3_secret = "{SECRET}"',
        'direct_url = "http://127.0.0.1:1"',
    ]
    return filled(set_up(folder, lines), "postgres")


# With one thread as in this process (tests/conftest.py): over so few rows a second one spins.
_EACH = """
import json, sys
from collector.store import database
from tests.operations.commands import said
database.THREADS = 1
print(json.dumps([said(words) for words in json.loads(sys.stdin.read())]))
"""


def said_elsewhere(all_words: list[list[str]]) -> list[tuple[int, str, str]]:
    """Return what commands say in a process of their own, as beside a server."""
    done = subprocess.run(
        [sys.executable, "-c", _EACH],
        input=json.dumps(all_words),
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        check=True,
    )
    return [(code, out, err) for code, out, err in json.loads(done.stdout.splitlines()[-1])]


@contextlib.contextmanager
def running(place: Place) -> Iterator[str]:
    """Serve a site, and yield its address."""
    config, settings = site_of(None, place.settings)
    with (
        open_store(config) as store,
        served(create_server(ServerConfig(config, settings, analyze_seconds=None), store)) as client,
    ):
        yield str(client.base_url).rstrip("/")


def quick(all_words: Iterable[list[str]]) -> list[list[str]]:
    """Return those commands whose answers take least."""
    return [words for words in all_words if {*QUICK} & {*words}]


@pytest.mark.parametrize("all_beside", [False, pytest.param(True, marks=pytest.mark.soak)], ids=["quick", "all"])
def test_reading_commands_say_what_the_server_says_running_and_stopped(
    place: Place, beside: Place, all_beside: bool
) -> None:
    """They took a lake beside the store, wherever the settings had it: a report said 0.0 h where the server said 5."""
    is_fleet = "fleet" in str(place.settings)
    both, local = (quick(all_of) if is_fleet else list(all_of) for all_of in (BOTH, LOCAL))
    named = [[*words, *place.named()] for words in (*both, *local)]
    meanwhile = named if all_beside else quick(named)
    with running(place) as url:
        all_said = said_elsewhere([*([*words, "--server", url] for words in both), *meanwhile])
    stopped = [said(words) for words in named]
    here = [said([*words, *beside.named()]) for words in local]
    for words, answer, after in zip(named, [*all_said[: len(both)], *here], stopped, strict=True):
        assert answer[:2] == after[:2], words
        assert len(answer[1]) > 100, words  # of what there is
    for words, beside_server in zip(meanwhile, all_said[len(both) :], strict=True):
        assert stopped[named.index(words)][:2] == beside_server[:2], words


def test_a_command_without_settings_refuses_a_store_whose_lake_is_elsewhere(place: Place) -> None:
    """A guess would read, and write, where nobody else does."""
    telemetry = place.store.parent / "gpu_samples.csv"
    telemetry.write_text("node,gpu_uuid,started_at,ended_at,up\nn,g,0,1,true\n")
    before = sorted(path for path in place.store.parent.rglob("*") if path.suffix != ".wal")
    for words in (
        *BOTH,
        *LOCAL,
        ["admin", "doctor"],
        ["admin", "analyze"],
        ["admin", "lake", "check"],
        ["admin", "backup", "--to", str(place.store.parent / "backups")],
        ["import", str(telemetry)],
        ["findings", "judge", "f-aaaaa", "wrong", "--because", "it is so"],
        ["capacity", "profile", "--team", "alpha", "--out", str(place.store.parent / "p.json")],
    ):
        code, out, err = said([*words, "--store", str(place.store)])
        assert (code, out, err.count("\n")) == (3, "", 1), (words, err)
        assert "--config FILE" in err, words
    assert sorted(path for path in place.store.parent.rglob("*") if path.suffix != ".wal") == before


def test_settings_beside_a_store_are_its_servers(
    beside: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They need no naming: not for a command, and not for the server."""
    place = moved(beside, tmp_path / "site")
    place.settings.rename(place.store.with_name("gpuledger.toml"))
    code, out, _ = said(["runs", "--since", WEEK, "--json", "--store", str(place.store)])
    assert (code, len(json.loads(out)["runs"]) > 5) == (0, True)
    monkeypatch.chdir(place.store.parent)
    assert said(["runs", "--since", WEEK, "--json"])[:2] == (0, out)


def test_imports_land_where_the_server_reads(beside: Place, tmp_path: Path) -> None:
    """2,000 rows lay in a file of the hot store's own, and nobody ever read them."""
    place = moved(beside, tmp_path / "site")
    telemetry = tmp_path / "gpu_samples.csv"
    rows = [f"new,g0,{LATER + at * 1_000_000},{LATER + (at + 1) * 1_000_000},true" for at in range(2000)]
    telemetry.write_text("\n".join(["node,gpu_uuid,started_at,ended_at,up", *rows]))
    assert said(["import", str(telemetry), *place.named()])[0] == 0
    config, _ = site_of(None, place.settings)
    with open_store(config) as store, store.session() as session:
        assert session.row("SELECT count(*) FROM lake.main.gpu_samples WHERE node = 'new'") == (2000,)


def test_a_command_reads_one_state_of_the_ledger(beside: Place, tmp_path: Path) -> None:
    """Its figures are of several statements, and a server seals meanwhile: they would not add up."""
    place = moved(beside, tmp_path / "site")
    options = argparse.Namespace(store=None, config=place.settings)
    config, _ = site_of(None, place.settings)
    count = "SELECT count(*) FROM lake.main.gpu_samples"
    with opened(options) as reader:
        (before,) = reader.session.row(count)
        with Store.open(tmp_path / "other.duckdb", lake=lake_of(config)) as other, other.session() as session:
            session.execute("INSERT INTO lake.main.gpu_samples SELECT * FROM lake.main.gpu_samples LIMIT 5")
        assert reader.session.row(count) == (before,)
    with opened(options) as reader:
        assert reader.session.row(count) == (before + 5,)


def test_a_backup_has_the_lake_or_says_what_it_lacks(place: Place, tmp_path: Path) -> None:
    """It was called whole without catalogue and Parquet."""
    code, out, _ = said(["admin", "backup", "--to", str(tmp_path / "backups"), *place.named()])
    assert code == 0
    assert said(["admin", "backup", "verify", str(tmp_path / "backups")])[0] == 0
    (backup,) = backups(tmp_path / "backups")
    if "fleet" in str(place.settings):
        assert "not in it: catalogue, registry, data;" in out
    else:
        assert (backup / "store.duckdb.lake" / "catalogue.sqlite").exists()
        assert list((backup / "store.duckdb.lake").rglob("*.parquet"))
        words = ["runs", "--since", WEEK, "--json"]
        lies, own = said([*words, "--store", str(backup / "store.duckdb")]), said([*words, *place.named()])
        ids = [[run["run_id"] for run in json.loads(out)["runs"]] for _, out, _ in (lies, own)]
        assert ids[0] == ids[1]
