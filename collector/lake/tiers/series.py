"""Series for charts: a span in at most so many points, from the tier that gives them, gaps left open; one query.

Of a gauge a point is the mean over the time in which it was told, with the least and the most within; of an amount it
is how much a second of measured time, with the extremes of the samples' or minutes' own rates. Where nothing was told,
a point is null. What a chart shows is never counted further, so that floats will do here.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from agent.wire.contract import Column
from collector.lake.tiers.pieces import Span, pieces, told_in
from collector.lake.tiers.sources import Plan, TableExtent, TierPiece, planned
from collector.lake.tiers.subjects import Subject
from collector.tier_tables import Tiered

if TYPE_CHECKING:
    from collector.store.session import Session

Numbers: TypeAlias = "pa.Array[pa.DoubleScalar]"
MAX_POINTS = 2_000
CHARTED = ("gauge", "amount")


@dataclass(frozen=True, slots=True)
class Series:
    """One column of one subject. Point n holds from `start + n * step_us`, microseconds UTC; null is a gap."""

    subject: str
    column: str
    start: int
    step_us: int
    mean: "Numbers"
    least: "Numbers"
    most: "Numbers"


def series(
    session: "Session",
    subject: Subject,
    columns: Iterable[str],
    from_us: int,
    until_us: int,
    max_points: int = MAX_POINTS,
    kept: TableExtent | None = None,
) -> list[Series]:
    """Return one series for each value of the subject's key and each column, in that order.

    `kept` is what the store has (`TableExtent.of`), where the caller has asked before: it changes once an hour.

    Raises:
        StoreError: the store does not answer.
        KeyError: the table has no such column, or it is no number over time.
    """
    table = subject.tiered
    wanted = [_charted(table.source.column(name)) for name in columns]
    span = Span(from_us, until_us)
    if not wanted or not subject.values or until_us <= from_us:
        return []
    plan = planned(kept or TableExtent.of(session, table), span, max_points)
    found = session.arrow(_query(subject, wanted, plan))
    rows = _rows(found, subject, plan)
    points = {
        name: found.column(name).combine_chunks().take(rows)
        for column in wanted
        for name in (column.name, f"{column.name}_least", f"{column.name}_most")
    }
    return [
        _one(points, number * plan.count, plan, value, column)
        for number, value in enumerate(subject.values)
        for column in wanted
    ]


def _charted(column: Column) -> Column:
    if column.kind not in CHARTED or column.type not in ("int64", "float64"):
        raise KeyError(f"{column.name} is no number over time")
    return column


def _rows(found: pa.Table, subject: Subject, plan: Plan) -> "pa.Array[pa.Int32Scalar]":
    """Return for each point of each subject which row it is, null where nothing was told."""
    numbers = pc.index_in(found.column("key").combine_chunks(), value_set=pa.array(subject.values))
    places = pc.add(pc.multiply(numbers.cast(pa.int64()), plan.count), found.column("point").combine_chunks())
    return pc.index_in(pa.array(range(len(subject.values) * plan.count), pa.int64()), value_set=places)


def _one(points: dict[str, "Numbers"], first: int, plan: Plan, value: str, column: Column) -> Series:
    mean, least, most = (
        points[f"{column.name}{suffix}"].slice(first, plan.count) for suffix in ("", "_least", "_most")
    )
    return Series(value, column.name, plan.start, plan.step_us, mean, least, most)


def _query(subject: Subject, columns: list[Column], plan: Plan) -> str:
    """Return the query: the rows of every part, added up by key and point; points without a word are left out."""
    parts = " UNION ALL ".join(_part(subject, columns, part, plan.step_us) for part in plan.parts)
    totals = ", ".join(
        f"sum({c.name}_sum) / nullif(sum({c.name}_ms), 0) AS {c.name}, "
        f"min({c.name}_least) AS {c.name}_least, max({c.name}_most) AS {c.name}_most"
        for c in columns
    )
    return f"SELECT key, (bucket - {plan.start}) // {plan.step_us} AS point, {totals} FROM ({parts}) GROUP BY ALL"


def _part(subject: Subject, columns: list[Column], part: TierPiece, step_us: int) -> str:
    """Return a query for the rows of one part: key, bucket, and of each column its sum, weight and extremes."""
    if part.size == "raw":
        return _raw(subject, columns, part.span, step_us)
    sums = ", ".join(_of_tier(subject.tiered, column) for column in columns)
    return f"""
        SELECT {subject.key} AS key, started_at // {step_us} * {step_us} AS bucket, {sums}
        FROM {subject.tiered.name(part.size)}
        WHERE {subject.where()} AND started_at >= {part.span.start} AND started_at < {part.span.end}
    """


def _of_tier(table: Tiered, column: Column) -> str:
    name, kept = column.name, {each.name for each in table.kept}
    weight = f"{name}_ms" if f"{name}_ms" in kept else f"(CASE WHEN {name} IS NOT NULL THEN measured_ms END)"
    if column.kind == "amount":
        rate = f"{name} * 1e3 / nullif(measured_ms, 0)"
        return _sums(name, f"{name} * 1e3", weight, rate, rate)
    least = f"{name}_min" if f"{name}_min" in kept else name
    most = f"{name}_max" if f"{name}_max" in kept else name
    return _sums(name, f"{name} * {weight}", weight, least, most)


def _raw(subject: Subject, columns: list[Column], span: Span, step_us: int) -> str:
    sums = ", ".join(_of_sample(column) for column in columns)
    names = [subject.key, *(column.name for column in columns)]
    samples = told_in(subject.tiered, span, overlapping=False, where=subject.where(), names=names)
    return f"""
        SELECT {subject.key} AS key, bucket, {sums} FROM (
            WITH told AS MATERIALIZED ({samples}) {pieces("told", span, step_us)})
    """


def _of_sample(column: Column) -> str:
    value = f"{column.name} * 1e6 / whole_us" if column.kind == "amount" else column.name
    milliseconds = f"(CASE WHEN {column.name} IS NOT NULL THEN (piece_until - piece_from) / 1e3 END)"
    return _sums(column.name, f"{value} * {milliseconds}", milliseconds, value, value)


def _sums(name: str, product: str, weight: str, least: str, most: str) -> str:
    return (
        f"({product})::DOUBLE AS {name}_sum, ({weight})::DOUBLE AS {name}_ms, "
        f"({least})::DOUBLE AS {name}_least, ({most})::DOUBLE AS {name}_most"
    )
