"""What a placement comes to: ends, transfers, what a node is paid for. Counted from the fields of the problem alone.

The problem has methods that the solvers use for some of this. They are not used here: an error in them would then pass.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from agent.wire.units import HOUR_SECONDS
from analyzer.capacity.planner.plan import Transfer
from analyzer.capacity.planner.problem import Medium, Network, Node, Problem, Task, TransferRate


@dataclass(frozen=True, slots=True)
class Stay:
    """A task that the problem knows, on a node that it knows, from start to end in seconds."""

    task: Task
    node: Node
    start: int
    end: int


def lasts_on(task: Task, node: Node) -> int | None:
    """Return the P50 of the task's duration on the node; None where nobody knows it on that kind of GPU."""
    duration = task.duration or dict(task.durations).get(node.sku or "")
    return None if duration is None else duration.p50_seconds


def stay_of(task: Task, node: Node, start: int) -> Stay:
    """Return the task's stay on the node: as long as the P50 of its duration there, which is known."""
    lasts = lasts_on(task, node)
    if lasts is None:
        raise AssertionError(f"BUG: the duration of {task.name} was not looked up")
    return Stay(task, node, start, start + lasts)


def _medium_of(network: Network, source: Node, target: Node) -> Medium:
    """Return what data takes from one node to another."""
    if source.name == target.name:
        return "local"
    if network.path == "storage":
        return "storage"
    is_near = source.rack is not None and source.rack == target.rack
    return "rack" if is_near else "cross_rack"


def _seconds_of(network: Network, medium: Medium, size_bytes: int) -> int:
    """Return how long so many bytes take, in whole seconds, the last one begun."""
    rates: dict[Medium, TransferRate] = {
        "local": network.local,
        "rack": network.rack,
        "cross_rack": network.cross_rack,
        "storage": network.storage,
    }
    rate = rates[medium]
    whole, rest = divmod(size_bytes * rate.seconds, rate.bytes)
    return whole + (rest > 0)


def transfer_of(network: Network, before: Stay, after: Stay, size_bytes: int) -> Transfer:
    """Return the transfer between two stays; it starts when the first ends."""
    medium = _medium_of(network, before.node, after.node)
    seconds = _seconds_of(network, medium, size_bytes)
    return Transfer(
        before=before.task.name,
        after=after.task.name,
        from_node=before.node.name,
        to_node=after.node.name,
        bytes=size_bytes,
        start_seconds=before.end,
        end_seconds=before.end + seconds,
        medium=medium,
    )


def transfers_between(problem: Problem, stays: dict[str, Stay]) -> Iterator[Transfer]:
    """Yield what moves between the tasks that are placed; an edge of no bytes moves nothing."""
    for after in stays.values():
        for each in after.task.inputs:
            before = stays.get(each.task)
            if before is not None and each.bytes > 0:
                yield transfer_of(problem.network, before, after, each.bytes)


def cost_micros_of(stays: Iterable[Stay]) -> int | None:
    """Return what all of them cost; None where one runs on a node whose price is not known.

    A task pays for its node while it runs, for the largest share that it takes of any of the node's resources, rounded
    up to the millionth.
    """
    total = 0
    for stay in stays:
        task, node = stay.task, stay.node
        if node.price_micros_per_hour is None:
            return None
        amounts = (
            (task.cpus, node.cpus),
            (task.memory_bytes, node.memory_bytes),
            (task.gpus, node.gpus),
            (task.ssd_bytes, node.ssd_bytes),
        )
        share = max(Fraction(takes, has) if has else Fraction(takes > 0) for takes, has in amounts)
        total += ceil(share * node.price_micros_per_hour * (stay.end - stay.start) / HOUR_SECONDS)
    return total
