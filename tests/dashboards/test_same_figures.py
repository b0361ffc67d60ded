"""A page shows what its CSV and the command show: after a start, after each pass, after each job of the upkeep."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from analyzer.api.generation import Generations
from analyzer.config import Settings
from analyzer.reading import Reader
from analyzer.request import Request
from analyzer.unit_cost.figures import short
from collector.config import CollectorConfig
from collector.store.database import Store
from collector.tiers import schema
from collector.upkeep.retention import Keeping, drop
from collector.upkeep.rolling import roll_up
from dashboards.app import ServerConfig, create_server
from tests.amounts.site import END, NOW, POD, fill
from tests.dashboards.serving import served
from tests.dashboards.test_money import cells, sheet
from tests.ledger.fleet import DAY, HOUR, MINUTE, MONDAY, Fleet

WEEK = "2025-W46"


@contextmanager
def running(store: Store) -> Iterator[httpx.Client]:
    """Yield a server on the store, with what it keeps of pages."""
    assert store.path is not None
    config = ServerConfig(CollectorConfig(store=store.path, listen="127.0.0.1:0"), Settings(), None, collects=False)
    with served(create_server(config, store)) as client:
        yield client


def figures(client: httpx.Client, store: Store) -> list[tuple[str, ...]]:
    """Return the work and energy that all tell alike: the page of money, its CSV, and the command."""
    page = cells(client.get(f"/money?week={WEEK}").text, "units")[1:]
    told = sheet(client, f"/money/units.csv?week={WEEK}")
    with store.session() as session:
        report = json.loads(Reader(session, Settings()).answer(Request("units", since=WEEK, format="json")))["report"]
    assert [(row[0], row[2]) for row in page] == [(row["name"], short(int(row["units"]))) for row in told]
    assert [(row["name"], int(row["units"])) for row in told] == [
        (one["name"], one["units"]) for one in report["units"]
    ]
    costs = cells(client.get(f"/money?week={WEEK}").text, "costs")[1:]
    whole = sum(int(row["milliseconds"]) for row in sheet(client, f"/money/costs.csv?week={WEEK}"))
    assert costs[-1][2].replace(",", "") == f"{whole / 3_600_000:.1f}"
    return [(row["name"], row["unit"], row["units"]) for row in told]


def test_page_csv_and_command_agree_while_a_store_grows_old(tmp_path: Path) -> None:
    """The page was kept by what the ledger's hours said; its CSV was read from samples that had expired meanwhile."""
    with Store.open(tmp_path / "store.duckdb") as store:
        schema.make_tables(store)
        fleet = Fleet(store)
        fill(fleet)
        fleet.analyze(now=END + HOUR)
        with running(store) as client:
            first = figures(client, store)
            late = {"node": "n3", "run_id": POD, "started_at": MONDAY, "ended_at": MONDAY + MINUTE, "requests": 7_000}
            fleet.add("service_samples", [late])
            fleet.analyze(now=END + HOUR)
            now = figures(client, store)
            assert first != now
            fleet.analyze(now=NOW)
            for work in _upkeep(store, fleet):
                work()
                assert figures(client, store) == now
        with running(store) as client:
            assert figures(client, store) == now


def _upkeep(store: Store, fleet: Fleet) -> list[Callable[[], object]]:
    return [
        lambda: roll_up(store, 1e9),
        lambda: drop(store, Keeping(), MONDAY + 15 * DAY, lambda _: None),
        lambda: fleet.analyze(now=NOW),
        lambda: drop(store, Keeping(), MONDAY + 500 * DAY, lambda _: None),
        lambda: fleet.analyze(now=NOW),
    ]


def test_a_page_of_before_the_first_booking_says_so_and_is_made_anew_after_it(tmp_path: Path) -> None:
    """An upgrade has no amounts until its first pass, which may change nothing else of the ledger."""
    with Store.open(tmp_path / "store.duckdb") as store:
        schema.make_tables(store)
        fleet = Fleet(store)
        fill(fleet)
        fleet.analyze(now=NOW)
        with store.session() as session:
            booked = session.rows("SELECT sum(requests)::BIGINT FROM served_amounts")
            for table in ("amount_hours", "served_amounts", "progress_amounts"):
                session.execute(f"DELETE FROM {table}")
        with running(store) as client:
            page = client.get(f"/money?week={WEEK}").text
            assert "Not booked yet: requests and tokens of services, of 48 hours until Wed 12 Nov 00:00." in page
            fleet.analyze(now=NOW + HOUR)
            assert "Not booked yet" not in client.get(f"/money?week={WEEK}").text
            assert ("chat", "requests", str(booked[0][0])) in figures(client, store)


def test_what_has_expired_is_a_state_of_its_own(tmp_path: Path) -> None:
    """Observations are counted from what is kept: a page and a sheet of before and after are of two states."""
    with Store.open(tmp_path / "store.duckdb") as store:
        schema.make_tables(store)
        fleet = Fleet(store)
        fill(fleet)
        fleet.analyze(now=NOW)
        roll_up(store, 1e9)
        generations = Generations(Settings())
        with store.session() as session:
            before = generations.of(session)
            assert generations.of(session) == before
        drop(store, Keeping(), MONDAY + 15 * DAY, lambda _: None)
        with store.session() as session:
            assert generations.of(session) != before
