"""Tiers: what samples come to in each minute and each hour, kept long after the samples are gone.

Hours are rolled up: their minutes from the samples, a portion at a time, and the hours from those minutes. Late samples
have the hour rolled up again: what was there is deleted, what is known now takes its place. An hour of many samples
takes several transactions; until the last of them it is on the list of those that wait, and who reads takes its samples
instead.

The hours that anything touches which arrived since are written down before they are rolled up. So a pass that ends
early leaves the rest to the next, and of two collectors that take the same hour one loses: both take its row away, and
a lake lets only one of them commit.

Samples are cut at the edges of a grid: every piece lies within one bucket, and knows of what sample it is a part.
Samples of one subject are made disjoint first: where two overlap, the earlier ends as the later begins, as in the
ledger. That needs every row's next, which costs as much as all the rest, and next to no site has any such rows; so
whether there are any is asked first, of few columns.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from agent.wire.contract import Column
from agent.wire.units import DAY_US, HOUR_US, MINUTE_US
from collector.errors import NO_MEMORY, StoreError
from collector.lake.lake_files import Outcome, writing, written
from collector.store.database import Store
from collector.store.lake import delete
from collector.store.seal_mark import COLLECTOR_BITS, COLLECTORS
from collector.store.session import Session
from collector.tier_tables import BIN, TIERED, Tiered, histogram, tiered


def kept_from(session: Session, tables: Iterable[str]) -> int:
    """Return the first microsecond from which these tables have all they ever had; 0 where nothing was dropped."""
    return all_kept_from(kept_by_table(session), tables)


def kept_by_table(session: Session) -> dict[str, int]:
    """Return the first microsecond from which each table of which anything was dropped has all it ever had."""
    return dict(session.rows("SELECT table_name, max(kept_from) FROM retention GROUP BY table_name"))


def all_kept_from(kept: Mapping[str, int], tables: Iterable[str]) -> int:
    """Return from when on all of these tables have their rows; 0 where nothing was dropped."""
    return max((kept.get(table, 0) for table in tables), default=0)


# How far back a sample may begin that still reaches into a span, and be cut short by one that ends before the span.
_MARGIN_US = 3_600_000_000


@dataclass(frozen=True, slots=True)
class Span:
    """Microseconds UTC, half-open."""

    start: int
    end: int

    def where(self) -> str:
        """Return the condition for rows that reach into the span."""
        return f"started_at < {self.end} AND ended_at > {self.start}"


def overlaps(session: Session, table: Tiered, span: Span) -> bool:
    """Say whether any two samples of one subject overlap in or shortly before a span."""
    (found,) = session.row(
        f"""
        SELECT EXISTS (SELECT 1 FROM (
            SELECT ended_at, lead(started_at) OVER (PARTITION BY {", ".join(table.keys)} ORDER BY started_at, ended_at)
                AS next_at
            FROM {table.source.name} WHERE {_near(span)}) WHERE next_at < ended_at)
        """
    )
    return bool(found)


def told_in(table: Tiered, span: Span, *, overlapping: bool, where: str = "true", names: Iterable[str] = ()) -> str:
    """Return a query for the samples that reach into a span: their columns and started_at, until_at, whole_us.

    Without `names` it is all columns: each that is carried along and not used costs time to plan.
    """
    wanted = [name for name in names or table.source.names if name not in ("started_at", "ended_at")]
    columns = ", ".join(_believed(table.source.column(name)) for name in wanted)
    if not overlapping:
        return f"""SELECT {columns}, started_at, ended_at AS until_at, ended_at - started_at AS whole_us
            FROM {table.source.name} WHERE {span.where()} AND {where}"""
    # Rows that are alike in all their times are told apart by their batch and then by everything they say, so that
    # the same rows give the same minute in whatever order they lie.
    order = ", ".join(["started_at", "ended_at", "batch", *table.source.names])
    next_at = f"lead(started_at) OVER (PARTITION BY {', '.join(table.keys)} ORDER BY {order})"
    return f"""SELECT {columns}, started_at, until_at, whole_us FROM (
        SELECT *, least(ended_at, coalesce({next_at}, ended_at)) AS until_at, ended_at - started_at AS whole_us
        FROM {table.source.name} WHERE {_near(span)} AND {where})
        WHERE started_at < {span.end} AND until_at > {span.start}"""


def _believed(column: Column) -> str:
    """Return a column of samples, null where its value is none that the contract knows.

    The door takes no such row, but a store may be older than its rules; a sum must not fail over one host's nonsense.
    NaN is beyond every number to DuckDB.
    """
    if column.range is None:
        return column.name
    low, high = column.range
    return f"CASE WHEN {column.name} BETWEEN {low!r} AND {high!r} THEN {column.name} END AS {column.name}"


def pieces(told: str, span: Span, bucket_us: int) -> str:
    """Return a query for all pieces of the samples in `told` within a span: what is told of the sample, and bucket,
    piece_from, piece_until, ms and is_whole. The span begins and ends on the grid, or keeps what lies in its first and
    last bucket.

    `told` names a materialized table expression made by `told_in`: it is read twice, for the buckets in which samples
    begin and for those into which they reach, and from Parquet that took a quarter longer.
    """
    return f"""
        SELECT *, (piece_until // 1000 - piece_from // 1000)::INTEGER AS ms,
            piece_until - piece_from = whole_us AS is_whole
        FROM (
            SELECT *, greatest(started_at, bucket, {span.start}) AS piece_from,
                least(until_at, bucket + {bucket_us}, {span.end}) AS piece_until
            FROM (
                SELECT *, started_at // {bucket_us} * {bucket_us} AS bucket FROM {told}
                UNION ALL
                SELECT *, unnest(range(greatest(started_at // {bucket_us} * {bucket_us} + {bucket_us},
                    {span.start // bucket_us * bucket_us}), least(until_at, {span.end}), {bucket_us})) FROM {told}
                WHERE (until_at - 1) // {bucket_us} > started_at // {bucket_us}))
        WHERE piece_until > piece_from
    """


def _near(span: Span) -> str:
    """Return the condition for rows that reach into the span or that may cut short one that does."""
    return f"started_at < {span.end} AND ended_at > {span.start - _MARGIN_US}"


# Batches are numbered by the clock when they are taken and may become visible in another order, a long import last.
# What was numbered so long before the mark is therefore looked at again; the newest hours are rolled up again anyway.
_UNSURE_US = HOUR_US
ROLLED = -1  # in tier_marks, in the place of a collector: the newest hour that was rolled up


def note_due(session: Session) -> int:
    """Write down the hours that what arrived since the last call touches, and return how many were new.

    Hours whose samples have expired are left out: a late sample must not replace what all of them said. The caller
    holds the transaction.

    Raises:
        StoreError: the store refused; nothing of it may be kept.
    """
    seen = dict(session.rows("SELECT collector, max(upto) FROM tier_marks GROUP BY collector"))
    newest = session.rows(f"SELECT batch & {COLLECTORS - 1}, max(batch) FROM receipts GROUP BY ALL ORDER BY ALL")
    hours: set[int] = set()
    for collector, upto in newest:
        before = seen.get(collector, -1)
        if upto > before:
            hours |= _touched(session, collector, before - (_UNSURE_US << COLLECTOR_BITS))
            session.execute("DELETE FROM tier_marks WHERE collector = ?", [collector])
            session.execute("INSERT INTO tier_marks VALUES (?, ?)", [collector, upto])
    known = set(waiting_hours(session))
    first = kept_from(session, TIERED)
    new = sorted(hour for hour in hours - known if hour >= first)
    session.load("tier_due", ("hour",), [(hour,) for hour in new])
    return len(new)


def waiting_hours(session: Session) -> list[int]:
    """Return the first microseconds of the hours that wait, ascending."""
    return [hour for (hour,) in session.rows("SELECT DISTINCT hour FROM tier_due ORDER BY hour")]


def forget_expired(session: Session) -> None:
    """Take hours off the list whose samples are gone, in the transaction that drops them.

    Rolled up again they would be empty, and what all their samples had said would be lost.
    """
    session.execute("DELETE FROM tier_due WHERE hour < ?", [kept_from(session, TIERED)])


def take_off_due(session: Session, hours: Span, now_us: int | None = None) -> None:
    """Take hours off the list, in the transaction that rolls them up, and note how far that has come.

    That is to the hour of `now_us` at most (None: history, of which all is over): a host's clock may be a day ahead,
    and an hour that has not begun would keep everybody's readers from the samples of this one.
    """
    session.execute("DELETE FROM tier_due WHERE hour >= ? AND hour < ?", [hours.start, hours.end])
    (rolled,) = session.row("SELECT coalesce(max(upto), 0) FROM tier_marks WHERE collector = ?", [ROLLED])
    newest = hours.end - HOUR_US
    if now_us is not None:
        newest = min(newest, now_us // HOUR_US * HOUR_US)
    if newest >= hours.start and newest > rolled:
        session.execute("DELETE FROM tier_marks WHERE collector = ?", [ROLLED])
        session.execute("INSERT INTO tier_marks VALUES (?, ?)", [ROLLED, newest])


def _touched(session: Session, collector: int, after: int) -> set[int]:
    # Written out, not as parameters: the lake then knows which files cannot have any.
    fresh = f"batch > {after} AND batch & {COLLECTORS - 1} = {collector}"
    parts = [f"SELECT started_at, ended_at FROM {table} WHERE {fresh}" for table in written(session, TIERED)]
    if not parts:
        return set()
    rows = session.rows(
        f"""
        SELECT DISTINCT unnest(range(first, last + 1)) * {HOUR_US} FROM (
            SELECT DISTINCT started_at // {HOUR_US} AS first, greatest(ended_at - 1, started_at) // {HOUR_US} AS last
            FROM ({" UNION ALL ".join(parts)}))
        """
    )
    return {hour for (hour,) in rows}


ROWS_AT_ONCE = 125_000  # samples aggregated together: of 10,000 GPUs each is a minute of its own, in 600 MB


@dataclass(frozen=True, slots=True)
class Portion:
    """Some minutes of one table, with about so many samples. `overlapping` says that some of the hour's samples are."""

    table: Tiered
    span: Span
    samples: int
    overlapping: bool


def planned(session: Session, table: Tiered, hours: Span, rows_at_once: int = ROWS_AT_ONCE) -> list[Portion]:
    """Return the portions, at least one, in which the minutes of whole hours are made."""
    if hours.start % HOUR_US or hours.end % HOUR_US:
        raise AssertionError(f"BUG: {hours} is not made of whole hours")
    (samples,) = session.row(f"SELECT count(*) FROM {table.source.name} WHERE {hours.where()}")
    overlapping = samples > 0 and overlaps(session, table, hours)
    spans = _cut(hours, samples, rows_at_once)
    return [Portion(table, span, samples // len(spans), overlapping) for span in spans]


def roll_minutes(session: Session, portion: Portion) -> None:
    """Replace the minutes of one portion. The caller holds the transaction."""
    table, span = portion.table, portion.span
    tier = table.name("minutes")
    _empty(session, tier, span)
    if portion.samples:
        told = told_sql(table, span, MINUTE_US, overlapping=portion.overlapping)
        session.execute(f"INSERT INTO {tier} BY NAME {told}")


def roll_hours(session: Session, table: Tiered, hours: Span, rows_at_once: int = ROWS_AT_ONCE) -> int:
    """Replace one table's hours by what its minutes say, and return how many minutes' rows there are.

    Of many minutes some hosts are aggregated at a time. The caller holds the transaction.
    """
    tier, minutes = table.name("hours"), table.name("minutes")
    _empty(session, tier, hours)
    (rows,) = session.row(f"SELECT count(*) FROM {minutes} WHERE {_begins_in(hours)}")
    parts = -(-rows // rows_at_once)
    for part in range(parts):
        which = f"hash(node) % {parts} = {part}" if parts > 1 else "true"
        session.execute(f"INSERT INTO {tier} BY NAME {merged_sql(table, minutes, hours, HOUR_US, which)}")
    return int(rows)


def _empty(session: Session, tier: str, span: Span) -> None:
    if session.rows(f"SELECT 1 FROM {tier} WHERE {_begins_in(span)} LIMIT 1"):
        delete(session, f"DELETE FROM {tier} WHERE {_begins_in(span)}")


def _cut(hours: Span, samples: int, rows_at_once: int) -> list[Span]:
    """Return the span in as many parts as keep an aggregation within bounds."""
    minutes = (hours.end - hours.start) // MINUTE_US
    step = max(1, min(minutes, minutes * rows_at_once // max(1, samples))) * MINUTE_US
    return [Span(start, min(start + step, hours.end)) for start in range(hours.start, hours.end, step)]


def told_sql(table: Tiered, span: Span, bucket_us: int, *, overlapping: bool) -> str:
    """Return a query for the rows of a tier within a span, from samples."""
    keys = ", ".join(table.keys)
    kept = ", ".join(f"{kept.told} AS {kept.name}" for kept in table.kept)
    return _with_histograms(
        table,
        f"told AS MATERIALIZED ({told_in(table, span, overlapping=overlapping)}), "
        f"piece AS ({pieces('told', span, bucket_us)})",
        f"SELECT {keys}, bucket, {kept} FROM piece GROUP BY {keys}, bucket",
        {
            name: f"""SELECT {keys}, bucket, (round(1000 * {name})::SMALLINT // {BIN} * {BIN})::SMALLINT AS bin, ms
                FROM piece WHERE {name} IS NOT NULL AND ms > 0"""
            for name in table.histograms
        },
    )


def merged_sql(table: Tiered, finer: str, span: Span, bucket_us: int, which: str = "true") -> str:
    """Return a query for the rows of coarser buckets, from those of a finer tier; `which` is a condition on hosts."""
    keys = ", ".join(table.keys)
    bucket = f"started_at // {bucket_us} * {bucket_us}"
    kept = ", ".join(f"{kept.merged} AS {kept.name}" for kept in table.kept)
    return _with_histograms(
        table,
        f"piece AS (SELECT * FROM {finer} WHERE {_begins_in(span)} AND {which})",
        f"SELECT {keys}, {bucket} AS bucket, {kept} FROM piece GROUP BY {keys}, {bucket}",
        {
            name: f"""SELECT {keys}, {bucket} AS bucket, entry.key AS bin, entry.value AS ms FROM (
                SELECT {keys}, started_at, unnest(map_entries({histogram(name)})) AS entry FROM piece)"""
            for name in table.histograms
        },
    )


def _with_histograms(table: Tiered, source: str, rows: str, bins: dict[str, str]) -> str:
    """Return the query of a tier's rows, each with its distributions; both from one `source`."""
    parts, joins, columns = [source, f"rows AS ({rows})"], "", ""
    for name, entries in bins.items():
        parts.append(_distribution(table, name, entries))
        alike = " AND ".join(f"rows.{key} IS NOT DISTINCT FROM d_{name}.{key}" for key in table.keys)
        joins += f" LEFT JOIN d_{name} ON rows.bucket = d_{name}.bucket AND {alike}"
        columns += f", d_{name}.{histogram(name)}"
    order = ", ".join(f"rows.{key}" for key in (*table.keys, "bucket"))
    return f"""WITH {", ".join(parts)}
        SELECT rows.* EXCLUDE (bucket), rows.bucket AS started_at{columns} FROM rows{joins} ORDER BY {order}"""


def _distribution(table: Tiered, name: str, entries: str) -> str:
    keys = ", ".join(table.keys)
    return f"""d_{name} AS (
        SELECT {keys}, bucket, map(list(bin ORDER BY bin), list(ms ORDER BY bin)) AS {histogram(name)} FROM (
            SELECT {keys}, bucket, bin, sum(ms)::INTEGER AS ms FROM ({entries}) GROUP BY {keys}, bucket, bin)
        GROUP BY {keys}, bucket)"""


def _begins_in(span: Span) -> str:
    """Return the condition for rows that begin within a span."""
    return f"started_at >= {span.start} AND started_at < {span.end}"


# What a transaction costs, several hours cost once; but it should not be lost with more than so much work in it.
_UNIT_SECONDS = 15.0
# What else the server does takes of the same memory. Where it does not suffice, less is aggregated at once.
ROWS_LEAST = 10_000


def roll_up(
    store: Store, deadline: float, give_way: Callable[[], None] = lambda: None, now_us: int | None = None
) -> Outcome:
    """Roll up what waits until the deadline (time.monotonic); `give_way` is called before each transaction.

    Hours after that of `now_us` are rolled up too, and readers go on to take their samples; None is history.

    Raises:
        StoreError: the store refused some hours; those before them are kept.
    """
    with writing(store) as session:
        note_due(session)
        waiting = waiting_hours(session)
    done = rows = 0
    most, rows_at_once = 1, ROWS_AT_ONCE
    while done < len(waiting) and not (done and time.monotonic() > deadline):
        hours = _together(waiting[done:], most)
        began = time.monotonic()
        try:
            rows += _rolled(store, hours, give_way, now_us, rows_at_once)
        except StoreError as error:
            if NO_MEMORY not in str(error) or rows_at_once <= ROWS_LEAST:
                raise
            most, rows_at_once = 1, max(ROWS_LEAST, rows_at_once // 4)
            continue
        taken = (hours.end - hours.start) // HOUR_US
        most = max(1, int(_UNIT_SECONDS * taken / max(time.monotonic() - began, 0.001)))
        done += taken
    left = len(waiting) - done
    said = f"{done} hours rolled up to {rows} minutes" + (f", {left} wait" if left else "")
    return Outcome(said, done, again=left > 0)


def _rolled(store: Store, hours: Span, give_way: Callable[[], None], now_us: int | None, rows_at_once: int) -> int:
    """Roll hours up, in one transaction if that is short; return how many minutes' rows there are.

    Others wait for it: where there are more samples, each portion has a transaction of its own, and the hours are off
    the list of those that wait with the last.
    """
    with store.session() as session:
        tables = [tiered(name) for name in written(session, TIERED)]
        portions = [portion for table in tables for portion in planned(session, table, hours, rows_at_once)]
    if sum(portion.samples for portion in portions) > rows_at_once:
        for portion in portions:
            give_way()
            with writing(store) as session:
                roll_minutes(session, portion)
        portions = []
    give_way()
    with writing(store) as session:
        take_off_due(session, hours, now_us)
        for portion in portions:
            roll_minutes(session, portion)
        return sum(roll_hours(session, table, hours, rows_at_once) for table in tables)


def _together(waiting: list[int], most: int) -> Span:
    """Return the first of the hours that wait, with those that follow it at once: of one day, and not too many."""
    first = waiting[0]
    end = first + HOUR_US
    while end in waiting and end % DAY_US and end - first < most * HOUR_US:
        end += HOUR_US
    return Span(first, end)
