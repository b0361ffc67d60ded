"""What a placement comes to: ends, transfers, what a node is paid for. Counted from the fields of the problem alone.

The problem has methods that the solvers use for some of this. They are not used here: an error in them would then pass.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from analyzer.planning.plan import Transfer
from analyzer.planning.problem import Medium, Network, Node, Problem, Rate, Task

SECONDS_PER_HOUR = 3600


@dataclass(frozen=True, slots=True)
class Stay:
    """A task that the problem knows, on a node that it knows, from start to end in seconds."""

    task: Task
    node: Node
    start: int
    end: int


def stay_of(task: Task, node: Node, start: int) -> Stay:
    """Return the task's stay on the node: as long as the P50 of its duration."""
    if task.duration is None:
        raise AssertionError(f"BUG: the duration of {task.name} was not looked up")
    return Stay(task, node, start, start + task.duration.p50_seconds)


def medium_of(network: Network, source: Node, target: Node) -> Medium:
    """Return what data takes from one node to another."""
    if source.name == target.name:
        return "local"
    if network.path == "storage":
        return "storage"
    is_near = source.rack is not None and source.rack == target.rack
    return "rack" if is_near else "cross_rack"


def seconds_of(network: Network, medium: Medium, size_bytes: int) -> int:
    """Return how long so many bytes take, in whole seconds, the last one begun."""
    rates: dict[Medium, Rate] = {
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
    medium = medium_of(network, before.node, after.node)
    seconds = seconds_of(network, medium, size_bytes)
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
    """Yield what moves between those tasks of which both ends are placed; an edge of no bytes takes no time."""
    for after in stays.values():
        for each in after.task.inputs:
            before = stays.get(each.task)
            if before is not None:
                yield transfer_of(problem.network, before, after, each.bytes)


def cost_micros_of(stays: Iterable[Stay]) -> int | None:
    """Return what the nodes cost while they carry a task, two at a time once; None where a price is not known.

    Millionths, rounded up once for all.
    """
    by_node: dict[str, list[Stay]] = {}
    for stay in stays:
        by_node.setdefault(stay.node.name, []).append(stay)
    micro_seconds = 0
    for there in by_node.values():
        seconds, price = busy_seconds(there), there[0].node.price_micros_per_hour
        if price is None and seconds:
            return None
        micro_seconds += seconds * (price or 0)
    return -(-micro_seconds // SECONDS_PER_HOUR)


def busy_seconds(stays: Iterable[Stay]) -> int:
    """Return the seconds in which at least one of them runs."""
    total, until = 0, None
    for start, end in sorted((stay.start, stay.end) for stay in stays):
        begin = start if until is None else max(start, until)
        total += max(0, end - begin)
        until = end if until is None else max(until, end)
    return total
