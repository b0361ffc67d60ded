"""HEFT with insertion: the task with the longest way to the end first, on the node where it ends first.

Source: Topcuoglu, Hariri and Wu, "Performance-effective and low-complexity task scheduling for heterogeneous computing"
(2002): rank(i) = mean run time + max over what follows of (mean transfer + rank). Here several
tasks share a node, and equal ends go to the node with the least that is scarce.
"""

from analyzer.capacity.planner.instance import CROSS_RACK, LOCAL, RACK, STORAGE, Instance
from analyzer.capacity.planner.schedule import Schedule, by_priority, insert


def heft(instance: Instance) -> Schedule:
    """Return HEFT's schedule."""
    return insert(instance, by_priority(instance, ranks(instance)), preferred(instance))


def ranks(instance: Instance) -> list[float]:
    """Return each task's upward rank: seconds from its start to the end of all, by mean durations and transfers."""
    shares = _shares(instance)
    found = [0.0] * len(instance.mean_seconds)
    for task in reversed(instance.order):
        ways = [
            sum(share * seconds for share, seconds in zip(shares, delays, strict=True)) + found[following]
            for following, delays in instance.after[task]
        ]
        found[task] = instance.mean_seconds[task] + max(ways, default=0.0)
    return found


def preferred(instance: Instance) -> list[list[int]]:
    """Return each task's nodes, those without GPUs and SSD first: what is scarce is kept for who needs it."""
    scarce = [(node.gpus > 0) + (node.ssd_bytes > 0) for node in instance.problem.nodes]
    return [sorted(choices, key=lambda node: scarce[node]) for choices in instance.choices]


def _shares(instance: Instance) -> tuple[float, float, float, float]:
    """Return how many of all pairs of nodes lie in each of MEDIA."""
    count = len(instance.rack)
    within = [0] * (max(instance.rack) + 1)
    for rack in instance.rack:
        within[rack] += 1
    shares = [0.0] * 4
    shares[LOCAL] = 1 / count
    same_rack = sum(size * size for size in within) / (count * count)
    if instance.uses_storage:
        shares[STORAGE] = 1 - shares[LOCAL]
    else:
        shares[RACK], shares[CROSS_RACK] = same_rack - shares[LOCAL], 1 - same_rack
    return shares[0], shares[1], shares[2], shares[3]
