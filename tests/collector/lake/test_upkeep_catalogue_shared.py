"""The catalogue's file is tidied up while readers of the same server have it open."""

from pathlib import Path

from collector.lake.tidying import shrink
from collector.store.database import Store
from collector.store.lake import default_lake


def test_the_log_stays_while_somebody_reads(tmp_path: Path) -> None:
    """SQLite's locks are a process's: a second SQLite in ours saw no reader, and removed the log from under the lake.

    What follows is a disk I/O error for who reads or books next, as a quarter on a moved clock showed.
    """
    path = tmp_path / "store.duckdb"
    with Store.open(path, lake=default_lake(path)) as store, store.session() as reading:
        assert store.lake is not None
        assert store.lake.file is not None
        logs = [store.lake.file.with_name(f"{store.lake.file.name}-{end}") for end in ("wal", "shm")]
        with reading.transaction():
            reading.rows("SELECT count(*) FROM lake.main.markers")
            assert all(log.exists() for log in logs)
            shrink(store)
            assert all(log.exists() for log in logs)
        assert reading.row("SELECT count(*) FROM lake.main.markers") == (0,)
