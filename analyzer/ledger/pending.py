"""Which hours of which GPUs the ledger must make anew, so that the same input gives the same ledger in any order.

Those that anything new touches, of a run the later ones too, since its yardstick is made of what came before; those
judged by other rules, and those that an earlier pass could not settle or never reached.

Hours whose samples have expired are left as they are, whatever is learned of them: made anew, they would say that
nothing had been measured. From when on there are samples is written down by who drops them (the table `retention`).

Each statement that reads a table of a lake asks the catalogue for its columns, files and statistics, over a network in
a fleet. Most sites have no services, no flows or no progress, and a pass reads each of those tables many times.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from agent.wire.contract import AHEAD_OF_SENDER, EARLIEST
from agent.wire.tables import TABLES
from agent.wire.units import HOUR_MS, HOUR_US
from analyzer.ledger.believed import show_believed
from analyzer.ledger.boards import load_boards
from analyzer.ledger.thresholds import LOOK_AHEAD_MS, Thresholds
from analyzer.period import Calendar, local, micros
from analyzer.queries.statements import run as run_sql
from analyzer.queries.statements import statements
from collector.lake.tiers import kept_from
from collector.store.books import AMOUNTS, DATED
from collector.store.lake import tables_with_rows
from collector.store.noted import lost
from collector.store.schemas import nothing_of
from collector.store.seal_mark import COLLECTORS
from collector.store.session import Session

LOOK_AHEAD_US = LOOK_AHEAD_MS * 1000
CLOSES_AFTER = timedelta(hours=48)


def status_of_hour(hour_us: int, known_until_us: int, now_us: int, calendar: Calendar) -> str:
    """Return provisional, open, closed or final."""
    if hour_us + HOUR_US + LOOK_AHEAD_US > known_until_us and now_us < micros(closes_at(hour_us, calendar)):
        return "provisional"
    if now_us < micros(closes_at(hour_us, calendar)):
        return "open"
    return "final" if now_us >= micros(final_at(hour_us, calendar)) else "closed"


def close_hours(session: Session, calendar: Calendar, now_us: int, *, provisional: bool) -> None:
    """Close the hours whose time has come, whether or not anything new is known of them.

    Hours that an earlier pass settled are closed before a pass, so that what it learns becomes an adjustment.
    Provisional ones are closed after it: it may yet complete them.
    """
    (known_us,) = session.row("SELECT until_us FROM known")
    rows = session.rows(
        "SELECT hour, status FROM ledger_hours WHERE status <> 'final' AND (status = 'provisional') = ? ORDER BY hour",
        [provisional],
    )
    now = [(hour, before, status_of_hour(hour, known_us, now_us, calendar)) for hour, before in rows]
    for hour, before, status in now:
        if status != before and status in ("closed", "final"):
            session.execute("UPDATE ledger_hours SET status = ? WHERE hour = ?", [status, hour])


def settle_hours(session: Session) -> None:
    """Open the provisional hours whose look-ahead has passed, and write down up to when all is booked."""
    (known_us,) = session.row("SELECT until_us FROM known")
    session.execute(
        "UPDATE ledger_hours SET status = 'open' WHERE status = 'provisional' AND hour <= ?",
        [(known_us or 0) - HOUR_US - LOOK_AHEAD_US],
    )
    session.execute("DELETE FROM analysed_until")
    if known_us is not None:
        session.load("analysed_until", ("until_us",), [[known_us]])


def reached_until(session: Session) -> int:
    """Return up to when the last pass found anything to book, in microseconds; 0 where none has."""
    return int(session.row("SELECT coalesce(max(until_us), 0) FROM analysed_until")[0])


def is_reached(session: Session, until_us: int) -> bool:
    """Return whether passes came to the last hour before a moment.

    Where telemetry stopped, or a pass is under way, owned hours before it are still to be booked, whatever the clock
    says: a period of which they are part is not closed.
    """
    return reached_until(session) > until_us - HOUR_US


def closes_at(hour_us: int, calendar: Calendar) -> datetime:
    """Return when the week of this hour closes: 48 hours after its last."""
    here = local(hour_us, calendar.timezone)
    since = (here.weekday() - calendar.first_weekday) % 7
    next_week = here.date() + timedelta(days=7 - since)
    ends = datetime(next_week.year, next_week.month, next_week.day, tzinfo=ZoneInfo(calendar.timezone))
    return ends.astimezone(UTC) + CLOSES_AFTER  # in UTC, where 48 hours are 48 hours in a night of a clock change too


def final_at(hour_us: int, calendar: Calendar) -> datetime:
    """Return when the month of this hour is final: with its end, and never before its week is closed."""
    here = local(hour_us, calendar.timezone)
    month = datetime(here.year + here.month // 12, here.month % 12 + 1, 1, tzinfo=ZoneInfo(calendar.timezone))
    return max(month, closes_at(hour_us, calendar))


def hide_unwritten(session: Session) -> None:
    """Put empty views of this session in the place of the contract's tables into which nobody has ever written a row.

    It is called in the transaction that reads up to which batch a pass goes, after that has read of the lake: what is
    written later is of a later batch, and the next pass's. Nothing is done where there is no lake.
    """
    if not session.search_path.startswith("lake."):
        return
    unwritten = TABLES.keys() - tables_with_rows(session, "main")
    session.without_rows |= unwritten
    for table in unwritten:
        session.execute(f"CREATE OR REPLACE TEMP VIEW {table} AS {nothing_of(table)}")


# A table's estimate counts all that was ever put into it, deleted or not.
_EMPTY = (
    "SELECT table_name FROM duckdb_tables() WHERE concat(database_name, '.', schema_name) = ? AND estimated_size = 0"
)
# That list would count the rows of each table of a lake too, which takes twenty times as long as to look into these.
_EMPTY_BOOKS = " UNION ALL ".join(
    f"SELECT '{table}' WHERE NOT EXISTS (FROM {{hot}}.{table})" for table in (*DATED, *AMOUNTS)
)


def know_empty(session: Session) -> None:
    """Note which tables of the store have no row; beside a lake, which says it of the contract's, of the ledger's."""
    lake, _, own = session.search_path.rpartition(",")
    if not lake:
        session.without_rows |= {table for (table,) in session.rows(_EMPTY, [own])}
    elif own.startswith("lake."):  # the hot file is another process's
        session.without_rows |= {*DATED, *AMOUNTS} - tables_with_rows(session, "books")
    else:
        session.without_rows |= {table for (table,) in session.rows(_EMPTY_BOOKS.format(hot=own))}


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
# What is read and computed says of the hour before whether it went on to load: loading.sql.
_OF_LOADS = (*_OF_PROCESSES, "disk_samples", "network_samples")
_LOADS_TOUCHED = """
INSERT INTO touched
SELECT DISTINCT s.gid, s.hour // 3600000000, s.hour // 3600000000
FROM {table} t JOIN marks m ON m.collector = t.batch & 255 AND t.batch > m.batch
JOIN starting_at s ON s.node = t.node AND s.hour = (t.started_at // 3600000000 - 1) * 3600000000
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
    session.rows("SELECT 1 FROM receipts LIMIT 1")  # of a lake the pass sees no more than is written now
    show_believed(session)
    hide_unwritten(session)
    know_empty(session)
    last = _mark_arrivals(session, limits)
    load_boards(session, limits)
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
    if _is_any_booked(session):
        _find_touched(session, limits)
    run_sql(session, "ledger/due.sql", rules=versions.rules, prices=versions.prices)
    session.execute("DELETE FROM due WHERE hour_ms * 1000 < ?", [first_judgeable(session)])
    session.execute("DELETE FROM due WHERE hour_ms + 3600000 <= (SELECT coalesce(min(from_ms), 0) FROM owned)")
    run_sql(session, "ledger/holds.sql", from_us=_first_due_us(session))
    run_sql(session, "ledger/due_later.sql")
    complete(session)


def _is_any_booked(session: Session) -> bool:
    """Return whether an hour was booked before; where none was, each that has an owner is due whatever touches it."""
    return "ledger_hours" not in session.without_rows


def _find_touched(session: Session, limits: Thresholds) -> None:
    """Fill `touched` with the hours that anything touches which came since the last pass."""
    batch = oldest_mark(session)
    if of_hosts := [_HOSTS_TOUCHED.format(table=table) for table in _OF_HOSTS if table not in session.without_rows]:
        told = " UNION ".join(of_hosts)
        session.execute(
            f"INSERT INTO touched SELECT g.gid, first_hour, last_hour FROM ({told}) JOIN node_gpus g USING (node)",
            {"batch": batch},
        )
    for table in set(_OF_PROCESSES) - session.without_rows:
        session.execute(_STARTS_TOUCHED.format(table=table), {"batch": batch, "margin_us": MARGIN_US})
    run_sql(
        session,
        "ledger/touched.sql",
        batch=batch,
        margin_us=MARGIN_US,
        starting_ms=limits.starting_ms,
    )
    for table in set() if "starting_at" in session.without_rows else set(_OF_LOADS) - session.without_rows:
        session.execute(_LOADS_TOUCHED.format(table=table), {"batch": batch, "margin_us": MARGIN_US})
    _touch_before_quiet(session, limits)


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
    (add_peers,) = statements("ledger/due_peers.sql")
    while session.changed(add_peers):
        pass


def _first_due_us(session: Session) -> int:
    (first_ms,) = session.row("SELECT coalesce(min(hour_ms), 0) FROM due")
    return int(first_ms) * 1000


def first_judgeable(session: Session) -> int:
    """Return the microsecond from which hours have all their samples, those that reach in from before included."""
    kept = kept_from(session, ("gpu_samples", *_OF_HOSTS))
    return kept + MARGIN_US if kept else 0


GPU_HOURS = 11_000  # in one chunk of several hours: four million samples at one in ten seconds
GPUS = 12_000  # in one chunk of one hour: each part of an hour reads that hour's samples anew


def cut(session: Session) -> list[Chunk]:
    """Fill `due_groups` (gid, hour_ms, part) and return the chunks in order of time."""
    session.execute("CREATE OR REPLACE TEMP TABLE due_groups AS SELECT gid, hour_ms, 0::BIGINT AS part FROM due")
    counts = session.rows("SELECT hour_ms, count(*) FROM due GROUP BY hour_ms ORDER BY hour_ms")
    chunks: list[Chunk] = []
    for hours, gpu_hours in _abutting(counts):
        chunks += _parts(session, hours[0]) if gpu_hours > GPUS else [Chunk(hours[0], hours[-1] + HOUR_MS)]
    return chunks


def spans(session: Session, hours: Sequence[int], gpu_hours: int, *, least_hours: int = 1) -> list[tuple[int, int]]:
    """Cut hours of the ledger into spans of about so many GPU-hours, first and last hour of each."""
    if not hours:
        return []
    (gpus,) = session.row("SELECT count(DISTINCT gpu_uuid) FROM ledger WHERE hour = ?", [hours[-1]])
    most = max(least_hours, gpu_hours // max(1, gpus))
    return [(hours[at], hours[min(at + most, len(hours)) - 1]) for at in range(0, len(hours), most)]


def _abutting(counts: Iterable[tuple[int, int]]) -> Iterator[tuple[list[int], int]]:
    """Yield lists of hours that follow on one another, with their GPU-hours."""
    hours: list[int] = []
    total = 0
    for hour_ms, count in counts:
        if hours and (hour_ms != hours[-1] + HOUR_MS or total + count > GPU_HOURS):
            yield hours, total
            hours, total = [], 0
        hours.append(hour_ms)
        total += count
    if hours:
        yield hours, total


def _parts(session: Session, hour_ms: int) -> list[Chunk]:
    """Divide the GPUs of one hour into even parts of which no run, and no service, is in two."""
    edges = session.rows(
        """
        WITH held AS (
            SELECT DISTINCT h.rid, h.gid FROM holds h JOIN due d ON d.gid = h.gid AND d.hour_ms = ?
            WHERE h.from_ms < ? AND h.until_ms > ?
        )
        SELECT * FROM held
        UNION SELECT -r.sid, gid FROM held JOIN service_runs r USING (rid) ORDER BY ALL
        """,
        [hour_ms, hour_ms + HOUR_MS, hour_ms],
    )
    gpus = [gid for (gid,) in session.rows("SELECT gid FROM due WHERE hour_ms = ? ORDER BY gid", [hour_ms])]
    part_of: dict[int, int] = {}
    part = filled = 0
    for together in _components(gpus, edges):
        if filled and filled + len(together) > GPUS:
            part, filled = part + 1, 0
        filled += len(together)
        part_of.update(dict.fromkeys(together, part))
    session.execute("DELETE FROM due_groups WHERE hour_ms = ?", [hour_ms])
    session.load("due_groups", ("gid", "hour_ms", "part"), [(gid, hour_ms, which) for gid, which in part_of.items()])
    return [Chunk(hour_ms, hour_ms + HOUR_MS, number, number == part) for number in range(part + 1)]


def _components(gpus: Iterable[int], edges: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Return the GPUs that runs hold together, in the order of their first."""
    root = {gid: gid for gid in gpus}

    def find(gid: int) -> int:
        while root[gid] != gid:
            root[gid] = root[root[gid]]
            gid = root[gid]
        return gid

    first_of: dict[int, int] = {}
    for run, gid in edges:
        one, other = find(first_of.setdefault(run, gid)), find(gid)
        root[max(one, other)] = min(one, other)
    found: dict[int, list[int]] = defaultdict(list)
    for gid in sorted(root):
        found[find(gid)].append(gid)
    return list(found.values())
