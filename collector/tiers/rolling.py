"""Roll hours up: their minutes from the samples, their lines of the hours from those minutes; whole, and in one piece.

Late samples have the hour rolled up again: what was there is deleted, what is known now takes its place, in the same
transaction. Who reads meanwhile sees the one or the other.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from collector.store.lake import delete
from collector.tiers.measures import BIN, histogram
from collector.tiers.pieces import Span, overlaps, pieces
from collector.tiers.tables import HOUR_US, MINUTE_US, TIERED, Tiered, tiered

if TYPE_CHECKING:
    from collector.store.session import Session

ROWS_AT_ONCE = 1_000_000  # samples aggregated together; an hour of more is taken some minutes at a time


def roll(session: "Session", hours: Span, tables: Iterable[str] = TIERED) -> int:
    """Replace all minutes and hours of these tables that begin in a span of whole hours; return how many minutes' rows.

    The caller holds the transaction.

    Raises:
        StoreError: the store refused; nothing of it may be kept.
    """
    if hours.start % HOUR_US or hours.end % HOUR_US:
        raise AssertionError(f"BUG: {hours} is not made of whole hours")
    return sum(_roll(session, tiered(name), hours) for name in tables)


def _roll(session: "Session", table: Tiered, hours: Span) -> int:
    minute_tier, hour_tier = table.name("minutes"), table.name("hours")
    for tier in (minute_tier, hour_tier):
        if session.rows(f"SELECT 1 FROM {tier} WHERE {begins_in(hours)} LIMIT 1"):
            delete(session, f"DELETE FROM {tier} WHERE {begins_in(hours)}")
    (samples,) = session.row(f"SELECT count(*) FROM {table.source.name} WHERE {hours.where()}")
    if not samples:
        return 0
    overlapping = overlaps(session, table, hours)
    for span in _portions(hours, samples):
        session.execute(
            f"INSERT INTO {minute_tier} BY NAME {told_sql(table, span, MINUTE_US, overlapping=overlapping)}"
        )
    session.execute(f"INSERT INTO {hour_tier} BY NAME {merged_sql(table, minute_tier, hours, HOUR_US)}")
    (rows,) = session.row(f"SELECT count(*) FROM {minute_tier} WHERE {begins_in(hours)}")
    return int(rows)


def _portions(hours: Span, samples: int) -> list[Span]:
    """Return the span in as many parts as keep an aggregation within bounds."""
    minutes = (hours.end - hours.start) // MINUTE_US
    step = max(1, min(minutes, minutes * ROWS_AT_ONCE // samples)) * MINUTE_US
    return [Span(start, min(start + step, hours.end)) for start in range(hours.start, hours.end, step)]


def told_sql(table: Tiered, span: Span, bucket_us: int, *, overlapping: bool) -> str:
    """Return a query for the rows of a tier within a span, from samples."""
    keys = ", ".join(table.keys)
    kept = ", ".join(f"{kept.told} AS {kept.name}" for kept in table.kept)
    return _with_histograms(
        table,
        f"piece AS MATERIALIZED ({pieces(table, span, bucket_us, overlapping=overlapping)})",
        f"SELECT {keys}, bucket, {kept} FROM piece GROUP BY {keys}, bucket",
        {
            name: f"""SELECT {keys}, bucket, (round(1000 * {name})::SMALLINT // {BIN} * {BIN})::SMALLINT AS bin, ms
                FROM piece WHERE {name} IS NOT NULL AND ms > 0"""
            for name in table.histograms
        },
    )


def merged_sql(table: Tiered, finer: str, span: Span, bucket_us: int) -> str:
    """Return a query for the rows of coarser buckets, from those of a finer tier."""
    keys = ", ".join(table.keys)
    bucket = f"started_at // {bucket_us} * {bucket_us}"
    kept = ", ".join(f"{kept.merged} AS {kept.name}" for kept in table.kept)
    return _with_histograms(
        table,
        f"piece AS (SELECT * FROM {finer} WHERE {begins_in(span)})",
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


def begins_in(span: Span) -> str:
    """Return the condition for rows that begin within a span."""
    return f"started_at >= {span.start} AND started_at < {span.end}"
