"""Compaction changes no row: it changes in which files they lie, and in what order."""

import math
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from agent.wire.units import MINUTE_US, WEEK_US
from collector.errors import StoreError
from collector.lake.compaction import _files, _rewrite, _settled, _windows, compact, merge_recent
from collector.lake.lake_files import LakeFile, Outcome, files, writing
from collector.store.database import Store
from collector.tier_tables import MONDAY_US
from tests.collector.lake.upkeep_sites import DAY, DAY_US, GPUS, HOUR_US, SECOND, everything, one, rows, site, take

BATCH = 256
_CLOCK = {"gpu_samples": "started_at"}


def _fill(store: Store, days: int = 2) -> None:
    """Seal two files an hour, for some days; each holds more rows than the catalogue takes."""
    for number in range(days * 4):
        start = DAY + number * 6 * HOUR_US
        take(
            store,
            rows(start, 250, batch=BATCH * (number + 1), step=6 * HOUR_US // 250 // 1000 * 1000),
            BATCH * (number + 1),
        )


def _compact(store: Store, now: int) -> Outcome:
    return compact(store, math.inf, now)


def test_the_files_of_a_day_become_one_and_no_row_is_lost(tmp_path: Path) -> None:
    """One file a day: a run's week is then seven files, and a day is dropped without writing anything."""
    with site(tmp_path) as store:
        _fill(store)
        with store.session() as session:
            before, parts = everything(session, "gpu_samples"), files(session, _CLOCK)
        outcome = _compact(store, DAY + 3 * DAY_US)
        with store.session() as session:
            there = files(session, _CLOCK)
            assert everything(session, "gpu_samples") == before
    assert len(parts) == 8
    assert outcome.done == 8
    assert [(file.first // DAY_US, file.last // DAY_US) for file in there] == [(DAY // DAY_US + n,) * 2 for n in (0, 1)]
    assert not any(file.has_deletes for file in there)


def test_rows_lie_by_host_and_gpu(tmp_path: Path) -> None:
    """In the order of time every file would be read whole for one GPU; merging alone keeps that order."""
    with site(tmp_path) as store:
        _fill(store, days=1)
        _compact(store, DAY + 3 * DAY_US)
        (path,) = one(store, "SELECT data_file FROM ducklake_list_files('lake', 'gpu_samples')")
        told = pq.read_table(str(path), columns=["gpu_uuid", "started_at"]).to_pylist()
    assert told == sorted(told, key=lambda row: (row["gpu_uuid"], row["started_at"]))
    assert len({row["gpu_uuid"] for row in told}) == len(GPUS)


def test_today_is_left_alone_and_a_second_time_finds_nothing(tmp_path: Path) -> None:
    """What is still being sealed would have to be written again; what is compacted need not be."""
    with site(tmp_path) as store:
        _fill(store)
        assert _compact(store, DAY + DAY_US + HOUR_US).done == 4
        assert _compact(store, DAY + DAY_US + HOUR_US).done == 0


def test_late_rows_join_their_day(tmp_path: Path) -> None:
    """A file may hold hours of several days, after an outage: each day takes its own, and the file is gone."""
    with site(tmp_path) as store:
        _fill(store)
        _compact(store, DAY + 3 * DAY_US)
        take(store, rows(DAY + 20 * HOUR_US, 500, batch=99 * BATCH, step=59 * SECOND, gpus=["GPU-z"]), 99 * BATCH)
        with store.session() as session:
            before = everything(session, "gpu_samples")
        _compact(store, DAY + 3 * DAY_US)
        with store.session() as session:
            assert everything(session, "gpu_samples") == before
            assert [file.first // DAY_US - DAY // DAY_US for file in files(session, _CLOCK)] == [0, 1]


def test_a_clock_that_began_years_ago_does_not_hold_compaction_up(tmp_path: Path) -> None:
    """One row of 2020 in a file of today is two days, and not two thousand: days in between have nothing."""
    with site(tmp_path) as store:
        for number in range(3):
            start, batch = DAY + number * 2 * HOUR_US, BATCH * (number + 1)
            old = rows(DAY - 2400 * DAY_US, 1, batch=batch, gpus=["GPU-old"], node="n9")
            take(store, pa.concat_tables([rows(start, 250, batch=batch, step=20 * SECOND), old]), batch)
        with store.session() as session:
            before = everything(session, "gpu_samples")
        windows = [w for w in _windows(_files(store), lambda layout: layout.span_us) if w.layout.table == "gpu_samples"]
        assert [(w.start - DAY) // DAY_US for w in windows] == [-2400, 0]
        _compact(store, DAY + 3 * DAY_US)
        with store.session() as session:
            assert everything(session, "gpu_samples") == before
            spans = [(f.first // DAY_US, f.last // DAY_US) for f in files(session, _CLOCK)]
        assert spans == [(DAY // DAY_US,) * 2], "the three rows of then are so few that the catalogue has them"
        assert _compact(store, DAY + 3 * DAY_US).done == 0


def test_hours_of_today_are_merged_where_there_are_many_files(tmp_path: Path) -> None:
    """Sixty sealings an hour are sixty files of every table: who asks for today would open them all."""
    now = DAY + 5 * HOUR_US
    with site(tmp_path) as store:
        for number in range(12):
            start = DAY + 2 * HOUR_US + number * 10 * 60 * SECOND
            take(store, rows(start, 200, batch=BATCH * (number + 1), step=3 * SECOND), BATCH * (number + 1))
        with store.session() as session:
            before = everything(session, "gpu_samples")
        assert merge_recent(store, math.inf, now).done == 12
        with store.session() as session:
            assert everything(session, "gpu_samples") == before
            assert len(files(session, _CLOCK)) == 2


def test_what_is_sealed_meanwhile_stays(tmp_path: Path) -> None:
    """Another collector seals into the day that is being written anew: its rows are in files of their own."""
    with site(tmp_path) as store:
        _fill(store, days=1)
        planned = [w for w in _windows(_files(store), lambda layout: layout.span_us) if w.layout.table == "gpu_samples"]
        take(store, rows(DAY, 200, batch=77 * BATCH, gpus=["GPU-late"]), 77 * BATCH)
        assert [_rewrite(store, window) for window in planned] == [4]
        assert one(store, "SELECT count(*), count(DISTINCT gpu_uuid) FROM gpu_samples") == (4 * 250 * 3 + 200, 4)


def test_a_reader_keeps_what_it_saw(tmp_path: Path) -> None:
    """An analysis reads for minutes in one transaction; DuckLake's tables of deletions come and go under it."""
    with site(tmp_path) as store:
        _fill(store, days=1)
        with store.session() as session, session.transaction():
            assert session.row("SELECT count(*) FROM gpu_samples") == (4 * 250 * 3,)
            take(store, rows(DAY, 200, batch=77 * BATCH, gpus=["GPU-late"]), 77 * BATCH)
            _compact(store, DAY + 3 * DAY_US)
            assert session.row("SELECT count(*) FROM gpu_samples") == (4 * 250 * 3,)
        assert one(store, "SELECT count(*) FROM gpu_samples") == (4 * 250 * 3 + 200,)


def test_of_two_who_compact_one_is_told_to_come_later(tmp_path: Path) -> None:
    """Two collectors take the same day at once: the day must not be there twice."""
    with site(tmp_path) as store, Store.open(tmp_path / "other.duckdb", lake=store.lake) as other:
        _fill(store, days=1)
        count = one(store, "SELECT count(*) FROM gpu_samples")
        with pytest.raises(StoreError):
            _compact_late(other, store)
        assert one(store, "SELECT count(*) FROM gpu_samples") == count


def test_a_turn_ends_at_its_deadline_with_whole_days(tmp_path: Path) -> None:
    """Other jobs wait; what is left is done in the next turn."""
    with site(tmp_path) as store:
        _fill(store)
        first = compact(store, -math.inf, DAY + 3 * DAY_US)
        assert (first.done, first.again) == (4, True)
        assert _compact(store, DAY + 3 * DAY_US).done == 4


def _compact_late(late: Store, first: Store) -> None:
    """Begin to write the day anew in one collector, and let another finish before it."""
    with writing(late) as session:
        session.execute("INSERT INTO lake.main.gpu_samples SELECT * FROM lake.main.gpu_samples")
        session.execute("DELETE FROM lake.main.gpu_samples WHERE snapshot_id IS NOT NULL AND batch > 0")
        _compact(first, DAY + 3 * DAY_US)


def test_what_was_rolled_up_today_is_merged_while_the_day_goes_on(tmp_path: Path) -> None:
    """An hour's minutes are a file; by the evening a chart of the week would open twenty-four for today alone."""
    with site(tmp_path) as store:
        for hour in range(6):
            _fill_minutes(store, DAY + hour * HOUR_US)
        assert merge_recent(store, math.inf, DAY + 7 * HOUR_US).done == 6
        with store.session() as session:
            assert len(files(session, {"gpu_minutes": "started_at"})) == 1
            assert session.row("SELECT count(*) FROM gpu_minutes") == (3600,)


def test_minutes_of_a_small_site_are_put_together_by_the_week(tmp_path: Path) -> None:
    """From Monday on, as reports are: a run's week is one file, and until it is over each day is."""
    monday = (DAY - MONDAY_US) // WEEK_US * WEEK_US + MONDAY_US
    with site(tmp_path) as store:
        for hour in range(0, 8 * 24, 12):
            _fill_minutes(store, monday + hour * HOUR_US)
        _compact(store, monday + 6 * DAY_US + HOUR_US)
        assert _spans(store, monday) == [(day, day) for day in (0, 1, 2, 3, 4, 5, 6, 6, 7, 7)]
        _compact(store, monday + 9 * DAY_US)
        assert _spans(store, monday) == [(0, 6), (7, 7)]
        assert one(store, "SELECT count(*) FROM gpu_minutes") == (16 * 600,)
        assert _compact(store, monday + 9 * DAY_US).done == 0


def test_minutes_of_a_large_site_stay_by_the_day() -> None:
    """One late hour has its file written anew: not a week of ten thousand GPUs, which are six gigabytes."""
    days = [DAY + number * DAY_US for number in range(8)]
    there = [LakeFile("gpu_minutes", f"{day}", 10**9, 10**7, day, day + DAY_US - MINUTE_US, False) for day in days]
    assert [(w.start, w.end) for w in _settled(there, DAY + 30 * DAY_US)] == [(day, day + DAY_US) for day in days]


def _fill_minutes(store: Store, start: int) -> None:
    with store.session() as session:
        session.execute(
            "INSERT INTO lake.main.gpu_minutes (node, gpu_uuid, started_at, measured_ms) "
            f"SELECT 'n1', 'GPU-' || g, {start} + m * 60000000, 60000 FROM range(10) a(g), range(60) b(m)"
        )


def _spans(store: Store, monday: int) -> list[tuple[int, int]]:
    """Return of each file of minutes its first and last day, counted from that Monday."""
    with store.session() as session:
        there = files(session, {"gpu_minutes": "started_at"})
    return [((file.first - monday) // DAY_US, (file.last - monday) // DAY_US) for file in there]
