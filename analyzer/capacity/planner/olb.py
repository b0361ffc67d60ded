"""OLB, opportunistic load balancing: tasks in the order in which they arrived, each to the machine that is free first.

It looks at neither run nor transfer times, and gives each task a machine to itself: what a site gets where nobody
plans. A task that arrived before what it waits for is taken once that has its place.
"""

from analyzer.capacity.planner.instance import Instance
from analyzer.capacity.planner.schedule import Schedule, by_priority, ready_at


def olb(instance: Instance) -> Schedule:
    """Return OLB's schedule."""
    count = len(instance.choices)
    nodes, starts, ends = [0] * count, [0] * count, [0] * count
    free_at = list(instance.available)
    for task in by_priority(instance, [-arrived for arrived in range(count)]):
        node = min(instance.choices[task], key=lambda node: free_at[node])
        start = max(free_at[node], ready_at(instance, task, node, nodes, ends))
        nodes[task], starts[task], ends[task] = node, start, start + instance.seconds_on(task, node)
        free_at[node] = ends[task]
    return Schedule(tuple(nodes), tuple(starts))
