"""How late each task could start, and the chain of tasks that makes a plan as long as it is."""

from collections.abc import Sequence

from analyzer.capacity.planner.instance import Instance
from analyzer.capacity.planner.schedule import Schedule
from analyzer.capacity.planner.timetable import Timetable


def latest_starts(instance: Instance, schedule: Schedule, horizon: int) -> list[int]:
    """Return each task's latest start on its node, so that all is done by `horizon` and by the tasks' own deadlines.

    A backward pass: the plan is pushed against the horizon, the task that ends last first, in the mirror of the
    timetables. All tasks can start as late at once. None is pushed forward: what ends past its deadline already stays.
    """
    ends = instance.ends(schedule.nodes, schedule.starts)
    horizon = max(horizon, *ends)
    tables = [Timetable(free, instance.guard) for free in instance.free]
    place = {task: at for at, task in enumerate(instance.order)}
    latest = [0] * len(ends)
    for task in sorted(range(len(ends)), key=lambda task: (-ends[task], -place[task])):
        last_end = horizon
        own = instance.problem.tasks[task].deadline_seconds
        if own is not None:
            last_end = min(last_end, max(own, ends[task]))
        node = schedule.nodes[task]
        for following, delays in instance.after[task]:
            last_end = min(last_end, latest[following] - delays[instance.medium(node, schedule.nodes[following])])
        seconds = instance.seconds_on(task, node)
        mirrored = tables[node].earliest(horizon - last_end, seconds, instance.need[task])
        tables[node].book(mirrored, seconds, instance.need[task])
        latest[task] = horizon - mirrored - seconds
    return latest


def critical_chain(instance: Instance, schedule: Schedule) -> list[int]:
    """Return the tasks that hold the end where it is, first to last.

    Each starts the moment that the one before it lets it: by its data's arrival, or by the room that it leaves.
    """
    ends = instance.ends(schedule.nodes, schedule.starts)
    chain = [max(range(len(ends)), key=lambda task: (ends[task], schedule.starts[task]))]
    while (holder := _holder(instance, schedule, ends, chain[-1])) is not None and holder not in chain:
        chain.append(holder)
    return chain[::-1]


def _holder(instance: Instance, schedule: Schedule, ends: Sequence[int], task: int) -> int | None:
    """Return the task that this one waited for to the last; None where it waited for none."""
    start, node = schedule.starts[task], schedule.nodes[task]
    for source, delays in instance.before[task]:
        if ends[source] + delays[instance.medium(schedule.nodes[source], node)] == start:
            return source
    if start == max(instance.earliest[task], instance.available[node]):
        return None
    left = [other for other in range(len(ends)) if schedule.nodes[other] == node and ends[other] == start]
    return max(left, key=lambda other: instance.need[other], default=None)
