"""Whole days go, oldest first; nothing that is not judged goes by age, and nothing goes without being written down."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from collector.lake.compaction import compact
from collector.lake.lake_files import LakeFile, files, writing
from collector.lake.retention import Dropped, Keeping, cuts_for_bytes, drop, judged_until
from collector.lake.tiers import note_due, roll_up
from collector.store.database import Store
from collector.tier_tables import droppable, layouts
from tests.collector.lake.upkeep_sites import DAY, DAY_US, HOUR_US, SECOND, judge, one, rows, site, take

NOW = DAY + 20 * DAY_US
KEEPING = Keeping(raw_days=14, minute_days=90, hour_days=400)
LATER = 1e9  # a deadline that no test reaches


def _fill(store: Store, days: int, batch: int = 256) -> None:
    """Fill days with samples of ten minutes, and roll them up."""
    take(store, rows(DAY, days * 144, batch=batch, step=600 * SECOND), batch)
    roll_up(store, LATER)


@pytest.fixture(scope="module")
def ten_days(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a store of ten days, rolled up, without a lake."""
    folder = tmp_path_factory.mktemp("ten")
    with site(folder, lake=False) as store:
        _fill(store, 10)
    return folder


@pytest.fixture
def filled(ten_days: Path, tmp_path: Path) -> Iterator[Store]:
    """Yield a copy of it."""
    shutil.copytree(ten_days, tmp_path, dirs_exist_ok=True)
    with site(tmp_path, lake=False) as store:
        yield store


def _days(store: Store, table: str = "gpu_samples") -> list[int]:
    with store.session() as session:
        found = session.rows(f"SELECT DISTINCT (started_at - {DAY}) // {DAY_US} FROM {table} ORDER BY 1")
    return [day for (day,) in found]


def _drop(store: Store, keeping: Keeping = KEEPING, now: int = NOW) -> Dropped:
    told: list[Dropped] = []
    drop(store, keeping, now, told.append)
    return told[0]


def test_days_over_their_age_go_and_it_is_written_down(filled: Store) -> None:
    """Who asks later must know that there were samples, and not take their absence for silence."""
    _days_over_their_age_go(filled)


@pytest.mark.soak
def test_days_over_their_age_go_from_a_lake(tmp_path: Path) -> None:
    """By the same rule, from files."""
    with site(tmp_path) as store:
        _fill(store, 10)
        _days_over_their_age_go(store)


def _days_over_their_age_go(store: Store) -> None:
    judge(store, range(DAY, DAY + 10 * DAY_US, HOUR_US))
    dropped = _drop(store)
    assert _days(store) == [6, 7, 8, 9]
    assert dropped.rows == {"gpu_samples": 6 * 144 * 3}
    assert _days(store, "gpu_minutes") == _days(store, "gpu_hours") == list(range(10))
    kept = one(store, "SELECT kept_from, dropped_rows, reason FROM retention WHERE table_name = 'gpu_samples'")
    assert kept == (DAY + 6 * DAY_US, 6 * 144 * 3, "age")
    assert one(store, "SELECT count(*), min(first_at) FROM gpus_seen") == (3, DAY)
    assert _drop(store).rows == {}


def test_tiers_have_ages_of_their_own(tmp_path: Path) -> None:
    """Minutes outlive samples, hours outlive minutes, and the ledger all of them."""
    with site(tmp_path, lake=False) as store:
        _fill(store, 2)
        judge(store, range(DAY, DAY + 2 * DAY_US, HOUR_US))
        _drop(store, now=DAY + 91 * DAY_US)
        assert (_days(store), _days(store, "gpu_minutes"), _days(store, "gpu_hours")) == ([], [1], [0, 1])
        _drop(store, now=DAY + 402 * DAY_US)
        assert _days(store, "gpu_hours") == []
        assert one(store, "SELECT count(*) FROM ledger_hours") == (48,)


def test_one_table_may_differ(tmp_path: Path) -> None:
    """Flows are many and soon forgotten, a GPU's minutes may be wanted for a year."""
    with site(tmp_path, lake=False) as store:
        _fill(store, 3)
        judge(store, range(DAY, DAY + 3 * DAY_US, HOUR_US))
        _drop(store, replace(KEEPING, tables={"gpu_minutes": 1}), now=DAY + 3 * DAY_US)
        assert (_days(store), _days(store, "gpu_minutes")) == ([0, 1, 2], [2])


@pytest.mark.parametrize("status", [None, "provisional"])
def test_what_is_not_in_the_ledger_stays(filled: Store, status: str | None) -> None:
    """An analyzer that was down for weeks must find its input; how many days wait is told."""
    judge(filled, range(DAY, DAY + 2 * DAY_US, HOUR_US))
    if status is not None:
        judge(filled, range(DAY + 2 * DAY_US, DAY + 10 * DAY_US, HOUR_US), status)
    dropped = _drop(filled)
    assert _days(filled) == list(range(2, 10))
    assert dropped.held_days == 4


def test_what_is_not_rolled_up_stays(filled: Store) -> None:
    """The minutes of a day cannot be made once its samples are gone."""
    judge(filled, range(DAY, DAY + 10 * DAY_US, HOUR_US))
    with filled.session() as session:
        session.execute(f"INSERT INTO tier_due VALUES ({DAY + 3 * DAY_US})")
    _drop(filled)
    assert _days(filled)[0] == 3


def test_a_store_without_a_ledger_keeps_everything(tmp_path: Path) -> None:
    """Nobody has judged anything: no age is old enough."""
    with site(tmp_path, lake=False) as store:
        _fill(store, 3)
        with store.session() as session:
            assert judged_until(session, store) == 0
        assert _drop(store, now=DAY + 300 * DAY_US).rows == {"gpu_minutes": 3 * 144 * 3 * 10}
        assert _days(store) == [0, 1, 2]


def test_late_samples_of_a_day_that_is_gone_change_no_tier(filled: Store) -> None:
    """A few rows must not replace what all of them had said."""
    judge(filled, range(DAY, DAY + 10 * DAY_US, HOUR_US))
    _drop(filled)
    before = one(filled, "SELECT count(*), sum(xid_events), sum(measured_ms) FROM gpu_minutes")
    take(filled, rows(DAY + HOUR_US, 5, batch=256 * 9), 256 * 9)
    roll_up(filled, LATER)
    assert one(filled, "SELECT count(*), sum(xid_events), sum(measured_ms) FROM gpu_minutes") == before
    assert _drop(filled).rows == {"gpu_samples": 15}  # and they go the way of their day


def test_a_full_disk_drops_what_was_never_judged_and_says_so(tmp_path: Path) -> None:
    """Ingest must go on; that samples were lost unjudged is a figure of its own, which must stay 0."""
    with site(tmp_path) as store:
        for day in range(4):
            take(store, rows(DAY + day * DAY_US, 144, batch=256 * (day + 1), step=600 * SECOND), 256 * (day + 1))
            take(
                store,
                rows(DAY + day * DAY_US, 144, batch=256 * (day + 9), step=600 * SECOND, node="n2"),
                256 * (day + 9),
            )
        compact(store, LATER, DAY + 5 * DAY_US)
        dropped = _drop(store, replace(KEEPING, bytes=1), now=DAY + 3 * DAY_US + HOUR_US)
        assert _days(store) == [3]
        assert dropped.unjudged == dropped.rows["gpu_samples"] == 3 * 2 * 144 * 3
        assert one(store, "SELECT DISTINCT reason FROM retention") == ("bytes",)


def test_by_bytes_samples_go_before_minutes_and_old_before_new() -> None:
    """What a chart of last year needs is small; what fills the disk is the newest tier's oldest days."""
    today = DAY + 3 * DAY_US
    there = [
        LakeFile(table, f"{table}{day}", size, 1, DAY + day * DAY_US, DAY + (day + 1) * DAY_US - 1, has_deletes=False)
        for day in range(4)
        for table, size in (("gpu_samples", 100), ("gpu_minutes", 10), ("gpu_hours", 1))
    ]
    total = 4 * 111
    assert cuts_for_bytes(there, total, today) == {}
    assert cuts_for_bytes(there, total - 1, today)["gpu_samples"] == DAY + DAY_US
    assert "gpu_minutes" not in cuts_for_bytes(there, total - 300, today)
    deep = cuts_for_bytes(there, total - 301, today)
    assert (deep["gpu_samples"], deep["gpu_minutes"]) == (today, DAY + DAY_US)
    assert max(cuts_for_bytes(there, 0, today).values()) == today  # of today nothing goes, however little room there is


def test_what_reports_are_made_of_never_goes() -> None:
    """The ledger and what it is made of beside samples outlive everything."""
    kept = {
        "ledger",
        "ledger_hours",
        "adjustments",
        "allocations",
        "run_aliases",
        "node_states",
        "inventory",
        "ownership",
    }
    assert kept & set(droppable()) == set()


def test_late_rows_that_are_dropped_before_their_turn_take_nothing_with_them(tmp_path: Path) -> None:
    """The disk is full before a late host's hour is rolled up again: what was known of that hour stays."""
    with site(tmp_path) as store:
        take(store, rows(DAY, 360, batch=256, step=10 * SECOND), 256)
        roll_up(store, LATER)
        kept = one(store, "SELECT count(*) FROM gpu_minutes"), one(store, "SELECT count(*) FROM gpu_hours")
        take(store, rows(DAY, 360, batch=512, step=10 * SECOND, gpus=["GPU-y", "GPU-z"], node="n2"), 512)
        with writing(store) as session:
            assert note_due(session) == 1
        with store.session() as session:
            clocks = {layout.table: layout.clock for layout in layouts().values()}
            bound = sum(file.bytes for file in files(session, clocks)) - 1
        assert _drop(store, replace(KEEPING, bytes=bound), DAY + DAY_US + HOUR_US).unjudged > 0
        assert roll_up(store, LATER).done == 0
        assert (one(store, "SELECT count(*) FROM gpu_minutes"), one(store, "SELECT count(*) FROM gpu_hours")) == kept
