"""Read how the runs of a name were placed, from allocations, inventory and what their hosts read."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from analyzer.queries.statements import statements
from analyzer.recommendations.lifecycle.shape import Shape

if TYPE_CHECKING:
    from collector.store.session import Session


def shapes(
    session: "Session", name: str, team: str | None, start_us: int, end_us: int, *, with_reads: bool = False
) -> list[Shape]:
    """Return every attempt of the runs of a name and team that ran in [start_us, end_us), in order of their starts.

    What their hosts read is looked for where it is asked for: it takes their disks' samples.
    """
    (select,) = statements("recommendations/outcome/shapes.sql")
    rows = session.rows(select, {"name": name, "team": team, "from": start_us, "until": end_us})
    found = []
    for run_id, attempt, started_at, ended_at, nodes, racks, gpus, skus, slices, shared, cores in rows:
        if started_at < end_us:
            facts = (gpus, tuple(skus or ()), slices, shared, cores)
            found.append((ended_at, Shape(run_id, attempt, started_at, tuple(nodes), tuple(racks), *facts)))
    reads = _reads(session, found) if with_reads and found else {}
    return [_with_reads(shape, reads.get((shape.run_id, shape.attempt))) for _, shape in found]


def _with_reads(shape: Shape, read: tuple[int, int] | None) -> Shape:
    return shape if read is None else replace(shape, network_read_bytes=read[0], local_read_bytes=read[1])


def _reads(session: "Session", found: Sequence[tuple[int, Shape]]) -> dict[tuple[str, int], tuple[int, int]]:
    (select,) = statements("recommendations/outcome/reads.sql")
    held = [(one.run_id, one.attempt, node, one.started_at, end) for end, one in found for node in one.nodes]
    columns = zip(("runs", "attempts", "nodes", "starts", "ends"), map(list, zip(*held, strict=True)), strict=True)
    asked: dict[str, object] = {**dict(columns), "from": min(one.started_at for _, one in found)}
    return {(run, attempt): (network, local) for run, attempt, network, local in session.rows(select, asked)}


def first_given_back(session: "Session", run_id: str, from_us: int, until_us: int) -> int | None:
    """Return when a run gave back the first of the GPUs that it held at a moment; None while it holds all of them."""
    (moment,) = session.row(
        "SELECT min(ended_at) FROM allocations WHERE gpu_uuid IS NOT NULL AND started_at < $from AND ended_at >= $from "
        "AND ended_at < $until "
        "AND run_id IN (SELECT $run UNION SELECT alias_run_id FROM run_aliases WHERE run_id = $run)",
        {"from": from_us, "until": until_us, "run": run_id},
    )
    return None if moment is None else int(moment)


def first_drained(session: "Session", nodes: tuple[str, ...], from_us: int, until_us: int) -> tuple[int, str] | None:
    """Return when the first of these hosts was out of its scheduler from a moment on, and which; None where none was.

    A host that had been out already before is no news.
    """
    rows = session.rows(
        "SELECT min(started_at), node FROM node_states WHERE list_contains(?::VARCHAR[], node) AND started_at >= ? "
        "AND started_at < ? AND state IN ('drained', 'down') AND node NOT IN (SELECT node FROM node_states "
        "WHERE state IN ('drained', 'down') AND started_at < ? AND ended_at >= ?) GROUP BY node ORDER BY ALL LIMIT 1",
        [list(nodes), from_us, until_us, from_us, from_us],
    )
    return (int(rows[0][0]), str(rows[0][1])) if rows else None
