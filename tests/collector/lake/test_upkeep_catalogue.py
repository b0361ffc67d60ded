"""Files and snapshots that nobody needs go; those that somebody may be reading or writing stay."""

import os
import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from collector.lake import tidying as catalogue
from collector.lake.compaction import compact
from collector.lake.lake_files import flush
from collector.lake.tidying import expire, remove_orphans, shrink
from collector.store.database import Store
from tests.collector.lake.upkeep_sites import DAY, DAY_US, one, rows, site, take

LATER = 1e9


def now_us() -> int:
    """Return the time."""
    return time.time_ns() // 1000


def _parquet(folder: Path, table: str) -> list[Path]:
    return list((folder / "store.duckdb.lake" / "data" / "main" / table).glob("*.parquet"))


def test_compacted_files_are_removed_once_nobody_reads_them(tmp_path: Path) -> None:
    """Compaction doubles a day on the disk; expiry takes the old half away, once nobody can be reading it."""
    with site(tmp_path) as store:
        for number in range(1, 4):
            take(store, rows(DAY, 400, batch=256 * number, gpus=[f"GPU-{number}", "GPU-x"]), 256 * number)
        before = one(store, "SELECT count(*), sum(xid_events) FROM gpu_samples")
        compact(store, LATER, DAY + 3 * DAY_US)
        (snapshots,) = one(store, "SELECT count(*) FROM ducklake_snapshots('lake')")
        expire(store, now_us(), 3600)
        assert one(store, "SELECT count(*) FROM ducklake_snapshots('lake')") == (snapshots,)
        expire(store, now_us(), -1)
        assert one(store, "SELECT count(*) FROM ducklake_snapshots('lake')") == (1,)
        assert len(_parquet(tmp_path, "gpu_samples")) == 4  # a reader who began just now finds everything
        _age_what_is_scheduled(store)
        assert expire(store, now_us(), 3600).done >= 3
        assert len(_parquet(tmp_path, "gpu_samples")) == 1
        assert one(store, "SELECT count(*), sum(xid_events) FROM gpu_samples") == before


def _age_what_is_scheduled(store: Store) -> None:
    """Let two days pass since files were given up."""
    assert store.lake is not None
    assert store.lake.file is not None
    with closing(sqlite3.connect(store.lake.file, isolation_level=None)) as catalogue_file:
        long_ago = datetime.now(UTC) - timedelta(days=2)
        catalogue_file.execute(
            "UPDATE ducklake_files_scheduled_for_deletion SET schedule_start = ?", [f"{long_ago:%Y-%m-%d %H:%M:%S}+00"]
        )


def test_orphans_of_the_dead_go_and_files_of_the_living_stay(tmp_path: Path) -> None:
    """A file that the catalogue does not name yet may be one that is being sealed right now."""
    with site(tmp_path) as store:
        take(store, rows(DAY, 400, batch=256), 256)
        (known,) = _parquet(tmp_path, "gpu_samples")
        dead, living = known.with_name("ducklake-dead.parquet"), known.with_name("ducklake-living.parquet")
        for orphan in (dead, living):
            orphan.write_bytes(known.read_bytes())
        long_ago = time.time() - 2 * 24 * 3600
        os.utime(dead, (long_ago, long_ago))
        os.utime(known, (long_ago, long_ago))
        assert remove_orphans(store, now_us()).done == 1
        assert sorted(_parquet(tmp_path, "gpu_samples")) == sorted([known, living])


def test_markers_that_newer_ones_replaced_go(tmp_path: Path) -> None:
    """One is written with every sealing, and only the newest of each collector is ever asked for."""
    with site(tmp_path) as store:
        now = time.time_ns() // 1000
        with store.session() as session:
            for upto, sealed in ((1, now - 3 * DAY_US), (2, now - 2 * DAY_US), (3, now)):
                session.execute("INSERT INTO lake.main.markers VALUES (0, ?, ?)", [upto, sealed])
            session.execute("INSERT INTO lake.main.markers VALUES (1, 1, ?)", [now - 9 * DAY_US])
        expire(store, now_us(), 3600)
        with store.session() as session:
            assert session.rows("SELECT collector, upto FROM lake.main.markers ORDER BY ALL") == [(0, 3), (1, 1)]


def test_the_catalogue_s_file_is_tidied_up_while_it_is_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A site's catalogue is one SQLite file; what was deleted from it must come back to the disk."""
    monkeypatch.setattr(catalogue, "_FREE_BYTES", 0)
    monkeypatch.setattr(catalogue, "_FREE_SHARE", 10**6)
    with site(tmp_path) as store:
        for number in range(1, 6):
            take(store, rows(DAY, 100, batch=256 * number), 256 * number)  # small: rows in the catalogue
        flush(store)
        expire(store, now_us(), -1)
        before = store.lake.file.stat().st_size  # type: ignore[union-attr]
        shrink(store)
        assert store.lake.file.stat().st_size <= before  # type: ignore[union-attr]
        assert one(store, "SELECT count(*) FROM gpu_samples") == (5 * 100 * 3,)
        take(store, rows(DAY, 100, batch=256 * 9), 256 * 9)
        assert one(store, "SELECT count(*) FROM gpu_samples") == (6 * 100 * 3,)
