"""The doctor: a store that is right is right by every check, and each check notices what is its own to notice."""

from collections.abc import Iterator
from typing import Any

import pytest

from analyzer.interfaces.doctor.invariants import Check, as_json, examine
from analyzer.settings.settings import Settings
from collector.errors import StoreError
from collector.store.session import Session
from tests.analyzer.ledger.fleet import DAY, HOUR, MINUTE, MONDAY, Fleet, priced

T = MONDAY
RUN = "slurm/alpha/1"
IDLE: dict[str, Any] = {"utilization_ratio": 0.0, "utilization_zero_ratio": 1.0, "sm_active_ratio": 0.0}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Fleet, Settings]]:
    """Four hours of two GPUs: one fails after it was abandoned for an hour, one is free."""
    prices = priced(tmp_path_factory.mktemp("prices"), H100_80GB=2.60)
    fleet = Fleet()
    fleet.own("n1", ["G1", "G2"])
    fleet.hold(RUN, "n1", ["G1"], T, T + 3 * HOUR, exit_status="failed")
    fleet.sample("n1", "G1", T, T + 2 * HOUR, every=5 * MINUTE)
    fleet.sample("n1", "G1", T + 2 * HOUR, T + 4 * HOUR, every=5 * MINUTE, **IDLE)
    fleet.sample("n1", "G2", T, T + 4 * HOUR, every=5 * MINUTE, **IDLE)
    fleet.write("n1", T, T + 4 * HOUR)
    fleet.analyze(settings=prices)
    yield fleet, prices
    fleet.store.close()


@pytest.fixture
def session(made: tuple[Fleet, Settings]) -> Iterator[Session]:
    """A transaction of the store that is taken back after the test."""
    with made[0].store.session() as opened:
        opened.execute("BEGIN")
        yield opened
        opened.execute("ROLLBACK")


def wrong(session: Session, settings: Settings) -> dict[str, int]:
    """Return by how much each check is off, of those that are."""
    return {check.name: check.off for check in examine(session, settings) if not check.is_right}


def test_a_ledger_that_was_made_is_right(session: Session, made: tuple[Fleet, Settings]) -> None:
    """Every check held something to its invariant, so that "right" is not "nothing seen"."""
    checks = {check.name: check for check in examine(session, made[1])}
    assert all(check.is_right for check in checks.values())
    unchecked = {name for name, check in checks.items() if check.checked == 0}
    assert unchecked == {"adjustments"}
    assert as_json(list(checks.values()))["right"] is True


ROW = "gpu_uuid = 'G1' AND hour = (SELECT min(hour) FROM ledger)"
CORRUPTIONS = {
    "a millisecond too many": (f"UPDATE ledger SET milliseconds = milliseconds + 1 WHERE {ROW}", {"conservation": 1}),
    "an hour that is gone": (f"DELETE FROM ledger WHERE {ROW}", {"conservation": 3_600_000}),
    "time of a GPU that nobody owns": (
        f"INSERT INTO ledger SELECT * REPLACE ('G9' AS gpu_uuid, NULL AS price_version) FROM ledger WHERE {ROW}",
        {"conservation": 3_600_000},
    ),
    "a millionth too many": (f"UPDATE ledger SET cost_micros = cost_micros + 1 WHERE {ROW}", {"money": 1}),
    "a cost that is gone": (f"UPDATE ledger SET cost_micros = NULL WHERE {ROW}", {"money": 2_600_000}),
    "a negative cost": (f"UPDATE ledger SET cost_micros = -1 WHERE {ROW}", {"rows": 1}),
    "an empty row": (f"INSERT INTO ledger SELECT * REPLACE (0 AS milliseconds) FROM ledger WHERE {ROW}", {"rows": 1}),
    "a state of no name": (f"UPDATE ledger SET cause = 'boredom' WHERE {ROW}", {"words": 1}),
    "idleness that is lost": (f"UPDATE ledger SET would_be = 'held_idle' WHERE {ROW}", {"lost work": 1}),
    "an adjustment of one side": (
        "INSERT INTO adjustments BY NAME SELECT * EXCLUDE (price_version) REPLACE (7 AS milliseconds), "
        f"1 AS recorded_at, 'test' AS reason FROM ledger WHERE {ROW}",
        {"conservation": 7, "adjustments": 7},
    ),
}


@pytest.mark.parametrize(("sql", "expected"), CORRUPTIONS.values(), ids=CORRUPTIONS)
def test_each_check_notices_what_is_its_own(
    session: Session, made: tuple[Fleet, Settings], sql: str, expected: dict[str, int]
) -> None:
    """A check that cannot fail checks nothing: one row is corrupted, and that is said, to the unit."""
    session.execute(sql)
    seen = wrong(session, made[1])
    assert {name: seen.get(name) for name in expected} == expected


def test_a_loss_that_no_finding_names_is_noticed(session: Session, made: tuple[Fleet, Settings]) -> None:
    """Findings are read by hours: an hour that is not on the list of hours would be lost to people."""
    session.execute("UPDATE ledger SET hour = hour + 86400000000 WHERE state = 'held_idle'")
    assert "findings" in wrong(session, made[1])


def test_a_batch_cannot_count_twice(session: Session) -> None:
    """The store itself refuses the second receipt; the doctor holds imported stores to the same."""
    with pytest.raises(StoreError, match="Duplicate key"):
        session.execute("INSERT INTO receipts SELECT * REPLACE (batch + 1000 AS batch) FROM receipts LIMIT 1")


def test_an_hour_that_may_still_change_is_left_out(made: tuple[Fleet, Settings], session: Session) -> None:
    """Its agents have not all reported: it is no fault that time is missing."""
    session.execute("UPDATE ledger_hours SET status = 'provisional'")
    session.execute(f"DELETE FROM ledger WHERE {ROW}")
    assert "conservation" not in wrong(session, made[1])


def test_a_correction_of_what_is_owned_is_right() -> None:
    """A GPU turns out to have left in the middle of a closed hour: the time is taken back by an adjustment."""
    fleet = Fleet()
    fleet.own("n1", ["G1", "G2"])
    for gpu in ("G1", "G2"):
        fleet.sample("n1", gpu, T, T + 4 * HOUR, every=5 * MINUTE, **IDLE)
    fleet.analyze(now=T + 30 * DAY)
    fleet.own("n1", ["G2"], owned_until=T + HOUR // 2)
    assert fleet.analyze(now=T + 30 * DAY).adjustments > 0
    with fleet.store.session() as opened:
        assert wrong(opened, Settings()) == {}
    fleet.store.close()


def test_a_check_says_what_it_is_off_by() -> None:
    """0 is right, and every number has its unit."""
    assert Check("rows", "no row is empty", 10, 0, "rows").is_right
    assert not Check("rows", "no row is empty", 10, 1, "rows").is_right
