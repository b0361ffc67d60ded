"""Run a plan again with other durations: the same nodes, and the same tasks waiting for one another.

A task starts as soon as its inputs are there and those tasks have ended whose room on the node it takes over in the
plan. Which those are is settled once: each task takes what it needs from what was never used, and then from tasks that
have ended (a resource flow: Artigues, Michelon and Reusser, "Insertion techniques for static and dynamic
resource-constrained project scheduling", 2003). So no draw can overfill a node, none looks at durations that are not
known yet, and with the planned durations nothing is later than planned.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from analyzer.capacity.planner.plan import Placement, Plan
from analyzer.capacity.planner.problem import RESOURCES, Duration, Problem, Task


@dataclass(frozen=True, slots=True)
class Transfer:
    """What a task waits for: the end of the task at `before`, and then so many seconds over those links.

    A link is named by what is shared: a node's port, a rack's uplink, the network storage.
    """

    before: int
    seconds: int
    links: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """One task of the replay: no earlier than `release`, after its transfers, and after the tasks at `room_of`."""

    task: Task
    release: int
    transfers: tuple[Transfer, ...]
    room_of: tuple[int, ...]
    deadline_seconds: int | None  # the earlier of its own and that of all
    duration: Duration  # on the plan's node


def steps_of(problem: Problem, plan: Plan) -> list[Step]:
    """Return the plan's tasks, each after all that it waits for; the plan must be one that fits its nodes."""
    depth = {task.name: number for number, task in enumerate(problem.order)}
    placements = sorted(plan.placements, key=lambda each: (each.start_seconds, depth[each.task]))
    number = {each.task: at for at, each in enumerate(placements)}
    room = _rooms(problem, placements)
    steps = []
    for at, placed in enumerate(placements):
        task, node = problem.task_by_name[placed.task], problem.node_by_name[placed.node]
        deadlines = [each for each in (task.deadline_seconds, problem.deadline_seconds) if each is not None]
        transfers = [
            _transfer(problem, plan.by_task[each.task], placed, number[each.task], each.bytes) for each in task.inputs
        ]
        release = max(task.earliest_start_seconds, node.available_from_seconds)
        duration = task.duration_on(node)
        assert duration is not None, f"BUG: how long {task.name} takes on {node.name} is not known"  # noqa: S101
        steps.append(Step(task, release, tuple(transfers), room[at], min(deadlines, default=None), duration))
    return steps


def ends_of(steps: Sequence[Step], seconds: Sequence[int]) -> list[int]:
    """Return when each task ends if they take so long."""
    ends: list[int] = []
    for step, lasts in zip(steps, seconds, strict=True):
        start = step.release
        for transfer in step.transfers:
            arrives = ends[transfer.before] + transfer.seconds
            start = max(start, arrives)
        for other in step.room_of:
            start = max(start, ends[other])
        ends.append(start + lasts)
    return ends


def _transfer(problem: Problem, before: Placement, after: Placement, number: int, size_bytes: int) -> Transfer:
    source, target = problem.node_by_name[before.node], problem.node_by_name[after.node]
    medium = problem.network.medium(source, target)
    links = {
        "local": (f"disk of {source.name}",),
        "rack": (f"port out of {source.name}", f"port into {target.name}"),
        "cross_rack": (f"uplink from {source.rack or source.name}", f"uplink to {target.rack or target.name}"),
        "storage": ("storage",),
    }[medium]
    return Transfer(number, problem.network.seconds(medium, size_bytes), links)


def _rooms(problem: Problem, placements: Sequence[Placement]) -> list[tuple[int, ...]]:
    """Return for each task those on its node that must have ended before it, so that there is room."""
    found = [set[int]() for _ in placements]
    for node in problem.nodes:
        there = [at for at, each in enumerate(placements) if each.node == node.name]
        there = [at for at in there if placements[at].end_seconds > placements[at].start_seconds]
        for resource in RESOURCES:
            needs = {at: _amount(problem.task_by_name[placements[at].task], resource) for at in there}
            _hand_on(needs, getattr(node, resource), placements, found)
    return [tuple(sorted(each)) for each in found]


def _amount(task: Task, resource: str) -> int:
    return int(getattr(task, resource))


def _hand_on(needs: dict[int, int], free: int, placements: Sequence[Placement], found: list[set[int]]) -> None:
    """Hand one resource of one node from task to task in the order of their starts, and note who waits for whom."""
    held: dict[int, int] = {}
    for at, need in needs.items():
        start, missing = placements[at].start_seconds, need
        taken = min(free, missing)
        free, missing = free - taken, missing - taken
        over = [other for other in held if placements[other].end_seconds <= start]
        over.sort(key=lambda other: (other not in found[at], placements[other].end_seconds))
        for other in over:
            taken = min(held[other], missing)
            if taken:
                found[at].add(other)
                held[other] -= taken
                missing -= taken
        if missing:
            raise AssertionError(f"BUG: {placements[at].node} is too full for {placements[at].task}: validate it first")
        held[at] = need
