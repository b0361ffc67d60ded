"""Which hours of which GPUs the ledger must make anew, so that the same input gives the same ledger however it arrived.

Those that anything new touches, of a run the later ones too, since its yardstick is made of what came before; those
judged by other rules, and those that an earlier pass could not settle or never reached.

Hours whose samples have expired are left as they are, whatever is learned of them: made anew, they would say that
nothing had been measured. From when on there are samples is written down by who drops them (the table `retention`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from analyzer.ledger.believed import show_believed
from analyzer.ledger.closing import LOOK_AHEAD_US
from analyzer.ledger.thresholds import Thresholds
from analyzer.ledger.unwritten import hide_unwritten
from analyzer.queries.statements import run as run_sql
from collector.lake.damage import lost
from collector.lake.tiers import kept_from
from collector.pipeline.decoding.range_checks import AHEAD_OF_SENDER, EARLIEST
from collector.store.seal_mark import COLLECTORS
from collector.store.session import Session

MARGIN_US = LOOK_AHEAD_US  # how far beyond its own an hour's samples are read: quiet that reaches in is seen whole
_FOR_EVER = 2**63 - 1  # microseconds
_COLLECTOR = COLLECTORS - 1  # the bits of a batch's number that say who took it

# What is told of hosts: it touches the GPUs on them.
_OF_HOSTS = (
    "host_samples",
    "disk_samples",
    "network_samples",
    "process_samples",
    "run_samples",
    "service_samples",
    "progress",
    "node_states",
)
# Of these a loss shows in the ledger itself; of others it leaves causes without their evidence.
_HOLDERS, _SAMPLES = "allocations", "gpu_samples"
# The first sign of a process says what was before it, where its run had just begun: starting.py.
_OF_PROCESSES = ("process_samples", "run_samples")
_STARTS_TOUCHED = """
INSERT INTO touched
SELECT DISTINCT u.gid, (t.started_at - $margin_us) // 3600000000, t.started_at // 3600000000
FROM {table} t JOIN marks m ON m.collector = t.batch & 255 AND t.batch > m.batch
JOIN run_names k ON k.run_id = t.run_id AND t.started_at >= k.from_us AND t.started_at < k.until_us
JOIN run_keys r USING (rid)
JOIN allocation_now a ON a.run_id = r.run_id AND a.from_ms >= (t.started_at - $margin_us) // 1000
JOIN units u ON u.uuid = a.gpu_uuid
WHERE t.batch > $batch AND t.started_at % 3600000000 < $margin_us
"""
_HOSTS_TOUCHED = """
SELECT node, started_at // 3600000000 AS first_hour,
    max((greatest(ended_at, started_at + 1) - 1) // 3600000000) AS last_hour
FROM {table} t JOIN marks m ON m.collector = t.batch & 255 AND t.batch > m.batch WHERE t.batch > $batch GROUP BY ALL
"""


@dataclass(frozen=True, slots=True)
class Versions:
    """By what the ledger is judged and priced."""

    rules: str
    prices: str


@dataclass(frozen=True, slots=True)
class Chunk:
    """Hours that abut, [from_ms, until_ms), of one part of their GPUs: as much as is booked at once."""

    from_ms: int
    until_ms: int
    part: int = 0
    is_last: bool = True  # of the parts of its hour


def know_fleet(session: Session, limits: Thresholds) -> list[int]:
    """Fill the tables of the fleet as the store knows it (fleet.sql), of what is believed and of what came newly.

    Returns the newest batch of each collector, up to which the ledger is made when the pass is done.
    """
    show_believed(session)
    hide_unwritten(session)
    last = _mark_arrivals(session, limits)
    run_sql(session, "ledger/fleet.sql", arrived_us=_arrived_us(last))
    return last


def _mark_arrivals(session: Session, limits: Thresholds) -> list[int]:
    """Fill `marks`, `newly_sampled`, `newly_sighted` and `newly_serving` with what came since the last pass.

    And `lost_spans` with the times of which the lake has lost who held GPUs, or samples of them.
    """
    done = {batch & _COLLECTOR: batch for (batch,) in session.rows("SELECT analysed_batch FROM analysis")}
    last = [batch for (batch,) in session.rows(f"SELECT max(batch) FROM receipts GROUP BY batch & {_COLLECTOR}")]
    before = [(newest, newest & _COLLECTOR, done.get(newest & _COLLECTOR, -1)) for newest in last]
    marks = [(collector, batch) for newest, collector, batch in before if newest > batch]
    session.execute("CREATE OR REPLACE TEMP TABLE marks (collector BIGINT, batch BIGINT)")
    session.load("marks", ("collector", "batch"), marks)
    _note_lost(session)
    run_sql(
        session,
        "ledger/sighted.sql",
        batch=oldest_mark(session),
        quiet_permille=limits.quiet_permille,
        margin_us=MARGIN_US,
    )
    return last


def _arrived_us(batches: Sequence[int]) -> int:
    """Return by when all of these had come, by the collectors' clocks: no host's own clock makes anything later."""
    latest = max(batches, default=0) // COLLECTORS
    return latest + AHEAD_OF_SENDER if latest > EARLIEST else _FOR_EVER  # numbers that are no times are of imports


def _note_lost(session: Session) -> None:
    session.execute("CREATE OR REPLACE TEMP TABLE lost_spans (from_ms BIGINT, until_ms BIGINT, of_holders BOOLEAN)")
    spans = [
        (rows.first_at // 1000, -(-rows.last_at // 1000), rows.table == _HOLDERS)
        for rows in lost(session)
        if rows.table in (_HOLDERS, _SAMPLES) and rows.first_at is not None and rows.last_at is not None
    ]
    session.load("lost_spans", ("from_ms", "until_ms", "of_holders"), spans)


def oldest_mark(session: Session) -> int:
    """Return the batch after which all that is new lies, by which files of the lake are passed over."""
    return int(session.row("SELECT coalesce(min(batch), 9223372036854775807) FROM marks")[0])


def find_due(session: Session, versions: Versions, limits: Thresholds) -> None:
    """Fill `due` (gid, hour_ms) with what must be made anew; see the head of this module."""
    session.execute("CREATE OR REPLACE TEMP TABLE touched (gid BIGINT, first_hour BIGINT, last_hour BIGINT)")
    batch = oldest_mark(session)
    of_hosts = " UNION ".join(_HOSTS_TOUCHED.format(table=table) for table in _OF_HOSTS)
    session.execute(
        f"INSERT INTO touched SELECT g.gid, first_hour, last_hour FROM ({of_hosts}) JOIN node_gpus g USING (node)",
        {"batch": batch},
    )
    for table in _OF_PROCESSES:
        session.execute(_STARTS_TOUCHED.format(table=table), {"batch": batch, "margin_us": MARGIN_US})
    run_sql(
        session,
        "ledger/touched.sql",
        batch=batch,
        margin_us=MARGIN_US,
        starting_ms=limits.starting_ms,
    )
    _touch_before_quiet(session, limits)
    run_sql(session, "ledger/due.sql", rules=versions.rules, prices=versions.prices)
    session.execute("DELETE FROM due WHERE hour_ms * 1000 < ?", [first_judgeable(session)])
    session.execute("DELETE FROM due WHERE hour_ms + 3600000 <= (SELECT coalesce(min(from_ms), 0) FROM owned)")
    run_sql(session, "ledger/holds.sql", from_us=_first_due_us(session))
    run_sql(session, "ledger/due_later.sql")
    complete(session)


def _touch_before_quiet(session: Session, limits: Thresholds) -> None:
    first, last = session.row("SELECT min(first_at), max(first_at) FROM quiet_edges")
    if first is None:
        return
    run_sql(
        session,
        "ledger/before_quiet.sql",
        from_us=first - MARGIN_US,
        until_us=last,
        margin_us=MARGIN_US,
        quiet_permille=limits.quiet_permille,
    )


def complete(session: Session) -> None:
    """Add to `due` the other GPUs of the runs that hold any of it, and of their services, until there are none."""
    session.execute(
        """
        CREATE OR REPLACE TEMP TABLE held_hours AS
        WITH held AS (
            SELECT DISTINCT h.rid, h.gid, d.hour_ms FROM holds h JOIN (SELECT DISTINCT hour_ms FROM due) d
                ON h.from_ms < d.hour_ms + 3600000 AND h.until_ms > d.hour_ms
            WHERE d.hour_ms NOT IN (SELECT hour_ms FROM whole)
        )
        SELECT * FROM held
        UNION SELECT -r.sid, gid, hour_ms FROM held JOIN service_runs r USING (rid)
        """
    )
    before, now = -1, _count(session)
    while now > before:
        run_sql(session, "ledger/due_peers.sql")
        before, now = now, _count(session)


def _count(session: Session) -> int:
    return int(session.row("SELECT count(*) FROM due")[0])


def _first_due_us(session: Session) -> int:
    (first_ms,) = session.row("SELECT coalesce(min(hour_ms), 0) FROM due")
    return int(first_ms) * 1000


def first_judgeable(session: Session) -> int:
    """Return the microsecond from which hours have all their samples, those that reach in from before included."""
    kept = kept_from(session, ("gpu_samples", *_OF_HOSTS))
    return kept + MARGIN_US if kept else 0
