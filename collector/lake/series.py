"""Series for charts: a span in at most so many points, from the tier that gives them, gaps left open; one query.

Of a gauge a point is the mean over the time in which it was told, with the least and the most within; of an amount it
is how much a second of measured time, with the extremes of the samples' or minutes' own rates. Where nothing was told,
a point is null. What a chart shows is never counted further, so that floats will do here.

A chart is about some GPUs, a host, a run, found in every tier by the files' own order. Each part of a span is read from
the coarsest tier that is fine enough, where it is there; else from what is.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from agent.wire.contract import Column
from agent.wire.units import HOUR_US, MINUTE_US
from collector.lake.tiers import ROLLED, Span, pieces, told_in
from collector.store.session import Session, literal
from collector.tier_tables import Tiered, tiered

if TYPE_CHECKING:
    import pyarrow as pa  # who draws no chart does not need it (store/session.py)


@dataclass(frozen=True, slots=True)
class Subject:
    """Rows of one table: one series for each value of `key`.

    `nodes` narrows what is read where it is known: files are ordered by host. Empty means any.
    """

    table: str  # gpu_samples, host_samples, …
    key: str  # the column that tells one series from another
    values: tuple[str, ...]
    nodes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.key not in self.tiered.keys:
            raise AssertionError(f"BUG: {self.table} has no series by {self.key}")

    @property
    def tiered(self) -> Tiered:
        """Its table with the tiers."""
        return tiered(self.table)

    def where(self) -> str:
        """Return the condition for its rows in any tier. Written out: files that cannot have any are then not read."""
        conditions = [_one_of(self.key, self.values)]
        if self.nodes and self.key != "node":
            conditions.append(_one_of("node", self.nodes))
        return " AND ".join(conditions)


def gpus(uuids: Iterable[str], nodes: Iterable[str] = ()) -> Subject:
    """Return GPUs by their UUIDs."""
    return Subject("gpu_samples", "gpu_uuid", tuple(uuids), tuple(nodes))


def hosts(nodes: Iterable[str]) -> Subject:
    """Return hosts by name."""
    return Subject("host_samples", "node", tuple(nodes))


def gpus_of_run(session: Session, run_id: str) -> Subject:
    """Return the GPUs that a run was given, in the order of their hosts; of more than 1,024 the first."""
    rows = session.rows(
        "SELECT DISTINCT node, gpu_uuid FROM allocations WHERE run_id = ? AND gpu_uuid IS NOT NULL "
        "AND started_at IS NOT NULL ORDER BY node, gpu_uuid LIMIT 1024",
        [run_id],
    )
    nodes = dict.fromkeys(node for node, _ in rows if node is not None)
    return gpus(dict.fromkeys(uuid for _, uuid in rows), nodes)


def _one_of(column: str, values: tuple[str, ...]) -> str:
    quoted = list(map(literal, values))
    if len(quoted) == 1:
        return f"{column} = {quoted[0]}"
    return f"{column} IN ({', '.join(quoted)})" if quoted else "false"


_RAW_US = 1_000_000  # the finest step that a chart has
_FINEST_FIRST = (("raw", _RAW_US), ("minutes", MINUTE_US), ("hours", HOUR_US))


@dataclass(frozen=True, slots=True)
class TierPiece:
    """A part of a span and the tier that it is read from: raw, minutes or hours."""

    size: str
    span: Span


@dataclass(frozen=True, slots=True)
class Plan:
    """The parts of a span in order of time, and the step of the grid that all of them can fill."""

    parts: tuple[TierPiece, ...]
    step_us: int
    start: int  # of the grid's first bucket
    count: int  # of buckets


@dataclass(frozen=True, slots=True)
class TableExtent:
    """What a store has of a table: samples and minutes from when on, and until when it is rolled up (microseconds)."""

    raw_from: int = 0
    minutes_from: int = 0
    rolled_until: int = 0

    @classmethod
    def of(cls, session: Session, table: Tiered) -> "TableExtent":
        """Ask the store; one that nobody keeps up has samples alone. The answer is good for an hour.

        The newest hour may have been rolled up before it was over, and hours that wait have yet to be: both are read
        from the samples, as long as there are any. What has expired had been rolled up whole.
        """
        kept = "coalesce(max(kept_from) FILTER (table_name = '{}'), 0)"
        found = session.rows_if_there(
            f"""
            SELECT {kept.format(table.source.name)}, {kept.format(table.name("minutes"))},
                (SELECT coalesce(max(upto), 0) FROM tier_marks WHERE collector = {ROLLED}),
                (SELECT min(hour) FROM tier_due)
            FROM retention
            """
        )
        if found is None:
            return cls()
        ((raw, minutes, rolled, waiting),) = found
        return cls(raw, minutes, max(raw, rolled if waiting is None else min(rolled, waiting)))


def planned(kept: TableExtent, span: Span, max_points: int) -> Plan:
    """Return how to fill a span with at most so many points, from as few rows as give them."""
    wanted = -(-(span.end - span.start) // max(1, max_points - 1))  # one is lost to the grid's edges
    size, step = next(((s, us) for s, us in reversed(_FINEST_FIRST) if us <= wanted), _FINEST_FIRST[0])
    step = max([step, *(dict(_FINEST_FIRST)[part.size] for part in _parts(kept, span, size))])
    step = -(-wanted // step) * step
    start = span.start // step * step
    return Plan(tuple(_parts(kept, Span(start, span.end), size)), step, start, -(-(span.end - start) // step))


def _parts(kept: TableExtent, span: Span, size: str) -> list[TierPiece]:
    """Cut a span where another tier must take over: coarser before what is kept, samples after what is rolled up."""
    edges = {
        "raw": (("hours", kept.minutes_from), ("minutes", kept.raw_from), ("raw", span.end)),
        "minutes": (("hours", kept.minutes_from), ("minutes", kept.rolled_until), ("raw", span.end)),
        "hours": (("hours", kept.rolled_until), ("raw", span.end)),
    }[size]
    parts, at = [], span.start
    for source, edge in edges:
        until = min(max(edge, at), span.end)
        if until > at:
            parts.append(TierPiece(source, Span(at, until)))
            at = until
    return parts


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
    session: Session,
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
        KeyError: the table has no such column, or it is not a number over time.
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
        raise KeyError(f"{column.name} is not a number over time")
    return column


def _rows(found: "pa.Table", subject: Subject, plan: Plan) -> "pa.Array[pa.Int32Scalar]":
    """Return for each point of each subject which row it is, null where nothing was told."""
    import pyarrow as pa
    import pyarrow.compute as pc

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
