"""Whom a chart is about: some GPUs, a host, a run; and how to find them in every tier by the files' own order."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from collector.store.literal import literal
from collector.tier_tables import Tiered, tiered

if TYPE_CHECKING:
    from collector.store.session import Session


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


def gpus_of_run(session: "Session", run_id: str, most: int = 1024) -> Subject:
    """Return the GPUs that a run was given, in the order of their hosts; of more than `most` the first."""
    rows = session.rows(
        "SELECT DISTINCT node, gpu_uuid FROM allocations WHERE run_id = ? AND gpu_uuid IS NOT NULL "
        "AND started_at IS NOT NULL ORDER BY node, gpu_uuid LIMIT ?",
        [run_id, most],
    )
    nodes = dict.fromkeys(node for node, _ in rows if node is not None)
    return gpus(dict.fromkeys(uuid for _, uuid in rows), nodes)


def _one_of(column: str, values: tuple[str, ...]) -> str:
    quoted = list(map(literal, values))
    if len(quoted) == 1:
        return f"{column} = {quoted[0]}"
    return f"{column} IN ({', '.join(quoted)})" if quoted else "false"
