"""The jobs that keep a store small and whole beside its samples: the catalogue, the files, the hot file.

Old snapshots expire, files that nobody names any more go, SQLite's own file is written anew; the lake's files are read,
the longest unread first, and held to what was written; receipts expire with the spools that could repeat them, and the
hot file's log is folded in. What the lake has taken is deleted by the sealer. DuckDB gives deleted space back with a
checkpoint: to the file, whose next rows take it, so that the file stays as large as the most it ever held.
"""

from agent.wire.units import DAY_US, HOUR_SECONDS
from collector.errors import StoreError
from collector.lake.damage import check, damage_sentence, require_catalogue
from collector.lake.lake_files import Outcome, writing
from collector.store.database import Store
from collector.store.lake import delete
from collector.store.noted import named_files
from collector.store.seal_mark import COLLECTORS, forget_lost
from collector.store.sqlite_child import vacuum_sqlite

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


def expire(store: Store, now_us: int, snapshot_seconds: float) -> Outcome:
    """Forget snapshots that are older, and remove files that only they had, and that nobody can still be reading."""
    since = _ago(now_us, snapshot_seconds)
    with store.turn, store.session() as session:
        old = session.rows(
            f"SELECT snapshot_id FROM ducklake_snapshots('lake') WHERE snapshot_time < {since} "
            f"ORDER BY snapshot_id LIMIT {_MOST_SNAPSHOTS}"
        )
        versions = ", ".join(str(number) for (number,) in old)
        if versions:
            session.rows(f"CALL ducklake_expire_snapshots('lake', versions => [{versions}])")
        before = f"date_trunc('day', {_ago(now_us, _READING_SECONDS)}) - INTERVAL 1 SECOND"
        removed = session.rows(f"CALL ducklake_cleanup_old_files('lake', older_than => {before})")
    _trim_markers(store, now_us)
    return Outcome(
        f"{len(old)} snapshots expired, {len(removed)} files removed", len(removed), again=len(old) == _MOST_SNAPSHOTS
    )


def remove_orphans(store: Store, now_us: int) -> Outcome:
    """Remove files that no catalogue has ever named: those of a collector that died while it sealed."""
    with store.turn, store.session() as session:
        removed = session.rows(
            f"CALL ducklake_delete_orphaned_files('lake', older_than => {_ago(now_us, _WRITING_SECONDS)})"
        )
    return Outcome(f"{len(removed)} orphaned files removed", len(removed))


def shrink(store: Store) -> Outcome:
    """Fold the log of SQLite's catalogue in, and write the file anew where much of it is free.

    PostgreSQL does this by itself.

    Raises:
        StoreError: the file cannot be opened, or somebody would not let go of it.
    """
    file = store.lake.file if store.lake is not None else None
    if file is None:
        return Outcome("the catalogue is on a server")
    before = file.stat().st_size
    with store.turn:
        vacuum_sqlite(file, max(_FREE_BYTES, before // _FREE_SHARE))
    freed = max(0, before - file.stat().st_size)
    return Outcome(f"{freed} bytes freed", freed)


def _trim_markers(store: Store, now_us: int) -> None:
    """Forget markers that newer ones have replaced; a day of them stays, for people."""
    with writing(store) as session:
        old = f"sealed_at < {now_us - DAY_US}"
        newest = "SELECT max(m.upto) FROM lake.main.markers m WHERE m.collector = markers.collector"
        if session.rows(f"SELECT 1 FROM lake.main.markers WHERE {old} AND upto < ({newest}) LIMIT 1"):
            delete(session, f"DELETE FROM lake.main.markers WHERE {old} AND upto < ({newest})")


def _ago(now_us: int, seconds: float) -> str:
    return f"to_timestamp({now_us} / 1e6) - to_seconds({int(seconds)})"


def check_files(store: Store, deadline: float, now_us: int) -> Outcome:
    """Read as many files as there is time for; all are read within a day, or the next turn comes soon.

    Raises:
        StoreError: a file or the catalogue is damaged, which the message names; or the catalogue does not answer.
    """
    require_catalogue(store)
    waiting, damages = check(store, deadline, now_us)
    if damages:
        raise StoreError(damage_sentence(damages))
    if not waiting:
        return Outcome("every file of the lake is intact")
    with store.session() as session:
        oldest = min((file.checked_at for file in named_files(session)), default=now_us)
    return Outcome(f"{waiting:,} files were not read in this run", again=oldest < now_us - DAY_US)


_BROUGHT = ("import", "prometheus")


def forget_receipts(store: Store, receipts_before_us: int) -> Outcome:
    """Forget receipts of batches that came before, in the hot file and in the lake, and fold the log in.

    The newest of each collector stays, whatever its age: batches are numbered on from there. So do those of files and
    histories that were brought: the same file counts once, also next year.
    """
    forgotten = 0
    if store.lake is not None:
        forgotten += _forget(store, "lake.main.receipts", receipts_before_us)
    if store.hot is not None:
        unsealed = f" AND batch NOT IN (SELECT batch FROM {store.hot}.arrivals)"
        forgotten += _forget(store, f"{store.hot}.receipts", receipts_before_us, unsealed)
        if store.lake is not None:
            with store.hot_session() as hot:
                forget_lost(hot, receipts_before_us)
        if not store.checkpoint():
            said = f"{forgotten} receipts removed; the log is checkpointed later: batches were being written"
            return Outcome(said, forgotten)
    return Outcome(f"{forgotten} receipts removed", forgotten)


def _forget(store: Store, receipts: str, before_us: int, unless: str = "") -> int:
    newest = f"SELECT max(batch) FROM {receipts} GROUP BY batch & {COLLECTORS - 1}"
    brought = " OR ".join(f"starts_with(agent, '{kind}:')" for kind in _BROUGHT)
    old = f"received_at < {before_us} AND batch NOT IN ({newest}) AND NOT ({brought}){unless}"
    with writing(store) as session:
        (count,) = session.row(f"SELECT count(*) FROM {receipts} WHERE {old}")
        if count:
            session.execute(f"DELETE FROM {receipts} WHERE {old}")
    return int(count)
