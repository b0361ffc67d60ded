"""The nodes that the ledger knows, with what each has and what others hold of it now: where a plan may place work."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analyzer.placement.places import Host, Placed
from analyzer.placement.site_reading import Reading
from analyzer.statements import statements

if TYPE_CHECKING:
    from collector.store.session import Session

DAY_US = 86_400_000_000  # how far back from the newest hour a node was owned or heard of


@dataclass(frozen=True, slots=True)
class Holder:
    """A run that holds a part of one node: GPUs there, cores that it may use and memory that it used at the most.

    `until_us` is the end of the time that it asked for; None where nobody knows: it asked for none, or is over it.
    """

    run_id: str
    name: str
    gpus: int
    cores: float | None
    memory_bytes: int | None
    until_us: int | None


@dataclass(frozen=True, slots=True)
class StockNode:
    """One node of the inventory. None is not known, and never none; `gpus` of a node without any is 0.

    `price_micros_per_gpu_hour` is what a GPU-hour of its kind came to in the last day. `is_up` is its scheduler's word.
    """

    node: str
    rack: str | None
    group: str | None
    cpu_cores: int | None
    memory_bytes: int | None
    local_nvme_bytes: int | None
    gpus: int
    gpus_free: int
    sku: str | None
    gpu_memory_bytes: int | None
    price_micros_per_gpu_hour: int | None
    is_up: bool
    holders: tuple[Holder, ...]
    cores_busy: float | None = None  # of nodes without GPUs, where nobody says what holds them
    memory_busy_bytes: int | None = None

    @property
    def cores_free(self) -> float | None:
        """Cores that no holder may use; None where one of them may use nobody knows how many."""
        held = [holder.cores for holder in self.holders]
        if self.cpu_cores is None or any(cores is None for cores in held):
            return None
        return max(0.0, self.cpu_cores - sum(cores or 0.0 for cores in held) - (self.cores_busy or 0.0))

    @property
    def memory_free_bytes(self) -> int | None:
        """Memory that no holder was seen to use; None where of one of them it is not known."""
        held = [holder.memory_bytes for holder in self.holders]
        if self.memory_bytes is None or any(amount is None for amount in held):
            return None
        return max(0, self.memory_bytes - sum(amount or 0 for amount in held) - (self.memory_busy_bytes or 0))


def read_stock(session: "Session", now_us: int) -> tuple[StockNode, ...]:
    """Read the nodes of the day that ends with the newest hour of the ledger, by name.

    Raises:
        StoreError: the store does not answer.
    """
    start = now_us - DAY_US
    reading = Reading(session, start, now_us)
    without_gpus, limits = statements("planning/stock.sql")
    until = dict(session.rows(limits, {"end": now_us}))
    on = _holders(reading.runs(), until, now_us)
    prices = {(rate.sku, rate.purchase_option): rate.micros_per_gpu_hour for rate in reading.rates()}
    nodes = [_with_gpus(host, prices, on.get(host.node, ())) for host in reading.hosts().values()]
    for node, rack, group, cores, memory, nvme, busy, used in session.rows(
        without_gpus, {"start": start, "end": now_us}
    ):
        cores_busy = None if busy is None or cores is None else busy * cores
        nodes.append(
            StockNode(node, rack, group, cores, memory, nvme, 0, 0, None, None, None, True, (), cores_busy, used)
        )
    return tuple(sorted(nodes, key=lambda one: one.node))


def _with_gpus(host: Host, prices: Mapping[tuple[str, str | None], int], holders: tuple[Holder, ...]) -> StockNode:
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
        prices.get((host.sku, host.purchase_option)) if host.sku is not None else None,
        host.state in (None, "up"),
        holders,
    )


def _holders(runs: Mapping[str, Placed], until: Mapping[str, int], now_us: int) -> dict[str, tuple[Holder, ...]]:
    """Return by node the runs that have not ended, with their share of what each may use on all of its hosts."""
    found: dict[str, list[Holder]] = defaultdict(list)
    for run in runs.values():
        if not run.is_open:
            continue
        cores = None if run.cores is None else run.cores / len(run.hosts)
        for node, gpus in zip(run.hosts, run.gpus_on, strict=True):
            end = until.get(run.run_id)
            ends = end if end is not None and end > now_us else None  # over its limit: nobody knows for how long
            found[node].append(Holder(run.run_id, run.called, gpus, cores, run.host_bytes, ends))
    return {node: tuple(of) for node, of in found.items()}
