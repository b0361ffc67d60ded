"""A schedule that keeps the deadline and moves little, where CP-SAT is not there or has not the time to find the least.

First all tasks where they were planned; if that is too late, from the shortest schedule one task after the other goes
back to where it was planned, those with the most slack first, as long as the deadline is kept.
"""

from collections.abc import Callable, Iterator

from analyzer.capacity.planner.heft import preferred
from analyzer.capacity.planner.instance import Instance
from analyzer.capacity.planner.lateness import late_seconds
from analyzer.capacity.planner.schedule import Schedule, by_priority, insert
from analyzer.capacity.planner.slack import latest_starts


def is_kept(instance: Instance, schedule: Schedule) -> bool:
    """Whether a schedule keeps the deadline of all, if there is one, and each task's own."""
    deadline = instance.problem.deadline_seconds
    in_time = deadline is None or schedule.makespan(instance) <= deadline
    return in_time and late_seconds(instance, schedule) == 0


def least_changed(instance: Instance, shortest: Schedule, is_over: Callable[[], bool]) -> Iterator[Schedule]:
    """Yield schedules that keep the deadline, each with fewer moves than the one before; `shortest` keeps it."""
    latest = latest_starts(instance, shortest, instance.problem.deadline_seconds or shortest.makespan(instance))
    order = by_priority(instance, [-start for start in latest])
    there = _planned(instance)
    pick = preferred(instance)
    at_home = insert(instance, order, [[there[t]] if t in there else nodes for t, nodes in enumerate(pick)])
    if is_kept(instance, at_home):
        yield at_home
        return
    held = dict(enumerate(shortest.nodes))
    slack = [late - start for late, start in zip(latest, shortest.starts, strict=True)]
    for task in sorted(there, key=lambda task: -slack[task]):
        if held[task] == there[task] or is_over():
            continue
        tried = held | {task: there[task]}
        schedule = insert(instance, order, [[node] for node in tried.values()])
        if is_kept(instance, schedule):
            held = tried
            yield schedule


def _planned(instance: Instance) -> dict[int, int]:
    """Return the tasks that are planned on a node that they fit, and the node."""
    number = {node.name: at for at, node in enumerate(instance.problem.nodes)}
    named = {at: task.planned.node for at, task in enumerate(instance.problem.tasks)}
    numbers = {at: number[name] for at, name in named.items() if name is not None}
    return {at: node for at, node in numbers.items() if node in instance.choices[at]}
