"""Amounts are booked by hour as samples say, once, close with the ledger, and say what an upgrade found to be gone."""

import re
from collections.abc import Sequence

import pytest

from analyzer.finops.unit_cost.report import unit_report
from analyzer.interfaces.questions.registry import QUESTIONS
from analyzer.period import Calendar
from analyzer.queries.statements import ROOMS
from collector.lake.retention import Keeping, drop
from collector.lake.tiers import roll_up
from collector.store.schemas import make_tier_tables
from tests.analyzer.ledger.amounts_site import END, FIGURES, NOW, POD, SERVE, fill, readings, site
from tests.analyzer.ledger.fleet import DAY, HOUR, MINUTE, MONDAY, Fleet

NUMBERS = sum(range(1, 49))  # each hour of the site tells its number's worth
TABLES = (
    "served_amounts",
    "latency_amounts",
    "progress_amounts",
    "energy_amounts",
    "traffic_amounts",
)


def booked(fleet: Fleet) -> dict[str, list[tuple[object, ...]]]:
    """Return all that is booked, in order."""
    with fleet.store.session() as session:
        return {table: session.rows(f"SELECT * FROM {table} ORDER BY ALL") for table in TABLES}


def total(fleet: Fleet, what: str, table: str) -> object:
    """Return a sum."""
    with fleet.store.session() as session:
        return session.row(f"SELECT sum({what})::BIGINT FROM {table}")[0]


def late(fleet: Fleet) -> None:
    """Let a host tell of an interval that nobody had heard of, under the service's other name."""
    row = {"node": "n3", "run_id": POD, "started_at": MONDAY + HOUR, "ended_at": MONDAY + HOUR + MINUTE, "requests": 5}
    fleet.add("service_samples", [row])


def test_amounts_are_what_samples_say() -> None:
    """Counted by hand: every hour tells its own number, and none is told twice or by another's name."""
    fleet = site()
    assert total(fleet, "requests", "served_amounts") == 11 * NUMBERS
    assert total(fleet, "steps", "progress_amounts") == 2 * NUMBERS
    assert total(fleet, "millijoules", "energy_amounts") == 3 * 6 * 1_000_500 * NUMBERS
    with fleet.store.session() as session:
        assert session.rows("SELECT DISTINCT run_id FROM served_amounts") == [(SERVE,)]
        kept = session.row("SELECT sum(kept_us), sum(promised_us) FROM served_amounts")
        assert kept == (20 * HOUR, 48 * HOUR)  # the first twenty hours answered within 20 ms


def test_a_pass_that_is_cut_into_many_books_the_same() -> None:
    """Amounts must not depend on when their samples arrived, nor on how often a pass was made."""
    whole, cut = site(), Fleet()
    make_tier_tables(cut.store)
    fill(cut)
    for now in (MONDAY + DAY, MONDAY + 2 * DAY, NOW):
        cut.analyze(now=now)
    late(whole)
    late(cut)
    assert booked(whole) == booked(cut)


# The suite asks what rests on amounts; of all readings `make soak` does.
@pytest.mark.parametrize("whats", [FIGURES, pytest.param(tuple(QUESTIONS), marks=pytest.mark.soak)], ids=len)
def test_what_an_open_hour_learns_is_booked_and_what_a_closed_one_learns_is_a_correction(whats: Sequence[str]) -> None:
    """Closed is closed: the hour keeps its figure, and the difference stands beside it with its day."""
    fleet = Fleet()
    make_tier_tables(fleet.store)
    fill(fleet)
    fleet.analyze(now=END + HOUR)
    late(fleet)
    fleet.analyze(now=END + HOUR)
    assert total(fleet, "requests", "served_amounts") == 11 * NUMBERS + 5
    fleet.analyze(now=NOW)
    before = readings(fleet.store, whats)
    for _ in range(2):
        late(fleet)
        fleet.analyze(now=NOW)
    assert total(fleet, "requests", "served_amounts") == 11 * NUMBERS + 5
    with fleet.store.session() as session:
        found = session.rows(
            "SELECT recorded_at, hour, subject, unit, sum(amount)::BIGINT FROM amount_corrections GROUP BY ALL"
        )
    assert found == [(NOW, MONDAY + HOUR, SERVE, "requests", 10)]
    assert {what for what, text in readings(fleet.store, whats).items() if text != before[what]} == set()
    calendar = Calendar("UTC")
    with fleet.store.session() as session:
        learned = unit_report(session, calendar.week_of(NOW), calendar, "USD").corrections
    assert [one.words("UTC") for one in learned] == [
        "Learned of closed hours (Mon 10 Nov 01:00): +10 requests of chat. What is closed keeps its figures."
    ]


def test_an_upgrade_books_what_is_there_and_says_what_is_gone() -> None:
    """Sums come from the tier of hours; what no tier has is in no figure, nor is what it cost, and it is told."""
    fleet = site()
    links = total(fleet, "receive_bytes", "traffic_amounts WHERE kind = 'link'")
    roll_up(fleet.store, 1e9)
    with fleet.store.session() as session:
        units = session.row("SELECT sum(millijoules) FROM energy_amounts")
    drop(fleet.store, Keeping(tables={"progress": 14}), MONDAY + 15 * DAY, lambda _: None)
    with fleet.store.session() as session:
        for table in (*TABLES, "amount_hours"):
            session.execute(f"DELETE FROM {table}")
    fleet.analyze(now=NOW)
    with fleet.store.session() as session:
        told = session.rows("SELECT DISTINCT served, latency, progress, energy, traffic FROM amount_hours ORDER BY ALL")
        # Of the first hour that has samples a part of the bytes lies in one that is gone.
        assert told == [
            ("samples",) * 5,
            ("samples", "samples", "samples", "samples", "tiers"),
            ("tiers", None, None, "tiers", "tiers"),
        ]
        assert session.row("SELECT sum(millijoules) FROM energy_amounts") == units
    assert total(fleet, "receive_bytes", "traffic_amounts WHERE kind = 'link'") == links
    text = readings(fleet.store, ("units",))["units text"]
    assert "Not kept: what runs say of their work, of 24 hours until Tue 11 Nov 00:00." in " ".join(text.split())


def test_nothing_expires_whose_amounts_nobody_has_booked() -> None:
    """After an upgrade the upkeep may come before the first pass: the samples are all that tells of them."""
    fleet = site()
    roll_up(fleet.store, 1e9)
    with fleet.store.session() as session:
        session.execute("DELETE FROM amount_hours")
    drop(fleet.store, Keeping(), MONDAY + 20 * DAY, lambda _: None)
    assert "Not booked yet: traffic, of 48 hours" in " ".join(
        readings(fleet.store, ("traffic",))["traffic text"].split()
    )
    assert total(fleet, "requests", "service_samples") == 11 * NUMBERS
    assert total(fleet, "steps", "progress") == 2 * NUMBERS


def test_no_reading_asks_what_services_and_runs_said_but_the_booking_and_the_ledger() -> None:
    """A reading that sums samples changes when they expire: whoever adds one here has a reason that is no amount."""
    asks = re.compile(r"\b(FROM|JOIN) (service_samples|progress|flow_samples|network_samples)\b")
    found = {
        str(path.relative_to(ROOMS)).replace("/sql/", "/")
        for path in ROOMS.rglob("*.sql")
        if asks.search(path.read_text())
    } - {f"ledger/amounts/{name}.sql" for name in ("due", "served", "progress")}
    assert found == {
        "ledger/lost_from.sql",  # the ledger's own, as all that is not in a folder
        "ledger/load_signs.sql",
        "ledger/sighted.sql",
        "ledger/touched.sql",
        "ledger/windows.sql",
        "ledger/serving/silences.sql",
        "ledger/serving/windows.sql",
        "findings/health/hours/port.sql",  # observations, which say when samples have expired
        "findings/health/unread.sql",  # as above, and none of an amount
    }
