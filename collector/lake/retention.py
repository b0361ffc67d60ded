"""The job that drops what is too old, or too much: whole days, oldest first, samples before minutes before hours.

The ledger, its money and its amounts are never dropped, nor what a scheduler or an inventory said: they are small, and
every figure of a report comes from them. By age nothing goes whose hours are not rolled up and in the ledger with their
amounts; by bytes it may have to, and is then counted by itself, because it is lost unjudged.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agent.wire.units import DAY_US, HOUR_US
from collector.lake.lake_files import LakeFile, Outcome, files, writing, written
from collector.lake.tiers import forget_expired, note_due, waiting_hours
from collector.store.database import Store
from collector.store.lake import delete
from collector.store.session import Session
from collector.tier_tables import LONG, RAW, TIERED, droppable, layouts, tier_of

_TIERS = ("raw", "minutes", "hours")

# What the ledger asks of all samples there ever were (fleet.sql, runs.sql): from when to when each GPU was seen, which
# is what is owned where nobody declares it, and which runs served.
_MEMORIES = {
    "gpu_samples": (
        "gpus_seen",
        "SELECT gpu_uuid, min(node), max(parent_uuid), min(started_at), max(ended_at) "
        "FROM gpu_samples WHERE started_at < {cut} GROUP BY gpu_uuid",
        "SELECT gpu_uuid, min(node) AS node, max(parent_uuid) AS parent_uuid, min(first_at) AS first_at, "
        "max(last_at) AS last_at",
    ),
    "service_samples": (
        "services_seen",
        "SELECT run_id, min(started_at), max(ended_at), min(model), max(model) "
        "FROM service_samples WHERE started_at < {cut} GROUP BY run_id",
        "SELECT run_id, min(first_at) AS first_at, max(last_at) AS last_at, min(model_first) AS model_first, "
        "max(model_last) AS model_last",
    ),
}


@dataclass(frozen=True, slots=True)
class Keeping:
    """For how many days each tier is kept, tables that differ, and how many bytes the lake may hold; 0 is no bound."""

    raw_days: int = 14
    minute_days: int = 90
    hour_days: int = 400
    tables: Mapping[str, int] | None = None
    bytes: int = 0

    def days(self, table: str) -> int:
        """Return for how many days a table is kept."""
        by_tier = {"raw": self.raw_days, "minutes": self.minute_days, "hours": self.hour_days}
        usual = self.hour_days if table in LONG else by_tier[tier_of(table)]
        return (self.tables or {}).get(table, usual)


@dataclass(frozen=True, slots=True)
class Dropped:
    """What a pass dropped: rows by table, and those that went unjudged; and days that wait for the ledger."""

    rows: Mapping[str, int]
    unjudged: int
    held_days: int


def drop(store: Store, keeping: Keeping, now_us: int, tell: Callable[[Dropped], None]) -> Outcome:
    """Drop what is over its age, then what is over the bytes.

    Raises:
        StoreError: the store refused; what was dropped before is written down.
    """
    today = now_us // DAY_US * DAY_US
    cuts = {table: today - keeping.days(table) * DAY_US for table in droppable()}
    with store.session() as session:
        is_due = bool(_older(session, {table: cuts[table] for table in TIERED}))
    if is_due:  # the job that rolls up may never have come so far as to write down what waits
        with writing(store) as session:
            note_due(session)
    with store.session() as session:
        judged = judged_until(session, store)
        held = sum(
            max(0, cuts[table] - judged) // DAY_US
            for table in _older(session, {table: cuts[table] for table in RAW[:1]})
        )
    for table in (*RAW, *LONG):
        cuts[table] = min(cuts[table], judged)
    rows = _drop(store, cuts, "age", now_us)
    crowded, unjudged = _over_bytes(store, keeping, today, now_us, judged) if keeping.bytes and store.lake else ({}, 0)
    for table, count in crowded.items():
        rows[table] = rows.get(table, 0) + count
    dropped = Dropped({table: count for table, count in rows.items() if count}, unjudged, held)
    tell(dropped)
    return Outcome(_said(dropped), sum(rows.values()))


def judged_until(session: Session, store: Store) -> int:
    """Return the day up to which every hour is rolled up and in the ledger with its amounts, not provisional."""
    (until,) = session.row(
        f"""
        WITH judged AS ({_judged(store)}), known AS (
            SELECT DISTINCT started_at AS hour FROM gpu_hours UNION SELECT hour FROM judged WHERE NOT is_settled
        )
        SELECT min(hour) FROM known WHERE hour NOT IN (SELECT hour FROM judged WHERE is_settled)
        """
    )
    (last,) = session.row(f"SELECT max(hour) FROM ({_judged(store)}) WHERE is_settled")
    waiting = waiting_hours(session)
    # Nothing is known of hours beyond the last that is judged: samples that are there are not rolled up yet.
    ends = [0 if last is None else last + HOUR_US, *([] if until is None else [until]), *waiting[:1]]
    return int(min(ends)) // DAY_US * DAY_US


def _judged(store: Store) -> str:
    """Return a query for the hours of the ledger: the file's own, and those that an analyzer elsewhere mirrored.

    One whose amounts nobody has booked is not settled: its samples are all that tells of them.
    """
    places = ([store.hot] if store.hot else []) + (["lake.books"] if store.lake else [])
    every = " UNION ALL ".join(
        f"SELECT hour, status <> 'provisional' AND hour IN (SELECT hour FROM {place}.amount_hours) AS is_settled "
        f"FROM {place}.ledger_hours"
        for place in places
    )
    return f"SELECT hour, bool_or(is_settled) AS is_settled FROM ({every}) GROUP BY hour"


def _older(session: Session, cuts: Mapping[str, int]) -> dict[str, int]:
    """Return those with rows that began before their cut: one question, since each would ask the catalogue anew."""
    each = [
        f"(SELECT '{table}' FROM {table} WHERE started_at < {cuts[table]} LIMIT 1)" for table in written(session, cuts)
    ]
    held = {table for (table,) in session.rows(" UNION ALL ".join(each))} if each else set()
    return {table: before_us for table, before_us in cuts.items() if table in held}


def _drop(store: Store, cuts: Mapping[str, int], reason: str, now_us: int) -> dict[str, int]:
    """Drop the rows of each table that began before its cut, each table in a transaction of its own; samples in one."""
    rows: dict[str, int] = {}
    with store.session() as session:
        old = _older(session, cuts)
    samples = {table: cut for table, cut in old.items() if table in TIERED}
    others = [{table: cut} for table, cut in old.items() if table not in TIERED]
    for together in (samples, *others):
        if together:
            with writing(store) as session:
                rows |= {table: _drop_one(session, table, cut, reason, now_us) for table, cut in together.items()}
                forget_expired(session)
    return rows


def _drop_one(session: Session, table: str, cut: int, reason: str, now_us: int) -> int:
    if table in _MEMORIES:
        _remember(session, *_MEMORIES[table], cut)
    (rows,) = session.row(f"SELECT count(*) FROM {table} WHERE started_at < {cut}")
    delete(session, f"DELETE FROM {table} WHERE started_at < {cut}")
    session.execute("INSERT INTO retention VALUES (?, ?, ?, ?, ?)", [table, cut, rows, reason, now_us])
    return int(rows)


def _remember(session: Session, memory: str, query: str, merge: str, cut: int) -> None:
    """Add to a memory what the rows that go have to say."""
    told = query.format(cut=cut)
    session.execute(
        f"CREATE OR REPLACE TEMP TABLE so_far AS {merge} FROM (SELECT * FROM {memory} UNION ALL {told}) GROUP BY ALL"
    )
    delete(session, f"DELETE FROM {memory}")
    session.execute(f"INSERT INTO {memory} SELECT * FROM so_far ORDER BY ALL")
    session.execute("DROP TABLE so_far")


def _over_bytes(store: Store, keeping: Keeping, today: int, now_us: int, judged: int) -> tuple[dict[str, int], int]:
    """Drop the oldest days until the lake's files fit, samples before minutes before hours; never today's."""
    clocks = {layout.table: layout.clock for layout in layouts().values()}
    with store.session() as session:
        there = files(session, clocks)
    cuts = cuts_for_bytes(there, keeping.bytes, today)
    rows = _drop(store, cuts, "bytes", now_us)
    early = any(cut > judged for table, cut in cuts.items() if table in RAW)
    return rows, sum(count for table, count in rows.items() if table in RAW) if early else 0


def cuts_for_bytes(there: list[LakeFile], bound: int, today: int) -> dict[str, int]:
    """Return from when on each table is kept so that what is left fits; a file's bytes lie evenly over its time."""
    left = sum(file.bytes for file in there) - bound
    cuts: dict[str, int] = {}
    for tier in _TIERS:
        tables = {name for name in droppable() if tier_of(name) == tier and name not in LONG}
        held = [file for file in there if file.table in tables]
        for day in range(min((f.first for f in held), default=today) // DAY_US * DAY_US, today, DAY_US):
            if left <= 0:
                return cuts
            left -= sum(_bytes_before(file, day + DAY_US) - _bytes_before(file, day) for file in held)
            cuts |= dict.fromkeys(tables, day + DAY_US)
    return cuts


def _bytes_before(file: LakeFile, moment: int) -> int:
    span = file.last + 1 - file.first
    return file.bytes * min(max(moment - file.first, 0), span) // span


def _said(dropped: Dropped) -> str:
    parts = [f"{sum(dropped.rows.values())} rows of {len(dropped.rows)} tables dropped"]
    if dropped.unjudged:
        parts.append(f"{dropped.unjudged} of them were never analyzed: there is less space than keep_bytes allows for")
    if dropped.held_days:
        parts.append(f"{dropped.held_days} days wait to be rolled up and booked in the ledger")
    return "; ".join(parts)
