"""Where the booking of traffic finds its bytes: in samples; where those are gone in hours, but by the minute where a
run came or went.

Views of this session alone, with one name and the same columns whatever they are made of. A tier's row holds for its
whole bucket: at the edges of a run its first and last minute are cut by time, as a sample would be; and where minutes
have expired, its first and last hour.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from agent.wire.units import HOUR_US
from collector.lake.tiers import Span, kept_from
from collector.store.session import literal
from collector.tier_tables import SIZES, Tiered, tiered

if TYPE_CHECKING:
    from collector.store.session import Session

# The view, the table of the contract, its columns as they are, and what its columns of bytes begin with.
_VIEWS: tuple[tuple[str, str, str, str], ...] = (
    ("traffic_links", "network_samples", "link_kind", ""),
    ("traffic_flows", "flow_samples", "run_id, peer, transport", ""),
    ("traffic_gpus", "gpu_samples", "gpu_uuid", "nvlink_"),
)


def add_views(session: "Session", nodes: Sequence[str], from_us: int, until_us: int, *, from_tiers: bool) -> None:
    """Make the three views over these hosts' bytes in a span of time; traffic_edges must be there.

    Raises:
        StoreError: the store does not answer.
    """
    names = ", ".join(map(literal, nodes)) or "NULL"  # written out: files that hold none of them are then not read
    span = Span(from_us, until_us)
    for view, table, columns, prefix in _VIEWS:
        source = tiered(table)
        ways = [f"{prefix}{way}_bytes AS {way}_bytes" for way in ("receive", "transmit")]
        taken = ", ".join(["node", columns, *ways])
        parts = _of_tiers(session, source, span) if from_tiers else [_rows(table, "ended_at", span)]
        selects = [f"SELECT {taken}, {part} AND node IN ({names})" for part in parts]
        session.execute(f"CREATE OR REPLACE TEMP VIEW {view} AS {' UNION ALL '.join(selects)}")


def _of_tiers(session: "Session", source: Tiered, span: Span) -> Iterator[str]:
    """Yield the rest of a query for each size of tier: its times, its table, and which of its rows."""
    minutes_from = kept_from(session, [source.name("minutes")])
    in_edges = f"(node, started_at // {HOUR_US} * {HOUR_US}) IN (SELECT (node, hour) FROM traffic_edges)"
    coarse = f"(started_at < {minutes_from} OR NOT {in_edges})"
    fine = f"started_at >= {minutes_from} AND {in_edges}"
    for size, which in (("hours", coarse), ("minutes", fine)):
        yield f"{_rows(source.name(size), f'started_at + {SIZES[size]}', span)} AND {which}"


def _rows(table: str, ended_at: str, span: Span) -> str:
    return f"""started_at, {ended_at} AS ended_at, {span.start} AS part_from, {span.end} AS part_until FROM {table}
        WHERE started_at < {span.end} AND {ended_at} > {span.start}"""
