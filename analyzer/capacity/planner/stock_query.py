"""Read the nodes of the inventory, and who holds what of them now, from the store."""

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING

from agent.wire.units import DAY_US
from analyzer.capacity.planner.stock import NodeHolder, StockNode
from analyzer.queries.statements import statements
from analyzer.recommendations.fleet_plan.places import Host, Placed
from analyzer.recommendations.site_query import SiteQuery

if TYPE_CHECKING:
    from collector.store.session import Session


def read_stock(session: "Session", now_us: int) -> tuple[StockNode, ...]:
    """Read the nodes of the day that ends with the newest hour of the ledger, by name.

    Raises:
        StoreError: the store does not answer.
    """
    start = now_us - DAY_US
    reading = SiteQuery(session, start, now_us)
    without_gpus, limits, costs = statements("capacity/planner/stock.sql")
    until = dict(session.rows(limits, {"end": now_us}))
    on = _holders(reading.runs(), until, now_us)
    prices = dict(session.rows(costs, {"start": start, "end": now_us}))
    nodes = [_with_gpus(host, prices.get(host.node), on.get(host.node, ())) for host in reading.hosts().values()]
    for node, rack, group, cores, memory, nvme, busy, used in session.rows(
        without_gpus, {"start": start, "end": now_us}
    ):
        cores_busy = None if busy is None or cores is None else busy * cores
        nodes.append(
            StockNode(node, rack, group, cores, memory, nvme, 0, 0, None, None, None, True, (), cores_busy, used)
        )
    return tuple(sorted(nodes, key=lambda one: one.node))


def _with_gpus(host: Host, price: int | None, holders: tuple[NodeHolder, ...]) -> StockNode:
    return StockNode(
        host.node,
        host.rack,
        host.node_group,
        host.cpu_cores,
        host.memory_bytes,
        host.local_nvme_bytes,
        host.gpus,
        host.gpus_free_now,
        host.sku,
        host.gpu_memory_bytes,
        price,
        host.state in (None, "up"),
        holders,
    )


def _holders(runs: Mapping[str, Placed], until: Mapping[str, int], now_us: int) -> dict[str, tuple[NodeHolder, ...]]:
    """Return by node the runs that have not ended, with their share of what each may use on all of its hosts."""
    found: dict[str, list[NodeHolder]] = defaultdict(list)
    for run in runs.values():
        if not run.is_open:
            continue
        cores = None if run.cores is None else run.cores / len(run.hosts)
        for node, gpus in zip(run.hosts, run.gpus_on, strict=True):
            end = until.get(run.run_id)
            ends = end if end is not None and end > now_us else None  # over its limit: nobody knows for how long
            found[node].append(NodeHolder(run.run_id, run.called, gpus, cores, run.host_bytes, ends))
    return {node: tuple(of) for node, of in found.items()}
