"""The jobs that keep the catalogue small: old snapshots, files that nobody names any more, and SQLite's own file."""

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from agent import child
from agent.wire.units import HOUR_SECONDS
from collector.errors import StoreError
from collector.lake.upkeep.outcome import Outcome
from collector.lake.upkeep.writing import writing
from collector.store.lake import delete

if TYPE_CHECKING:
    from collector.store.database import Store

# A file that no snapshot names is removed once a day ended so long ago; who began to read it is done by then.
# DuckLake's catalogue in SQLite compares times as texts, 2026-11-22 01:00 with 2026-11-22T00:00, so that whatever is of
# the same day counts as older: older_than must name the end of a day, and one that is over in every time zone. That is
# also why snapshots are expired by their numbers (tests/collector/lake/test_upkeep_catalogue.py).
_READING_SECONDS = 15 * HOUR_SECONDS
_MOST_SNAPSHOTS = 5_000  # expired in one turn
# A file that the catalogue has never named may be one that is being sealed at this moment, by any collector.
_WRITING_SECONDS = 24 * HOUR_SECONDS
_FREE_SHARE = 4  # SQLite's file is written anew when a fourth of it is free, and that is worth it
_FREE_BYTES = 8 * 2**20


def expire(store: "Store", snapshot_seconds: float) -> Outcome:
    """Forget snapshots that are older, and remove files that only they had, and that nobody can still be reading.

    Raises:
        StoreError: the lake refused.
    """
    with store.turn, store.session() as session:
        old = session.rows(
            f"SELECT snapshot_id FROM ducklake_snapshots('lake') WHERE snapshot_time < {_ago(snapshot_seconds)} "
            f"ORDER BY snapshot_id LIMIT {_MOST_SNAPSHOTS}"
        )
        versions = ", ".join(str(number) for (number,) in old)
        if versions:
            session.rows(f"CALL ducklake_expire_snapshots('lake', versions => [{versions}])")
        before = f"date_trunc('day', {_ago(_READING_SECONDS)}) - INTERVAL 1 SECOND"
        removed = session.rows(f"CALL ducklake_cleanup_old_files('lake', older_than => {before})")
    _trim_markers(store)
    return Outcome(
        f"{len(old)} snapshots expired, {len(removed)} files removed", len(removed), again=len(old) == _MOST_SNAPSHOTS
    )


def remove_orphans(store: "Store") -> Outcome:
    """Remove files that no catalogue has ever named: those of a collector that died while it sealed.

    Raises:
        StoreError: the lake refused.
    """
    with store.turn, store.session() as session:
        removed = session.rows(f"CALL ducklake_delete_orphaned_files('lake', older_than => {_ago(_WRITING_SECONDS)})")
    return Outcome(f"{len(removed)} files removed that nobody had named", len(removed))


def shrink(store: "Store") -> Outcome:
    """Fold the log of SQLite's catalogue in, and write the file anew where much of it is free.

    PostgreSQL does this by itself.

    Raises:
        StoreError: the file cannot be opened, or somebody would not let go of it.
    """
    file = store.lake.file if store.lake is not None else None
    if file is None:
        return Outcome("the catalogue is a server's")
    before = file.stat().st_size
    with store.turn:
        vacuum(file, max(_FREE_BYTES, before // _FREE_SHARE))
    freed = max(0, before - file.stat().st_size)
    return Outcome(f"{freed} bytes given back", freed)


def vacuum(file: Path, free_bytes: int) -> None:
    """Fold the log of SQLite's catalogue in, and write the file anew where so much of it is free.

    Raises:
        StoreError: the file cannot be opened, or somebody would not let go of it.
    """
    words = child.command("collector.lake.upkeep.vacuum", str(file), str(free_bytes))
    done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603  our own module
    if done.returncode:
        raise StoreError(f"the catalogue {file} cannot be tidied up now: {done.stderr.strip()}; run the same again")


def _trim_markers(store: "Store") -> None:
    """Forget markers that newer ones have replaced; a day of them stays, for people."""
    with writing(store) as session:
        old = f"sealed_at < epoch_us({_ago(24 * HOUR_SECONDS)})"
        newest = "SELECT max(m.upto) FROM lake.main.markers m WHERE m.collector = markers.collector"
        if session.rows(f"SELECT 1 FROM lake.main.markers WHERE {old} AND upto < ({newest}) LIMIT 1"):
            delete(session, f"DELETE FROM lake.main.markers WHERE {old} AND upto < ({newest})")


def _ago(seconds: float) -> str:
    return f"now() - to_seconds({int(seconds)})"
