"""Read how the runs of a name were placed, from allocations, inventory and what their hosts read."""

from typing import TYPE_CHECKING

from analyzer.placement.life.shape import Shape
from analyzer.statements import statements

if TYPE_CHECKING:
    from collector.store.session import Session


def shapes(session: "Session", name: str, team: str | None, start_us: int, end_us: int) -> list[Shape]:
    """Return every attempt of the runs of a name and team that ran in [start_us, end_us), in order of their starts."""
    (select,) = statements("outcome/shapes.sql")
    rows = session.rows(select, {"name": name, "team": team, "from": start_us, "until": end_us})
    found = []
    for run_id, attempt, started_at, nodes, racks, gpus, skus, slices, shared, cores, network, local in rows:
        if started_at < end_us:
            facts = (gpus, tuple(skus or ()), slices, shared, cores, network, local)
            found.append(Shape(run_id, attempt, started_at, tuple(nodes), tuple(racks), *facts))
    return found


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
