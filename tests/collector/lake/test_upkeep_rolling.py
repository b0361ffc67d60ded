"""The job that rolls up: what waits is rolled up once, in short transactions, between which others get their turn."""

from pathlib import Path

import pytest

from agent.wire.units import MINUTE_US
from collector.errors import StoreError
from collector.lake import tiers as rolling
from collector.lake.keeper import JobState, give, prolong, states, take
from collector.lake.series import gpus, series
from collector.lake.tiers import Portion, roll_minutes, roll_up
from collector.store.database import Store
from collector.store.session import Session
from tests.collector.lake.upkeep_sites import DAY, DAY_US, HOUR_US, rows, site
from tests.collector.lake.upkeep_sites import take as land

LATER = 1e12
MOST = 500


def _tiers(store: Store) -> list[list[tuple[object, ...]]]:
    with store.session() as session:
        return [session.rows(f"SELECT * FROM {tier} ORDER BY ALL") for tier in ("gpu_minutes", "gpu_hours")]


def test_an_hour_of_many_samples_is_the_same_in_several_transactions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One transaction of half an hour would keep the sealing from the lake for so long."""
    found, turns = [], []
    for name, most in (("one", 10**6), ("several", MOST)):
        monkeypatch.setattr(rolling, "ROWS_AT_ONCE", most)
        given: list[bool] = []
        (tmp_path / name).mkdir()
        with site(tmp_path / name) as store:
            land(store, rows(DAY, 900, batch=256, step=4_000_000), 256)
            roll_up(store, LATER, lambda given=given: given.append(True))  # type: ignore[misc]
            found.append(_tiers(store))
        turns.append(len(given))
    assert found[0] == found[1]
    assert len(found[0][0]) > 60
    assert turns[0] == 1
    assert turns[1] > 4


def test_hours_that_were_left_half_done_wait_still(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reads takes the samples until all minutes are there; the next turn does the hour again."""
    monkeypatch.setattr(rolling, "ROWS_AT_ONCE", MOST)
    left = [None, None, StoreError("killed")]

    def dies() -> None:
        if left and (error := left.pop(0)):
            raise error

    with site(tmp_path) as store:
        land(store, rows(DAY, 900, batch=256, step=4_000_000), 256)
        with pytest.raises(StoreError, match="killed"):
            roll_up(store, LATER, dies)
        with store.session() as session:
            assert session.rows("SELECT hour FROM tier_due") == [(DAY,)]
            (half,) = session.row("SELECT count(*) FROM gpu_minutes")
        roll_up(store, LATER)
        with store.session() as session:
            assert not session.rows("SELECT hour FROM tier_due")
            (whole,) = session.row("SELECT count(*) FROM gpu_minutes")
            (once,) = session.row("SELECT count(*) FROM (SELECT DISTINCT node, gpu_uuid, started_at FROM gpu_minutes)")
    assert 0 < half < whole == once


def test_a_turn_is_prolonged_by_whoever_has_it(tmp_path: Path) -> None:
    """A job that waits for the sealing is not taken over for that; one that was taken over must not go on."""
    with site(tmp_path, lake=False) as store:
        until = DAY + HOUR_US
        assert take(store, "roll_up", DAY, until)
        prolong(store, "roll_up", until, until + HOUR_US)
        assert not take(store, "compaction", until + 1, until + DAY_US)
        with store.session() as session:
            assert states(session)["roll_up"].due_at == until + HOUR_US
        with pytest.raises(StoreError, match="another collector has taken it"):
            prolong(store, "roll_up", until, until + DAY_US)
        give(store, JobState("roll_up", "done", "", until, until, until + DAY_US), until + HOUR_US)
        with pytest.raises(StoreError, match="has expired"):
            prolong(store, "roll_up", until + DAY_US, until + 2 * DAY_US)


def test_a_fast_clock_of_one_host_leaves_no_gap_in_the_charts_of_others(tmp_path: Path) -> None:
    """Five hours ahead is believed; what the others told since the last roll-up is still read from their samples."""
    now = DAY + 14 * HOUR_US + 5 * MINUTE_US
    with site(tmp_path) as store:
        land(store, rows(DAY + 8 * HOUR_US, 6 * 60 + 5, batch=256), 256)
        land(store, rows(now + 5 * HOUR_US, 10, batch=512, node="fast", gpus=["GPU-x"]), 512)
        roll_up(store, LATER, now_us=now)
        land(store, rows(now, 50, batch=768), 768)
        with store.session() as session:
            start, end = DAY + 8 * HOUR_US, now + 50 * MINUTE_US
            (told,) = series(session, gpus(["GPU-a"]), ["utilization_ratio"], start, end, 300)
    assert told.mean.null_count == 0


def test_where_memory_does_not_suffice_less_is_rolled_up_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What pages and the analysis take meanwhile is not known before; an hour that never fits would wait for ever."""
    tried: list[int] = []

    def in_little_memory(session: Session, portion: Portion) -> None:
        tried.append(portion.samples)
        if portion.samples > rolling.ROWS_LEAST:
            raise StoreError("the store refused a statement: Out of Memory Error: failed to pin block")
        roll_minutes(session, portion)

    with site(tmp_path, lake=False) as store:
        land(store, rows(DAY, 4_000, batch=256, step=900_000), 256)  # an hour of three GPUs
        with monkeypatch.context() as patched:
            patched.setattr(rolling, "roll_minutes", in_little_memory)
            patched.setattr(rolling, "ROWS_LEAST", 2_000)
            outcome = roll_up(store, LATER)
        assert (outcome.done, outcome.again) == (1, False)
        assert max(tried) == 12_000
        assert len(_tiers(store)[0]) == 3 * 60
