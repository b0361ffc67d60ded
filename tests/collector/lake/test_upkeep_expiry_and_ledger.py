"""When samples of a closed hour expire, no figure of it changes: not in the ledger, not in a report, not on any day."""

import json
from collections.abc import Iterator

import pytest

from analyzer.analysis import analyze
from analyzer.interfaces.doctor.invariants import examine
from analyzer.ledger.thresholds import Thresholds
from analyzer.settings.settings import Settings
from collector.lake.retention import Keeping, drop
from collector.lake.tiers import roll_up
from collector.store.schemas import make_tier_tables
from tests.analyzer.ledger.copies import made_once
from tests.analyzer.ledger.fleet import DAY, HOUR, MINUTE, MONDAY, Fleet

NOW = MONDAY + 30 * DAY  # everything is closed
RUN, SERVICE = "slurm/alpha/1", "kubernetes/prod/chat"
BOOKS = ("ledger", "adjustments", "ledger_hours", "runs", "run_windows", "run_activity", "run_gpus", "checkpoints")


@made_once
def _judged() -> Fleet:
    made = Fleet()
    make_tier_tables(made.store)
    made.hold(RUN, "n1", ["G1"], MONDAY, MONDAY + 2 * DAY, name="train", exit_status="completed")
    made.hold(SERVICE, "n1", ["G2"], MONDAY, MONDAY + 3 * DAY, name="x")
    for gpu in ("G1", "G2"):
        made.sample("n1", gpu, MONDAY, MONDAY + 30 * HOUR, every=10 * MINUTE)
        made.sample("n1", gpu, MONDAY + 30 * HOUR, MONDAY + 3 * DAY, every=10 * MINUTE, utilization_ratio=0.0)
    replies = [{"node": "n1", "run_id": SERVICE, "started_at": MONDAY, "ended_at": MONDAY + MINUTE, "requests": 1}]
    made.add("service_samples", replies)
    made.analyze(now=NOW)
    return made


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    """Yield three days of a fleet that nobody declared, judged and closed: a run that idles at last, and a service."""
    made = _judged()
    with made.store:
        yield made


def _books(fleet: Fleet) -> dict[str, list[tuple[object, ...]]]:
    """Return everything that reports are made of, without which pass wrote it."""
    with fleet.store.session() as session:
        books = {table: session.rows(f"SELECT * FROM {table} ORDER BY ALL") for table in BOOKS}
        books["ledger_hours"] = session.rows("SELECT hour, status, rules_version FROM ledger_hours ORDER BY ALL")
    return books


def _expire(fleet: Fleet, days: int = 2) -> None:
    """Let the first days go, as the upkeep does."""
    roll_up(fleet.store, 1e9)
    drop(fleet.store, Keeping(raw_days=14), MONDAY + (14 + days) * DAY, lambda _: None)
    with fleet.store.session() as session:
        assert session.row("SELECT min(started_at) FROM gpu_samples") == (MONDAY + days * DAY,)


def test_expiry_changes_no_book(fleet: Fleet) -> None:
    """The pass after the samples are gone would otherwise take back what it can no longer see."""
    before = _books(fleet)
    _expire(fleet)
    fleet.analyze(now=NOW)
    assert _books(fleet) == before


def test_what_is_learned_later_leaves_expired_days_alone(fleet: Fleet) -> None:
    """An exit status that comes late touches days without samples: made anew they would read "not measured"."""
    before = _books(fleet)["ledger"]
    _expire(fleet)
    fleet.hold(RUN, "n1", ["G1"], MONDAY, MONDAY + 2 * DAY, name="train", exit_status="failed")
    fleet.sample("n1", "G1", MONDAY + HOUR, MONDAY + 2 * HOUR)  # and a spool that was away for a month
    fleet.analyze(now=NOW)
    assert _books(fleet)["ledger"] == before
    assert _books(fleet)["adjustments"] == []


def test_without_the_marker_it_would_be_rewritten(fleet: Fleet) -> None:
    """What the marker is for: this test would fail if the ledger did not ask it."""
    before = _books(fleet)
    _expire(fleet)
    with fleet.store.session() as session:
        session.execute("DELETE FROM retention")
    fleet.hold(RUN, "n1", ["G1"], MONDAY, MONDAY + 2 * DAY, name="train", exit_status="failed")
    fleet.analyze(now=NOW)
    assert _books(fleet) != before


def test_new_rules_judge_what_still_has_samples(fleet: Fleet) -> None:
    """The last hours are judged anew; those before keep their figures and the version that made them."""
    before = _books(fleet)
    _expire(fleet, days=1)
    limits = Thresholds(quiet_ms=20 * 60_000)
    analyze(fleet.store, Settings(), now_us=NOW, limits=limits)
    with fleet.store.session() as session:
        anew = session.rows(
            f"SELECT (hour - {MONDAY}) // {HOUR} FROM ledger_hours WHERE rules_version = ? ORDER BY hour",
            [limits.version],
        )
    # The first day is gone; the first hour of the second is read with the last of the first, which is gone too.
    assert anew == [(hour,) for hour in range(25, 72)]
    assert _books(fleet)["ledger"] == before["ledger"]


def test_doctor_finds_nothing_off(fleet: Fleet) -> None:
    """Who owns what was only known from samples: from when to when outlives them."""
    _expire(fleet)
    fleet.analyze(now=NOW)
    with fleet.store.session() as session:
        checks = examine(session, Settings())
    assert [check.name for check in checks if not check.is_right] == []
    assert next(check for check in checks if check.name == "conservation").checked == 2 * 72


def test_a_service_stays_one(fleet: Fleet) -> None:
    """Only its samples said that it served; its idle time would turn into waste, in the days that are judged anew."""
    _expire(fleet, days=1)
    fleet.sample("n1", "G2", MONDAY + 3 * DAY, MONDAY + 3 * DAY + HOUR, utilization_ratio=0.0)
    fleet.analyze(now=NOW)
    with fleet.store.session() as session:
        assert session.row("SELECT stage FROM runs WHERE run_id = ?", [SERVICE]) == ("serving",)
        (verdict,) = session.row(
            "SELECT verdict FROM run_windows WHERE run_id = ? ORDER BY window_start DESC LIMIT 1", [SERVICE]
        )
    assert json.loads(verdict)["is_service"]
