"""Who holds which GPUs at one moment, and what being in several racks cost each run: what a plan of the fleet needs."""

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collector.store.session import Session


@dataclass(frozen=True, slots=True)
class Loss:
    """One run's GPU time in the period: in all, and waiting for exchanges across racks. Money is None if unpriced."""

    team: str | None
    is_serving: bool
    milliseconds: int
    micros: int | None
    crossing_milliseconds: int
    crossing_micros: int | None
    age_us: int  # since it began


@dataclass(frozen=True, slots=True)
class Now:
    """Held GPUs by run and node, nodes that are wholly free, and losses.

    `entangled` are nodes of which a GPU has several holders, or is held in slices.
    """

    held: dict[str, dict[str, int]]  # by run: GPUs by node, in the order of ranks
    free: frozenset[str]
    entangled: frozenset[str]
    losses: dict[str, Loss]
    held_ratio: float  # of the owned time in the period, how much somebody held


def read_now(session: "Session", start_us: int, end_us: int) -> Now:
    """Read the fleet at the end of a period, and what the period cost."""
    held: dict[str, dict[str, int]] = defaultdict(dict)
    entangled = set()
    for run_id, node, gpus, is_shared in session.rows(_HELD, [end_us, end_us, end_us]):
        held[run_id][node] = gpus
        if is_shared:
            entangled.add(node)
    free = {node for (node,) in session.rows(_FREE, [end_us])} - {node for nodes in held.values() for node in nodes}
    losses = {row[0]: Loss(*row[1:]) for row in session.rows(_LOSSES, [end_us, start_us, end_us])}
    ((total, spare),) = session.rows(_SPARE, [start_us, end_us])
    return Now(dict(held), frozenset(free), frozenset(entangled), losses, 1 - spare / total if total else 0.0)


# Holders of the moment: what ended before it, or begins at it, is not there.
_HELD = """
    WITH latest AS (
        SELECT alias_run_id, arg_max(run_id, batch) AS run_id FROM run_aliases GROUP BY alias_run_id
    ), names AS (
        SELECT l.alias_run_id, coalesce(n.run_id, l.run_id) AS run_id
        FROM latest l LEFT JOIN latest n ON n.alias_run_id = l.run_id
    ), holders AS (
        SELECT DISTINCT coalesce(o.run_id, a.run_id) AS run_id, node, gpu_uuid, rank
        FROM allocations a LEFT JOIN names o ON o.alias_run_id = a.run_id
        WHERE started_at < ? AND coalesce(ended_at, ?) >= ? AND gpu_uuid IS NOT NULL AND node IS NOT NULL
    ), by_gpu AS (
        SELECT *, count(DISTINCT run_id) OVER (PARTITION BY gpu_uuid) AS holders FROM holders
    )
    SELECT run_id, node, count(DISTINCT gpu_uuid), max(holders) > 1 OR bool_or(gpu_uuid IN (
        SELECT gpu_uuid FROM inventory WHERE parent_uuid IS NOT NULL AND gpu_uuid IS NOT NULL))
    FROM by_gpu GROUP BY run_id, node ORDER BY run_id, min(rank), node
"""
# Free in the newest hour: not down, drained or kept for somebody.
_FREE = """
    SELECT node FROM ledger WHERE hour = (SELECT max(hour) FROM ledger WHERE hour < ?)
    GROUP BY node HAVING bool_and(state = 'unallocated' AND cause = 'free') ORDER BY node
"""
_LOSSES = """
    SELECT l.run_id, min(r.team), coalesce(bool_or(r.stage = 'serving'), false), sum(milliseconds)::BIGINT,
        CASE WHEN count(*) = count(cost_micros) THEN sum(cost_micros)::BIGINT END,
        coalesce(sum(milliseconds) FILTER (state = 'communicating' AND cause = 'cross_rack'), 0)::BIGINT,
        CASE WHEN count(*) = count(cost_micros)
            THEN coalesce(sum(cost_micros) FILTER (state = 'communicating' AND cause = 'cross_rack'), 0)::BIGINT END,
        greatest(0, coalesce(? - min(r.started_at), 0))::BIGINT
    FROM ledger l LEFT JOIN runs r USING (run_id)
    WHERE hour >= ? AND hour < ? AND l.run_id IS NOT NULL GROUP BY l.run_id
"""
_SPARE = """
    SELECT sum(milliseconds)::BIGINT, coalesce(sum(milliseconds) FILTER (run_id IS NULL), 0)::BIGINT
    FROM ledger WHERE hour >= ? AND hour < ?
"""
