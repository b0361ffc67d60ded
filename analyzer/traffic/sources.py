"""Where a reading of traffic finds its bytes: minutes where they are rolled up, samples after them, hours before them.

Views of this session alone, with one name and the same columns whatever they are made of. A tier's row holds for its
whole bucket: at the edges of a run its first and last minute are cut by time, as a sample would be.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from collector.store.literal import literal
from collector.tiers.pieces import Span
from collector.tiers.sources import Kept, Part, planned
from collector.tiers.tables import MINUTE_US, SIZES, Tiered, tiered

if TYPE_CHECKING:
    from collector.store.session import Session

# The view, the table of the contract, and its columns: how the view calls one, and the table.
_VIEWS: tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...] = (
    ("traffic_links", "network_samples", (("link_kind", "link_kind"),)),
    ("traffic_flows", "flow_samples", (("run_id", "run_id"), ("peer", "peer"), ("transport", "transport"))),
    ("traffic_gpus", "gpu_samples", (("gpu_uuid", "gpu_uuid"),)),
)
_NVLINK = "gpu_samples"


def add_views(session: "Session", nodes: Sequence[str], from_us: int, until_us: int) -> None:
    """Make the three views over these hosts' bytes in a span of time.

    Raises:
        StoreError: the store does not answer.
    """
    names = ", ".join(map(literal, nodes)) or "NULL"  # written out: files that hold none of them are then not read
    for view, table, columns in _VIEWS:
        source = tiered(table)
        prefix = "nvlink_" if table == _NVLINK else ""
        taken = [f"{theirs} AS {ours}" for ours, theirs in columns]
        taken += [f"{prefix}{way}_bytes AS {way}_bytes" for way in ("receive", "transmit")]
        span = Span(from_us, until_us)
        plan = planned(Kept.of(session, source), span, max(2, (until_us - from_us) // MINUTE_US + 1))
        parts = " UNION ALL ".join(_part(source, ", ".join(taken), part, f"node IN ({names})") for part in plan.parts)
        session.execute(f"CREATE OR REPLACE TEMP VIEW {view} AS {parts}")


def _part(source: Tiered, columns: str, part: Part, where: str) -> str:
    name, ended_at = source.source.name, "ended_at"
    if part.size != "raw":
        name, ended_at = source.name(part.size), f"started_at + {SIZES[part.size]}"
    edges = f"{part.span.start} AS part_from, {part.span.end} AS part_until"
    return f"""SELECT node, {columns}, started_at, {ended_at} AS ended_at, {edges} FROM {name}
        WHERE {where} AND started_at < {part.span.end} AND {ended_at} > {part.span.start}"""
