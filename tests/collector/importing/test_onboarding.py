"""Screen 8 on two hours of a simulated site, from a real Prometheus and sacct's JSON, held to the truth."""

import argparse
import contextlib
import io
import itertools
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

import gpuledger
from agent.wire.units import HOUR_MS
from analyzer.interfaces.onboarding.onboard import ImportOptions, Prometheus, onboard
from analyzer.interfaces.onboarding.prices import given
from analyzer.interfaces.onboarding.runs import of_slurm
from analyzer.settings.settings import Settings
from analyzer.text.layout import TextLayout
from collector.importing.history import Span
from collector.prometheus.client import Client, Server
from collector.store.database import Store
from simulator.fleet import Fleet
from simulator.site import small_site
from tests.collector.importing import backfill, server
from tests.collector.importing.month import ledger_of, overlap, truth_of

SPAN = 2 * HOUR_MS
PRICES = ("h100=2.60", "a100=1.10")


@dataclass(frozen=True)
class Place:
    """A server that remembers the site, and what Slurm said of it."""

    url: str
    here: Path
    fleet: Fleet

    @property
    def span(self) -> Span:
        """The two hours, microseconds UTC."""
        start = self.fleet.site.started_at
        return Span(start, start + SPAN * 1000)

    @property
    def flags(self) -> list[str]:
        """The flags that name the span and Slurm's files."""
        edges = [datetime.fromtimestamp(at / 1e6, UTC).isoformat() for at in (self.span.since, self.span.until)]
        files = [word for name in ("jobs.json", "events.txt") for word in ("--file", str(self.here / name))]
        return ["--url", self.url, "--since", edges[0], "--until", edges[1], *files]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Return a real Prometheus with two hours of two hosts."""
    if absent := server.missing():
        pytest.skip(f"{', '.join(absent)} not installed; make services, or apt-get install prometheus")
    here, fleet = tmp_path_factory.mktemp("site"), Fleet(small_site(every_seconds=30))
    backfill.write_blocks([fleet], here, server.make_blocks)
    (here / "jobs.json").write_text(backfill.sacct([fleet]))
    (here / "events.txt").write_text(backfill.events([fleet]))
    with server.prometheus(here / "data") as url:
        yield Place(url, here, fleet)


def shown(place: Place, path: Path, layout: TextLayout) -> str:
    """Import into a store, and return the screen; the clock says that reading took 2 min 11 s."""
    options = _options(file=[place.here / "jobs.json", place.here / "events.txt"])
    said = io.StringIO()
    clock = itertools.count(0.0, 131.0)
    asked = ImportOptions(
        span=place.span,
        settings=Settings.beside(path),
        prices=given(PRICES),
        beside=path.parent,
        today=date(2026, 11, 22),
        layout=layout,
        say=lambda text: print(text, file=said),
        monotonic=lambda: next(clock),
    )
    with Client(Server(place.url)) as client, Store.open(path) as store:
        onboard(asked, Prometheus(client), of_slurm(options, place.span), store)
    return said.getvalue()


@dataclass(frozen=True)
class Brought:
    """A store into which the two hours were brought once, in a folder of its own, and the screen that this showed."""

    path: Path
    screen: str


@pytest.fixture(scope="module")
def brought(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Brought:
    """Return what is read by those who ask what an import leaves, and copied by those who import again."""
    path = tmp_path_factory.mktemp("brought") / "a.duckdb"
    return Brought(path, shown(place, path, TextLayout(80)))


def _options(**more: object) -> argparse.Namespace:
    return argparse.Namespace(slurm_cluster=None, cluster="mini", timezone="", config=None, **more)


def run(*words: str) -> tuple[int, str]:
    """Run the command as a script does; return its exit code and what it printed."""
    with contextlib.redirect_stdout(io.StringIO()) as said:
        code = gpuledger.main(["import", "prometheus", *words])
    return code, said.getvalue()


def test_the_screen_is_the_one_that_was_drawn(
    place: Place, brought: Brought, tmp_path: Path, golden: Callable[[str, str], None]
) -> None:
    """On a terminal with its bar, and in a pipe as ASCII of the same columns."""
    golden("import_prometheus.txt", brought.screen)
    golden("import_prometheus_ascii.txt", shown(place, tmp_path / "a.duckdb", TextLayout(80, ascii=True)))


def test_the_ledger_is_that_of_the_truth(place: Place, brought: Brought) -> None:
    """GPU-hours owned to the millisecond, held and idle within a scrape of every edge; nobody's only the sharers'."""
    path = brought.path
    true, booked = truth_of([place.fleet]), ledger_of(path)
    assert sum(booked.values()) == sum(true.values()) == 16 * SPAN
    shared = SPAN - 60 * 60_000  # two runs share a GPU; accounting cannot say which, so nobody has it
    free = true["unallocated"] + shared
    assert booked["unallocated"] == pytest.approx(free, abs=shared + 16 * 60_000)
    held, placed = overlap([place.fleet], path)
    assert placed / held > 0.999


def test_brought_twice_it_counts_once(place: Place, brought: Brought, tmp_path: Path) -> None:
    """Samples, allocations, ownership: the second run of the command finds all of it there."""
    path = shutil.copytree(brought.path.parent, tmp_path / "again") / brought.path.name
    before = _counts(path)
    assert shown(place, path, TextLayout(80)) == brought.screen
    assert _counts(path) == before


def _counts(path: Path) -> list[tuple[object, ...]]:
    tables = ("gpu_samples", "allocations", "run_aliases", "node_states", "ownership", "inventory", "ledger")
    with Store.open(path, read_only=True) as store, store.session() as session:
        return [session.row(f"SELECT '{table}', count(*) FROM {table}") for table in tables]


def test_nothing_of_a_history_is_closed_by_making_its_ledger(brought: Brought) -> None:
    """What comes later of the same weeks (another scheduler, a file) must change them, and not be a correction."""
    with Store.open(brought.path, read_only=True) as store, store.session() as session:
        assert session.row("SELECT count(*) FROM ledger_hours WHERE status IN ('closed', 'final')") == (0,)


def test_the_command_says_where_to_look_next(place: Place, tmp_path: Path) -> None:
    """Exit code 0, ASCII in a pipe, and the store that was named."""
    store = tmp_path / "store.duckdb"
    code, said = run(*place.flags, "--allocations", "slurm", "--price", "h100=2.60", "--store", str(store))
    assert code == 0
    assert said.isascii()
    assert "prices        1 of 2 GPU types; add --price a100-80gb=DOLLARS" in said
    assert said.splitlines()[-1] == (f"next: gpuledger report --store {store}      gpuledger findings --store {store}")


def test_a_dry_run_writes_nothing(place: Place, tmp_path: Path) -> None:
    """Not even a store, or a price book."""
    code, said = run(
        *place.flags,
        "--allocations",
        "slurm",
        *("--price", "h100=2"),
        "--store",
        str(tmp_path / "s.duckdb"),
        "--dry-run",
    )
    assert code == 0
    assert "about 3,840 samples are expected" in said
    assert list(tmp_path.iterdir()) == []


def test_without_runs_all_is_free_and_the_screen_says_so(place: Place, tmp_path: Path) -> None:
    """The exporter of this site names no pods and no jobs."""
    code, said = run(*place.flags[:6], "--store", str(tmp_path / "s.duckdb"))
    assert code == 0
    assert "allocations   labels of the exporter: none: every GPU counts as free" in said
    assert "  no    allocation, idle, lost work" in said
    assert "2 hours: 32 GPU-hours, of which about 0 GPU-hours avoidable" in said


def test_a_file_of_allocations_serves_as_well(place: Place, tmp_path: Path) -> None:
    """Any scheduler's export in the contract's columns."""
    start = place.span.since
    jobs = tmp_path / "jobs.csv"
    jobs.write_text(
        f"run_id,node,gpus,started_at,ended_at,exit_status\n1,s01,8,{start},{start + HOUR_MS * 1000},failed\n"
    )
    code, said = run(*place.flags[:6], "--allocations", str(jobs), "--cluster", "mini", "--store", str(tmp_path / "s"))
    assert code == 0
    assert "allocations   jobs.csv: 1 run, 0 accounts" in said


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--allocations", "slrum"), 2),
        (("--price", "h100"), 2),
        (("--since", "someday"), 2),
        (("--header", "nonsense"), 2),
        (("--url", "http://127.0.0.1:9"), 3),
        (("--since", "2020-01-01", "--until", "2020-01-02"), 3),
    ],
)
def test_what_is_wrong_has_its_exit_code(place: Place, tmp_path: Path, words: tuple[str, ...], code: int) -> None:
    """2 for wrong usage, 3 where the world failed; and no store is left behind by a mistake in the words."""
    assert run(*place.flags, *words, "--store", str(tmp_path / "s.duckdb"))[0] == code
