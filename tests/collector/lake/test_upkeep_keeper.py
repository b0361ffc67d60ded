"""One job at a time, each when it is due, by one of several collectors; a failure costs the others nothing."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from agent.exposition import exposition
from collector.config import CollectorConfig
from collector.errors import ConfigError, StoreError
from collector.lake import keeper
from collector.lake.keeper import JobState, Maintenance, give, jobs, states, take
from collector.pipeline.metrics import Metrics
from collector.store.database import Store
from collector.store.noted import named_files
from collector.store.schemas import make_tier_tables
from tests.collector.lake.upkeep_sites import DAY, DAY_US, HOUR_US, one, rows, site
from tests.collector.lake.upkeep_sites import take as land

CONFIG = CollectorConfig()
JOBS = ["roll_up", "retention", "receipts"]  # of a store without a lake
SECOND = 1_000_000


class Clock:
    """A time that the test sets."""

    def __init__(self, now_us: int) -> None:
        """Begin at a moment."""
        self.now_us = now_us

    def __call__(self) -> int:
        """Return it."""
        return self.now_us


def _page(metrics: Metrics) -> str:
    return exposition(metrics.registry)[0].decode()


@pytest.mark.parametrize("days", [40, 400])
def test_jobs_go_on_once_a_clock_that_was_ahead_is_right_again(days: int) -> None:
    """Each was due again after the jump alone: nothing was rolled up for a year."""
    clock = Clock(DAY + days * DAY_US)
    with Store.open(None) as store:
        assert Maintenance(store, CONFIG, Metrics(), clock).once() == JOBS
        clock.now_us = DAY
        assert Maintenance(store, CONFIG, Metrics(), clock).once() == JOBS
        assert Maintenance(store, CONFIG, Metrics(), clock).once() == []


def test_every_job_runs_when_it_is_due_and_says_when_it_is_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who looks at the page sees what was done last, and whether anything is overdue.

    The lake is asked for its files only by jobs that write some: each question reads the whole list of files, and most
    turns find nothing to do.
    """
    asked: list[str] = []
    for name in ("snapshot_of", "note_written"):
        monkeypatch.setattr(keeper, name, _noted(getattr(keeper, name), name, asked))
    clock, metrics = Clock(DAY + 3 * DAY_US), Metrics()
    with site(tmp_path) as store:
        land(store, rows(DAY, 300, batch=256), 256, received_at=clock.now_us)
        upkeep = Maintenance(store, CONFIG, metrics, clock)
        names = [job.name for job in jobs(store, CONFIG, lambda _: None, lambda: None)]
        assert upkeep.once() == names
        with store.session() as session:
            rolled = [file.sha256 for file in named_files(session) if file.table in ("gpu_minutes", "gpu_hours")]
        assert rolled
        assert None not in rolled
        assert upkeep.once() == []
        clock.now_us += HOUR_US
        asked.clear()
        assert upkeep.once() == ["roll_up", "retention", "receipts", "merge", "expiry", "files"]
        assert asked == ["snapshot_of"] * 3, "of roll_up, retention and merge, which have nothing to do now"
        assert one(store, "SELECT count(*) FROM gpu_hours") == (5 * 3,)
        with store.session() as session:
            state = states(session)["compaction"]
        assert (state.outcome, state.due_at) == ("done", DAY + 4 * DAY_US)
    page = _page(metrics)
    assert f'gpuledger_upkeep_due_timestamp_seconds{{job="compaction"}} {(DAY + 4 * DAY_US) / 1e15:.7f}e+09' in page
    assert 'gpuledger_upkeep_runs_total{job="roll_up",outcome="done"} 2.0' in page
    assert 'gpuledger_upkeep_done_total{job="roll_up"} 5.0' in page


def _noted(function: Callable[..., object], name: str, asked: list[str]) -> Callable[..., object]:
    def noted(*arguments: object) -> object:
        asked.append(name)
        return function(*arguments)

    return noted


def test_a_store_without_a_lake_has_nothing_to_compact(tmp_path: Path) -> None:
    """Its file is DuckDB's own business."""
    with site(tmp_path, lake=False) as store:
        assert Maintenance(store, CONFIG, Metrics(), Clock(DAY)).once() == JOBS


def test_a_restart_does_not_begin_the_day_anew(tmp_path: Path) -> None:
    """A collector that is restarted every hour would compact the same days every hour."""
    with site(tmp_path, lake=False) as store:
        Maintenance(store, CONFIG, Metrics(), Clock(DAY)).once()
        assert Maintenance(store, CONFIG, Metrics(), Clock(DAY + HOUR_US // 2)).once() == []


def test_two_collectors_share_the_jobs_of_a_lake(tmp_path: Path) -> None:
    """What one has done the other need not do; which of them it is does not matter."""
    clock = Clock(DAY + 3 * DAY_US)
    with site(tmp_path) as store, Store.open(tmp_path / "other.duckdb", lake=store.lake) as other:
        make_tier_tables(other)
        assert Maintenance(store, CONFIG, Metrics(), clock).once() != []
        assert Maintenance(other, CONFIG, Metrics(), clock).once() == []


def test_of_two_who_take_a_turn_at_once_one_gets_it(tmp_path: Path) -> None:
    """Both may see that it is due; only one may commit that it is theirs."""
    with site(tmp_path) as store, Store.open(tmp_path / "other.duckdb", lake=store.lake) as other:
        assert take(store, "roll_up", DAY, DAY + HOUR_US)
        assert not take(other, "roll_up", DAY, HOUR_US)
        give(store, JobState("roll_up", "done", "", DAY, DAY, DAY), DAY + HOUR_US)
        with other.session() as session, pytest.raises(StoreError):
            _take_late(session, store)
        with store.session() as session:
            assert [state.outcome for state in states(session).values()] == ["begun"]


def _take_late(session: object, first: Store) -> None:
    """Take a turn in a transaction that another overtakes."""
    with session.transaction():  # type: ignore[attr-defined]
        session.execute("DELETE FROM lake.main.upkeep WHERE job = 'roll_up'")  # type: ignore[attr-defined]
        session.execute("INSERT INTO lake.main.upkeep (job, outcome) VALUES ('roll_up', 'late')")  # type: ignore[attr-defined]
        assert take(first, "roll_up", DAY, HOUR_US)


def test_a_turn_that_nobody_gave_back_ends_by_itself(tmp_path: Path) -> None:
    """A collector that died in the middle must not stop a job for ever; until then nobody else begins one."""
    with site(tmp_path, lake=False) as store:
        assert take(store, "roll_up", DAY, DAY + 4 * 60 * SECOND)
        assert Maintenance(store, CONFIG, Metrics(), Clock(DAY + 60 * SECOND)).once() == []
        assert Maintenance(store, CONFIG, Metrics(), Clock(DAY + 5 * 60 * SECOND)).once() == JOBS


def test_two_jobs_of_two_collectors_do_not_meet(tmp_path: Path) -> None:
    """An hour that is rolled up again while its day is compacted would be there twice (DuckLake's issue 1215)."""
    with site(tmp_path, lake=False) as store:
        assert take(store, "compaction", DAY, DAY + HOUR_US)
        assert not take(store, "roll_up", DAY, DAY + HOUR_US)
        give(store, JobState("compaction", "done", "", DAY, DAY, DAY + DAY_US), DAY + HOUR_US)
        assert take(store, "roll_up", DAY, DAY + HOUR_US)


def test_who_has_lost_a_turn_does_not_give_it_back(tmp_path: Path) -> None:
    """It hung for longer than its turn, and another compacts now: a third must not begin for that one's end."""
    with site(tmp_path, lake=False) as store:
        assert take(store, "compaction", DAY, DAY + HOUR_US)
        assert take(store, "compaction", DAY + HOUR_US, DAY + 2 * HOUR_US)
        with pytest.raises(StoreError, match="another collector has taken it"):
            give(store, JobState("compaction", "failed", "", DAY + HOUR_US, 0, DAY + HOUR_US), DAY + HOUR_US)
        assert not take(store, "roll_up", DAY + HOUR_US, DAY + 2 * HOUR_US)


def test_jobs_let_the_sealing_catch_up_first_but_not_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both take turns at the lake, and minutes may come late; without any upkeep for days the disk would fill."""
    monkeypatch.setattr(keeper, "WAY_SECONDS", 0.001)
    asked, behind_until = [], 5

    def is_behind() -> bool:
        asked.append(True)
        return len(asked) < behind_until

    with site(tmp_path, lake=False) as store:
        clock = Clock(DAY)
        assert Maintenance(store, replace(CONFIG, job_seconds=3600), Metrics(), clock, is_behind).once() == JOBS
        assert len(asked) >= behind_until
        clock.now_us, behind_until = clock.now_us + HOUR_US, 10**9
        assert Maintenance(store, replace(CONFIG, job_seconds=0.1), Metrics(), clock, is_behind).once() == JOBS


def test_a_job_that_fails_is_tried_again_and_the_others_go_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is told once, counted each time, and soon due again; when it works, that is told too."""
    clock, metrics = Clock(DAY), Metrics()
    with site(tmp_path, lake=False) as store:
        upkeep = Maintenance(store, CONFIG, metrics, clock)
        assert "roll_up" in upkeep.once()
        land(store, rows(DAY, 5, batch=256), 256)
        clock.now_us += HOUR_US
        with store.session() as session:
            session.execute("ALTER TABLE tier_marks RENAME TO tier_marks_away")
            assert upkeep.once() == ["retention", "receipts"]
            clock.now_us += 301 * SECOND
            assert upkeep.once() == []
            session.execute("ALTER TABLE tier_marks_away RENAME TO tier_marks")
        clock.now_us += 301 * SECOND
        assert upkeep.once() == ["roll_up"]
    assert 'gpuledger_upkeep_runs_total{job="roll_up",outcome="failed"} 2.0' in _page(metrics)
    told = [record.message for record in caplog.records if record.message.startswith("roll_up")]
    assert len(told) == 2
    assert "works again" in told[1]


def test_a_server_that_ends_does_not_wait_for_a_long_job(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A roll-up of a week goes on for a minute, and the store is closed after half of one: it is no failure to end."""
    clock, metrics, asked = Clock(DAY), Metrics(), []

    def stop_in_the_middle() -> bool:
        asked.append(1)
        if len(asked) == 2:  # before the first transaction of the first job
            upkeep.stop()
        return False

    with site(tmp_path, lake=False) as store:
        land(store, rows(DAY, 5, batch=256), 256)
        upkeep = Maintenance(store, CONFIG, metrics, clock, stop_in_the_middle)
        assert upkeep.once() == []
        assert 'gpuledger_upkeep_runs_total{job="roll_up",outcome="interrupted"} 1.0' in _page(metrics)
        assert caplog.text == ""
        clock.now_us += 6 * SECOND
        assert Maintenance(store, CONFIG, Metrics(), clock).once()[0] == "roll_up"
    with pytest.raises(StoreError, match="has been closed"):
        store.session()


@pytest.mark.parametrize(
    ("kept", "sentence"),
    [
        ("gpu_minuets=3", "the nearest is gpu_minutes"),
        ("ledger=3", "not a table that expires"),
        ("gpu_minutes=0", "use a whole number of days"),
        ("gpu_minutes", "use a whole number of days"),
    ],
)
def test_a_table_s_own_age_is_checked_at_the_start(kept: str, sentence: str) -> None:
    """A mistyped name would keep, or drop, what nobody meant."""
    with pytest.raises(ConfigError, match=sentence):
        replace(CONFIG, keep_days=(kept,))
