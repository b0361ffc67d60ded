"""The nearest plan that keeps every rule, for one that somebody proposed: nodes stay where they can, times follow.

What must move is what has no place: tasks that are missing, or on a node that does not exist or does not suit. Where
the deadline is still missed, more tasks move, as few as the search finds. Of plans that move as few, the shortest is
taken. Times are made anew in the order that was proposed; the starts that were proposed stay where that costs nothing.
"""

import time
from dataclasses import dataclass

from analyzer.capacity.planner.mending import Mending
from analyzer.capacity.planner.problem import Problem
from analyzer.capacity.planner.schedule import Schedule
from analyzer.capacity.planner.validator import Broken, Placed, Proposal, Verdict, validate

_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class MovedTask:
    """A task that runs on another node than was proposed. `from_node` is None where none was, or none that exists."""

    task: str
    from_node: str | None
    to_node: str
    why: str


@dataclass(frozen=True, slots=True)
class Shifted:
    """A task that stays on its node and starts at another time."""

    task: str
    from_seconds: int
    to_seconds: int
    why: str


@dataclass(frozen=True, slots=True)
class Nearest:
    """What was said of the proposal, and the plan in its place: `verdict` is the validator's on that plan.

    It is not valid where no plan was found that keeps the deadlines; it then misses them by the least that was found,
    and keeps all other rules.
    """

    proposed: Verdict
    verdict: Verdict
    moved: tuple[MovedTask, ...]
    shifted: tuple[Shifted, ...]


def nearest(problem: Problem, proposal: Proposal, seconds: float = _SECONDS) -> Nearest:
    """Return the nearest valid plan that is found in that many seconds; a valid proposal is its own."""
    proposed = validate(problem, proposal)
    if proposed.is_valid:
        return Nearest(proposed, proposed, (), ())
    until = time.monotonic() + seconds
    mending = Mending(problem, _wanted(problem, proposal), lambda: time.monotonic() >= until)
    schedule = mending.mended()
    placed = [
        Placed(task.name, problem.nodes[node].name, start)
        for task, node, start in zip(problem.tasks, schedule.nodes, schedule.starts, strict=True)
    ]
    verdict = validate(problem, Proposal(tuple(placed)))
    return Nearest(proposed, verdict, *_changes(problem, proposal, proposed, schedule))


def _wanted(problem: Problem, proposal: Proposal) -> dict[str, tuple[str | None, int]]:
    """Return each placed task's node, if it exists, and start; of several places the first whose node exists."""
    found: dict[str, tuple[str | None, int]] = {}
    for each in proposal.placements:
        node = each.node if each.node in problem.node_by_name else None
        if each.task in problem.task_by_name and found.get(each.task, (None, 0))[0] is None:
            found[each.task] = (node, each.start_seconds)
    return found


def _changes(
    problem: Problem, proposal: Proposal, proposed: Verdict, schedule: Schedule
) -> tuple[tuple[MovedTask, ...], tuple[Shifted, ...]]:
    wanted = _wanted(problem, proposal)
    moved, shifted = [], []
    for task, at, start in zip(problem.tasks, schedule.nodes, schedule.starts, strict=True):
        node, said = wanted.get(task.name, (None, None))
        now = problem.nodes[at].name
        if node != now:
            why = _why(proposed, task.name) or "so that the deadline is kept"
            moved.append(MovedTask(task.name, node, now, why))
        elif said is not None and said != start:
            why = _why(proposed, task.name) or "it follows from what else changes"
            shifted.append(Shifted(task.name, said, start, why))
    return tuple(moved), tuple(shifted)


def _why(proposed: Verdict, task: str) -> str | None:
    """Return what was wrong with the task, the first of several; not that another did not wait for it."""
    return next((each.text for each in proposed.broken if task in _whose(each)), None)


def _whose(broken: Broken) -> tuple[str, ...]:
    """Return the tasks whose own place or start breaks the rule."""
    return broken.tasks[-1:] if broken.rule in ("order", "transfer") else broken.tasks
