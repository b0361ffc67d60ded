"""Samples cut at the edges of a grid: every piece lies within one bucket, and knows of what sample it is a part.

Samples of one subject are made disjoint first: where two overlap, the earlier ends as the later begins, as in the
ledger. That needs every row's next, which costs as much as all the rest, and next to no site has any such rows; so
whether there are any is asked first, of few columns.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.wire.contract import Column
from collector.tier_tables import Tiered

if TYPE_CHECKING:
    from collector.store.session import Session

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


def overlaps(session: "Session", table: Tiered, span: Span, where: str = "true") -> bool:
    """Say whether any two samples of one subject overlap in or shortly before a span."""
    (found,) = session.row(
        f"""
        SELECT EXISTS (SELECT 1 FROM (
            SELECT ended_at, lead(started_at) OVER (PARTITION BY {", ".join(table.keys)} ORDER BY started_at, ended_at)
                AS next_at
            FROM {table.source.name} WHERE {_near(span)} AND {where}) WHERE next_at < ended_at)
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
