"""What of the inventory a plan may use: each node's free part now, or all of it once its holders' time is over."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from agent.wire.units import SECOND_US
from analyzer.capacity.planner.problem import Node
from analyzer.capacity.planner.stock import NodeHolder, StockNode
from analyzer.errors import ConfigError
from analyzer.text.words import counted, plain

_HOLDERS_NAMED = 2


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A node of the inventory that a plan may not use, and why."""

    node: str
    why: str


def offered(
    stock: Sequence[StockNode], groups: Collection[str], starts_at: int
) -> tuple[tuple[Node, ...], tuple[LeftOut, ...]]:
    """Return the nodes of these groups (of all where there is none), and why each of the others is left out.

    A node of which every GPU is held comes whole when the last holder's time limit ends, and is never offered without
    its GPUs: a task that must stay off GPU nodes would else land on it.

    Raises:
        ConfigError: there is no node of a group.
    """
    known = sorted({one.group for one in stock if one.group is not None})
    for group in groups:
        if group not in known:
            raise ConfigError(
                f"nodes: inventory: no node is in group {group!r}; the ledger knows {', '.join(known) or 'no group'}"
            )
    nodes, left_out = [], []
    for one in stock:
        if groups and one.group not in groups:
            continue
        node = _node(one, starts_at)
        if isinstance(node, Node):
            nodes.append(node)
        else:
            left_out.append(LeftOut(one.node, node))
    return tuple(nodes), tuple(left_out)


def _node(one: StockNode, starts_at: int) -> Node | str:
    """Return what a plan may use of a node, or why it may use nothing of it."""
    if not one.is_up:
        return "its scheduler says that it is not up"
    if one.cpu_cores is None or one.memory_bytes is None:
        return "its cores or its memory are not known"
    holders = [each for each in one.holders if each.until_us is None or each.until_us > starts_at]
    if one.gpus and not one.gpus_free and one.holders:
        return _later(one, one.cpu_cores, one.memory_bytes, starts_at)
    if one.gpus and not one.gpus_free:
        return "none of its GPUs is free, and the ledger knows no holder: drained, kept or broken"
    cores, memory = one.cores_free, one.memory_free_bytes
    if cores is None or memory is None:
        return f"how much of its cores and memory {_names(holders or one.holders)} may use is not known"
    return _offer(one, int(cores), memory, one.gpus_free, 0)


def _later(one: StockNode, cores: int, memory_bytes: int, starts_at: int) -> Node | str:
    ends = [holder.until_us for holder in one.holders]
    if any(end is None for end in ends):
        return f"held by {_names(one.holders)}, and nobody said until when"
    last = max(end for end in ends if end is not None)
    return _offer(one, cores, memory_bytes, one.gpus, max(0, -(-(last - starts_at) // SECOND_US)))


def _offer(one: StockNode, cores: int, memory_bytes: int, gpus: int, from_seconds: int) -> Node:
    price = one.price_micros_per_gpu_hour
    return Node(
        one.node,
        cores,
        memory_bytes,
        gpus,
        one.gpu_memory_bytes or 0,
        one.local_nvme_bytes or 0,
        one.rack,
        one.group,
        price * gpus if price is not None and gpus else None,
        from_seconds,
        one.sku,
    )


def _names(holders: Sequence[NodeHolder]) -> str:
    names = list(dict.fromkeys(plain(holder.name) for holder in holders))
    rest = len(names) - _HOLDERS_NAMED
    return ", ".join(names[:_HOLDERS_NAMED]) + (f" and {counted(rest, 'more run')}" if rest > 0 else "")
