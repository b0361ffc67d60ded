"""Roll hours up: their minutes from the samples, a portion at a time, and the hours from those minutes.

Late samples have the hour rolled up again: what was there is deleted, what is known now takes its place. An hour of
many samples takes several transactions; until the last of them it is on the list of those that wait (due.py), and who
reads takes its samples instead.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.wire.units import HOUR_US, MINUTE_US
from collector.lake.tiers.pieces import Span, overlaps, pieces, told_in
from collector.store.lake import delete
from collector.tier_measures import BIN, histogram
from collector.tier_tables import Tiered

if TYPE_CHECKING:
    from collector.store.session import Session

ROWS_AT_ONCE = 125_000  # samples aggregated together: of 10,000 GPUs each is a minute of its own, in 600 MB


@dataclass(frozen=True, slots=True)
class Portion:
    """Some minutes of one table, with about so many samples. `overlapping` says that some of the hour's samples are."""

    table: Tiered
    span: Span
    samples: int
    overlapping: bool


def planned(session: "Session", table: Tiered, hours: Span, rows_at_once: int = ROWS_AT_ONCE) -> list[Portion]:
    """Return the portions, at least one, in which the minutes of whole hours are made.

    Raises:
        StoreError: the store does not answer.
    """
    if hours.start % HOUR_US or hours.end % HOUR_US:
        raise AssertionError(f"BUG: {hours} is not made of whole hours")
    (samples,) = session.row(f"SELECT count(*) FROM {table.source.name} WHERE {hours.where()}")
    overlapping = samples > 0 and overlaps(session, table, hours)
    spans = _cut(hours, samples, rows_at_once)
    return [Portion(table, span, samples // len(spans), overlapping) for span in spans]


def roll_minutes(session: "Session", portion: Portion) -> None:
    """Replace the minutes of one portion. The caller holds the transaction.

    Raises:
        StoreError: the store refused.
    """
    table, span = portion.table, portion.span
    tier = table.name("minutes")
    _empty(session, tier, span)
    if portion.samples:
        told = told_sql(table, span, MINUTE_US, overlapping=portion.overlapping)
        session.execute(f"INSERT INTO {tier} BY NAME {told}")


def roll_hours(session: "Session", table: Tiered, hours: Span, rows_at_once: int = ROWS_AT_ONCE) -> int:
    """Replace one table's hours by what its minutes say, and return how many minutes' rows there are.

    Of many minutes some hosts are aggregated at a time. The caller holds the transaction.

    Raises:
        StoreError: the store refused.
    """
    tier, minutes = table.name("hours"), table.name("minutes")
    _empty(session, tier, hours)
    (rows,) = session.row(f"SELECT count(*) FROM {minutes} WHERE {_begins_in(hours)}")
    parts = -(-rows // rows_at_once)
    for part in range(parts):
        which = f"hash(node) % {parts} = {part}" if parts > 1 else "true"
        session.execute(f"INSERT INTO {tier} BY NAME {merged_sql(table, minutes, hours, HOUR_US, which)}")
    return int(rows)


def _empty(session: "Session", tier: str, span: Span) -> None:
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
