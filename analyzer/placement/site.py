"""The site as placement sees it: where each run's GPUs are, and what stood free meanwhile."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collector.store.session import Session

HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Host:
    """One host: where it is, what it has, and how many of its GPUs stood free on average over the period."""

    node: str
    rack: str | None
    sku: str | None
    cpu_cores: int | None
    local_nvme_bytes: int | None
    gpus: int
    gpus_free: float


@dataclass(frozen=True, slots=True)
class Placed:
    """Where one run is: its hosts in the order of their ranks, with its GPUs on each, and the cores it may use."""

    run_id: str
    hosts: tuple[str, ...]
    gpus: int
    cores: float | None

    @property
    def gpus_per_host(self) -> int:
        """GPUs on each host, rounded up."""
        return -(-self.gpus // max(1, len(self.hosts)))


@dataclass(frozen=True, slots=True)
class Site:
    """Hosts by name and runs by id; `slow_hosts` are those on which a run lost most of what its clocks lost."""

    hosts: dict[str, Host]
    runs: dict[str, Placed]
    slow_hosts: dict[str, tuple[str, ...]] = field(default_factory=dict)
    gpu_hosts: dict[str, str] = field(default_factory=dict)  # where each GPU is

    def first_run(self, run_ids: Sequence[str]) -> Placed | None:
        """Return where the first of these runs is, or None where there is none or it is not known."""
        return self.runs.get(run_ids[0]) if run_ids else None

    def racks_of(self, run_id: str) -> list[str | None]:
        """Return the rack of each of the run's hosts, in the order of ranks; None for those of which none is known."""
        placed = self.runs.get(run_id)
        hosts = [self.hosts.get(node) for node in placed.hosts] if placed else []
        return [host.rack if host else None for host in hosts]

    def sku_of(self, placed: Placed) -> str | None:
        """Return the kind of GPU that a run has, as its first known host says, or None where none is known."""
        return next((self.hosts[node].sku for node in placed.hosts if node in self.hosts), None)

    def free_in_rack(self, sku: str | None) -> dict[str, float]:
        """Return, by rack, how many GPUs of a kind stood free on average."""
        free: dict[str, float] = defaultdict(float)
        for host in self.hosts.values():
            if host.rack is not None and host.sku == sku:
                free[host.rack] += host.gpus_free
        return dict(free)


def read_site(session: "Session", start_us: int, end_us: int) -> Site:
    """Read hosts and runs of the period from the store."""
    span = (session, start_us, end_us)
    return Site(_hosts(*span), _runs(*span), _slow_hosts(*span), _gpu_hosts(*span))


def _gpu_hosts(session: "Session", start_us: int, end_us: int) -> dict[str, str]:
    wanted = "SELECT gpu_uuid, max(node) FROM ledger WHERE hour >= ? AND hour < ? GROUP BY gpu_uuid"
    rows: list[tuple[str, str]] = [(gpu, node) for gpu, node in session.rows(wanted, [start_us, end_us])]
    return dict(rows)


def _slow_hosts(session: "Session", start_us: int, end_us: int) -> dict[str, tuple[str, ...]]:
    rows = session.rows(
        """
        WITH lost AS (
            SELECT run_id, node, sum(milliseconds)::BIGINT AS ms FROM ledger
            WHERE hour >= ? AND hour < ? AND state = 'throttled' AND run_id IS NOT NULL GROUP BY ALL
        )
        SELECT run_id, list(node ORDER BY node) FROM lost
        WHERE ms * 10 >= (SELECT max(m.ms) FROM lost m WHERE m.run_id = lost.run_id) GROUP BY run_id
        """,
        [start_us, end_us],
    )
    return {run_id: tuple(nodes) for run_id, nodes in rows}


def _hosts(session: "Session", start_us: int, end_us: int) -> dict[str, Host]:
    rows = session.rows(
        """
        WITH latest AS (
            SELECT node, arg_max(rack, (started_at, batch)) AS rack,
                arg_max(cpu_cores, (started_at, batch)) AS cpu_cores,
                arg_max(local_nvme_bytes, (started_at, batch)) AS local_nvme_bytes
            FROM inventory WHERE gpu_uuid IS NULL GROUP BY node
        ), hours AS (
            SELECT node, min(sku) AS sku, count(DISTINCT gpu_uuid) AS gpus, count(DISTINCT hour) AS hours,
                coalesce(sum(milliseconds) FILTER (state = 'unallocated' AND cause = 'free'), 0)::BIGINT AS free_ms
            FROM ledger WHERE hour >= ? AND hour < ? GROUP BY node
        )
        SELECT h.node, i.rack, h.sku, i.cpu_cores, i.local_nvme_bytes, h.gpus, h.free_ms, h.hours
        FROM hours h LEFT JOIN latest i USING (node) ORDER BY h.node
        """,
        [start_us, end_us],
    )
    return {
        node: Host(node, rack, sku, cores, nvme, gpus, free_ms / (hours * HOUR_MS))
        for node, rack, sku, cores, nvme, gpus, free_ms, hours in rows
    }


def _runs(session: "Session", start_us: int, end_us: int) -> dict[str, Placed]:
    rows = session.rows(
        """
        WITH latest AS (
            SELECT alias_run_id, arg_max(run_id, batch) AS run_id FROM run_aliases GROUP BY alias_run_id
        ), names AS (
            SELECT l.alias_run_id, coalesce(n.run_id, l.run_id) AS run_id
            FROM latest l LEFT JOIN latest n ON n.alias_run_id = l.run_id
        ), placed AS (
            SELECT coalesce(o.run_id, a.run_id) AS run_id, node, gpu_uuid, rank, started_at, ended_at
            FROM allocations a LEFT JOIN names o ON o.alias_run_id = a.run_id
            WHERE started_at < ? AND coalesce(ended_at, ?) > ? AND gpu_uuid IS NOT NULL
            -- a host that was given back before the run's newest part began is no longer its own: an earlier attempt's
            QUALIFY ended_at IS NULL OR ended_at > max(started_at) OVER (PARTITION BY coalesce(o.run_id, a.run_id))
        ), held AS (
            SELECT run_id, node, count(DISTINCT gpu_uuid) AS gpus, min(rank) AS first_rank FROM placed GROUP BY ALL
        ), cores AS (
            SELECT run_id, quantile_disc((counts->>'$.cores_milli')::BIGINT, 0.5) / 1000 AS cores
            FROM run_windows WHERE window_start >= ? AND window_start < ? AND (counts->>'$.cores_milli') IS NOT NULL
            GROUP BY run_id
        )
        SELECT h.run_id, list(h.node ORDER BY h.first_rank, h.node), sum(h.gpus)::BIGINT, min(c.cores)
        FROM held h LEFT JOIN cores c USING (run_id) GROUP BY h.run_id ORDER BY h.run_id
        """,
        [end_us, end_us, start_us, start_us, end_us],
    )
    return {run_id: Placed(run_id, tuple(hosts), gpus, cores) for run_id, hosts, gpus, cores in rows}
