"""Every page shows what its sheets, the API and the commands tell: after a start, each pass, each job, a restart."""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from analyzer.queries.generation import Generations
from analyzer.settings.settings import Settings
from collector.config import CollectorConfig
from collector.lake.retention import Keeping, drop
from collector.lake.tidying import forget_receipts
from collector.lake.tiers import roll_up
from collector.store.database import Store
from collector.store.schemas import make_tier_tables
from dashboards.server.app import ServerConfig, create_server
from tests.analyzer.interfaces.api_sites import settings
from tests.analyzer.ledger.amounts_site import END, NOW, POD, fill
from tests.analyzer.ledger.fleet import DAY, HOUR, MINUTE, MONDAY, Fleet
from tests.analyzer.small_site import small_site
from tests.dashboards.same_figures import Sources, never_opened, unlike_sheets, visit
from tests.dashboards.serving import served
from tests.dashboards.test_money import sheet

WEEK = "2025-W46"


@contextmanager
def running(store: Store, chosen: Settings | None = None) -> Iterator[tuple[httpx.Client, FastAPI]]:
    """Yield a server on the store, with what it keeps of pages."""
    assert store.path is not None
    collector = CollectorConfig(store=store.path, listen="127.0.0.1:0")
    app = create_server(ServerConfig(collector, chosen or Settings(), None, collects=False), store)
    with served(app) as client:
        yield client, app


@dataclass
class Site:
    """A store in a folder of its own, the fleet that it is of, and its settings."""

    folder: Path
    store: Store
    fleet: Fleet
    settings: Settings
    now: int = END + HOUR

    def passes(self, now: int | None = None) -> None:
        """Let the analysis make a pass, later than the one before."""
        self.now = now or self.now + 1
        self.fleet.analyze(now=self.now, settings=self.settings)

    @contextmanager
    def elsewhere(self) -> Iterator[tuple[httpx.Client, FastAPI]]:
        """Yield a server that has kept nothing, on a copy of the store."""
        with self.store.session() as session:
            session.execute("CHECKPOINT")
        copied = self.folder / "copied"
        shutil.rmtree(copied, ignore_errors=True)
        copied.mkdir()
        shutil.copy(self.folder / "store.duckdb", copied / "store.duckdb")
        with Store.open(copied / "store.duckdb") as copy, running(copy, self.settings) as other:
            yield other


@contextmanager
def site(folder: Path) -> Iterator[Site]:
    """Yield a site that has something of every table: losses, racks, a service, a run that says its work, an agent."""
    with Store.open(folder / "store.duckdb") as store:
        make_tier_tables(store)
        fleet, now = Fleet(store), time.time_ns() // 1000
        with fleet.together():
            small_site(fleet)
            fill(fleet)
            said = {"spool_bytes": 12_345, "dropped_batches": 1, "gaps": 2, "clock_offset_seconds": -0.25}
            seen = {"gpus_expected": 2, "gpus_seen": 1, "started_at": END - HOUR, "ended_at": END}
            fleet.add("agent_samples", [{"node": "n1", **said, **seen}])
            for number in range(2):  # of one name and size, so that the middle one is told
                at = END - HOUR + number * 20 * MINUTE
                ended = {"name": "twice", "exit_status": "completed"}
                fleet.hold(f"slurm/alpha/9{number}", "z0", ["z0g0"], at, at + 15 * MINUTE, **ended)
        with store.session() as session:
            heard = [1_000_000, "n1", "s", 1, "h", 0, now - 3 * DAY, 2, 1]
            session.execute("INSERT INTO receipts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", heard)
        budgets = folder / "budgets.toml"
        _budget(budgets, 200_000)
        chosen = replace(settings(folder), budgets=budgets, timezone="UTC")
        made = Site(folder, store, fleet, chosen)
        made.passes()
        yield made


def _budget(path: Path, usd: int) -> None:
    path.write_text(f'[[budget]]\nusd_per_month = {usd}\nfrom = 2020-01-01\nsource = "plan"\n')


def _late(site: Site) -> None:
    """A service answered more than was known."""
    late = {"node": "n3", "run_id": POD, "started_at": MONDAY, "ended_at": MONDAY + MINUTE, "requests": 7_000}
    site.fleet.add("service_samples", [late])
    site.passes()


def _racks(site: Site) -> None:
    """A host moves to another rack and group, which no hour of the ledger tells."""
    moved = {"rack": "r9", "node_group": "moved"}
    site.fleet.add("inventory", [{"node": "n1", "started_at": END, "ended_at": END + 1, **moved}])
    site.passes()


def _plans(site: Site) -> None:
    """Budgets and prices are edited while the server runs, and no pass follows."""
    _budget(site.folder / "budgets.toml", 3)
    prices = site.folder / "prices.toml"
    prices.write_text(prices.read_text().replace("2.6", "3.6"))


def _drop(store: Store, days: int) -> None:
    """Let samples, and then what they were rolled up into, be too old."""
    drop(store, Keeping(), MONDAY + days * DAY, lambda _: None)


def _ages(store: Store, days: int) -> None:
    """Roll up what is too old, and drop it."""
    roll_up(store, 1e9)
    _drop(store, days)


STEPS: dict[str, Callable[[Site], object]] = {
    "a first start": lambda site: None,
    "a pass": _late,
    "a pass that changes no hour": _racks,
    "an edit": _plans,
    "a pass that closes": lambda site: site.passes(NOW),
    "roll-up": lambda site: roll_up(site.store, 1e9),
    "samples expire": lambda site: _drop(site.store, 15),
    "receipts are forgotten": lambda site: forget_receipts(site.store, MONDAY),
    "a pass afterwards": lambda site: site.passes(),
    "tiers expire": lambda site: _drop(site.store, 500),
}


def differences(
    site: Site, client: httpx.Client, app: FastAPI, anew: dict[str, object], *, is_first: bool = False
) -> list[str]:
    """Return what a server shows otherwise than its sheets, the API, its commands, and a server that kept nothing.

    One that is asked for the first time has kept nothing itself. `anew` is what that other shows of the store as it is,
    and is put there if it is empty.
    """
    shown, found, zone = visit(client, app), [], site.settings.timezone
    assert never_opened(app, shown) == set()
    if not is_first:
        if not anew:
            with site.elsewhere() as (other, other_app):
                anew |= visit(other, other_app, [*shown.pages, *shown.texts]).shown
        for address, told in shown.shown.items():
            if told != anew[address]:
                found.append(f"{address} shows what was kept: {_first(told, anew[address])}")
    sources = Sources(client, app, zone)
    for address, page in shown.pages.items():
        found += [f"{address}: {one}" for one in unlike_sheets(page, shown.texts, zone)]
        found += [f"{address}: nobody tells {one}" for one in sources.untold(address, page, shown.texts)]
    return found


def _first(told: object, anew: object) -> str:
    pairs = zip(repr(told).split(","), repr(anew).split(","), strict=False)
    return next((f"{one} for {other}" for one, other in pairs if one != other), "less, or more")


CLOSED = ("a first start", "a pass that closes")
AGED = ("roll-up", "samples expire", "receipts are forgotten", "a pass afterwards", "tiers expire")


@pytest.mark.parametrize(
    "moments",
    [
        pytest.param([CLOSED, AGED], id="in-short"),
        pytest.param([(name,) for name in STEPS], id="step-by-step", marks=pytest.mark.soak),
    ],
)
def test_every_figure_is_told_alike_wherever_it_is_read(tmp_path: Path, moments: list[tuple[str, ...]]) -> None:
    """A page was kept by what the ledger's hours said; its sheet was read from samples that had expired meanwhile."""
    told: dict[str, list[str]] = {}
    with site(tmp_path) as one:
        with running(one.store, one.settings) as (client, app):
            for names in moments:
                anew: dict[str, object] = {}
                for name in names:
                    STEPS[name](one)
                told[", ".join(names)] = differences(one, client, app, anew, is_first=not told)
        with running(one.store, one.settings) as (client, app):  # of the store as the last step left it
            told["a restart"] = differences(one, client, app, anew)
    assert {moment: found for moment, found in told.items() if found} == {}


def test_a_page_of_before_the_first_booking_says_so_and_is_made_anew_after_it(tmp_path: Path) -> None:
    """An upgrade has no amounts until its first pass, which may change nothing else of the ledger."""
    with Store.open(tmp_path / "store.duckdb") as store:
        make_tier_tables(store)
        fleet = Fleet(store)
        fill(fleet)
        fleet.analyze(now=NOW)
        with store.session() as session:
            booked = session.rows("SELECT sum(requests)::BIGINT FROM served_amounts")
            for table in ("amount_hours", "served_amounts", "progress_amounts"):
                session.execute(f"DELETE FROM {table}")
        with running(store) as (client, _):
            page = client.get(f"/money?week={WEEK}").text
            assert "Not booked yet: requests and tokens of services, of 48 hours until Wed 12 Nov 00:00." in page
            fleet.analyze(now=NOW + HOUR)
            assert "Not booked yet" not in client.get(f"/money?week={WEEK}").text
            told = [(row["name"], row["unit"], row["units"]) for row in sheet(client, f"/money/units.csv?week={WEEK}")]
            assert ("chat", "requests", str(booked[0][0])) in told


def test_what_figures_are_read_from_is_what_their_state_is_named_by(tmp_path: Path) -> None:
    """Whatever of it changes makes pages, sheets' ETags and kept readings anew; nothing else does."""
    now, budgets, prices = [NOW], tmp_path / "budgets.toml", tmp_path / "prices.toml"
    _budget(budgets, 1)
    chosen = replace(settings(tmp_path), budgets=budgets)
    chosen = replace(chosen, guards=replace(chosen.guards, rejected_hours=1))
    with Store.open(None) as store, store.session() as session:
        make_tier_tables(store)
        fleet = Fleet(store)
        fill(fleet)
        fleet.analyze(now=NOW, settings=chosen)
        generations = Generations(chosen, lambda: now[0])

        def waits(microseconds: int) -> None:
            now[0] += microseconds

        def mutes() -> None:
            row = ["m", "f-aaaaa", now[0] + HOUR, "because", "who", now[0], None]
            session.execute("INSERT INTO finding_mutes VALUES (?, ?, ?, ?, ?, ?, ?)", row)

        def rejects() -> None:
            row = ["w", "r-aaaaa", "p", "rejected", "because", None, "who", now[0], None]
            session.execute("INSERT INTO recommendation_words VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)

        changes: dict[str, Callable[[], object]] = {
            "samples expire": lambda: _ages(store, 15),
            "a plan is edited": lambda: _budget(budgets, 2),
            "a price is edited": lambda: prices.write_text(prices.read_text().replace("2.6", "3.6")),
            "a finding is muted": mutes,
            "the mute ends": lambda: waits(2 * HOUR),
            "a recommendation is rejected": rejects,
            "the rejection ends": lambda: waits(2 * HOUR),
            "the day ends": lambda: waits(DAY),
        }
        for name, change in changes.items():
            before = generations.of(session)
            assert generations.of(session) == before, name
            change()
            assert generations.of(session) != before, name
        fleet.analyze(now=NOW + 1, settings=chosen)
        before = generations.of(session)
        fleet.analyze(now=NOW + 2, settings=chosen)
        assert generations.of(session) == before, "a pass that has nothing new to look at"
        fleet.add("inventory", [{"node": "n1", "started_at": END, "ended_at": END + 1, "rack": "r9"}])
        fleet.analyze(now=NOW + 3, settings=chosen)
        assert generations.of(session) != before, "a pass that has something new to look at"
