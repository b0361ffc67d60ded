"""Place tasks one after the other, each as early as it goes: the step that all heuristics share."""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from analyzer.capacity.planner.instance import Instance
from analyzer.capacity.planner.timetable import Timetable


@dataclass(frozen=True, slots=True)
class Schedule:
    """Each task's node and start, by position."""

    nodes: tuple[int, ...]
    starts: tuple[int, ...]

    def makespan(self, instance: Instance) -> int:
        """Return when the last task ends, in seconds."""
        return max(instance.ends(self.nodes, self.starts))


def by_priority(instance: Instance, priority: Sequence[float]) -> list[int]:
    """Return the tasks by priority, highest first, each after all that it waits for; equals in order of arrival."""
    waiting = [len(waits) for waits in instance.before]
    ready = [(-priority[task], task) for task, count in enumerate(waiting) if count == 0]
    heapify(ready)
    found = []
    while ready:
        task = heappop(ready)[1]
        found.append(task)
        for following, _ in instance.after[task]:
            waiting[following] -= 1
            if waiting[following] == 0:
                heappush(ready, (-priority[following], following))
    return found


def ready_at(instance: Instance, task: int, node: int, nodes: Sequence[int], ends: Sequence[int]) -> int:
    """Return when a task's inputs have arrived at a node, and node and task are there."""
    ready = max(instance.earliest[task], instance.available[node])
    for source, delays in instance.before[task]:
        arrived = ends[source] + delays[instance.medium(nodes[source], node)]
        ready = max(ready, arrived)
    return ready


def insert(instance: Instance, order: Sequence[int], pick: Sequence[Sequence[int]]) -> Schedule:
    """Place each task in turn on that of its nodes where it ends first, gaps between earlier tasks included.

    `pick` gives the nodes that each task may take, the one to prefer among equals first.
    """
    tables = [Timetable(free, instance.guard) for free in instance.free]
    count, kind = len(instance.choices), instance.kind
    nodes, starts, ends = [0] * count, [0] * count, [0] * count
    for task in order:
        by_kind, need = instance.seconds[task], instance.need[task]
        chosen, earliest, lasts = -1, 0, 0
        for node in pick[task]:
            ready, seconds = ready_at(instance, task, node, nodes, ends), by_kind[kind[node]]
            if chosen >= 0 and ready + seconds >= earliest + lasts:
                continue
            start = tables[node].earliest(ready, seconds, need)
            if chosen < 0 or start + seconds < earliest + lasts:
                chosen, earliest, lasts = node, start, seconds
        tables[chosen].book(earliest, lasts, need)
        nodes[task], starts[task], ends[task] = chosen, earliest, earliest + lasts
    return Schedule(tuple(nodes), tuple(starts))
