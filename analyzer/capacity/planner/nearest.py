"""The nearest plan that keeps every rule, for one that somebody proposed: nodes stay where they can, times follow.

What must move is what has no place: tasks that are missing, or on a node that does not exist or does not suit. Where
the deadline is still missed, more tasks move, as few as the search finds. Of plans that move as few, the shortest is
taken. Times are made anew in the order that was proposed; the starts that were proposed stay where that costs nothing.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from random import Random

from analyzer.capacity.planner.instance import Instance
from analyzer.capacity.planner.problem import Problem
from analyzer.capacity.planner.proposal import Broken, Placed, Proposal, listed
from analyzer.capacity.planner.schedule import Schedule, by_priority, by_start, insert
from analyzer.capacity.planner.solve import preferred, ranks
from analyzer.capacity.planner.validator import Verdict, validate

_ORDERS = 200  # drawn of one choice of nodes, beside the proposed one and HEFT's
_FREED_MAX = 2  # tasks that are freed at once beyond those that must move; with more, all are freed and some put back
_DRAWS = 100  # of orders with all tasks free
_SPREAD = 0.3  # of a rank, up or down, where an order is drawn


@dataclass(frozen=True)
class _Mending:
    """One proposal to mend: by task its nodes, if they exist, and its start. `is_over` ends the search early.

    A score is (seconds late, tasks on other nodes, makespan), all the lower the better.
    """

    problem: Problem
    wanted: dict[str, tuple[Placed | None, int]]
    is_over: Callable[[], bool]

    @cached_property
    def instance(self) -> Instance:
        """The problem by position."""
        return Instance(self.problem)

    @cached_property
    def nodes(self) -> list[int | None]:
        """Each task's proposed place; None where it has none that suits."""
        said = [self.wanted.get(task.name, (None, 0))[0] for task in self.problem.tasks]
        return [
            None
            if placed is None
            else self.instance.fitting(task, [self.problem.node_number[name] for name in placed.nodes], placed.gpus)
            for task, placed in enumerate(said)
        ]

    def mended(self) -> Schedule:
        """Return the best schedule that is found, with the proposed starts where they cost nothing."""
        loose = frozenset(at for at, node in enumerate(self.nodes) if node is None)
        best = self._best(self._with(loose))
        if self.score(best)[0] > 0:
            best = self._best([best, *self._freed(loose), *self._put_back(loose)])
        kept = self._with_starts(best)
        return kept if self.score(kept) <= self.score(best) else best

    def score(self, schedule: Schedule) -> tuple[int, int, int]:
        """Return how late the schedule is in sum, how many tasks it moves, and its makespan."""
        late = 0
        ends = self.instance.ends(schedule.nodes, schedule.starts)
        for task, end in zip(self.problem.tasks, ends, strict=True):
            for until in (task.deadline_seconds, self.problem.deadline_seconds):
                late += 0 if until is None else max(0, end - until)
        moved = sum(node != now for node, now in zip(self.nodes, schedule.nodes, strict=True))
        return late, moved, schedule.makespan(self.instance)

    def _best(self, schedules: Iterable[Schedule]) -> Schedule:
        return min(schedules, key=self.score)

    def _with(self, loose: frozenset[int], draws: int = _ORDERS) -> Iterator[Schedule]:
        """Yield schedules that move only these tasks: in the order proposed, by HEFT's, and in orders drawn."""
        rank = ranks(self.instance)
        pick = [
            choices if at in loose or node is None else [node]
            for at, (node, choices) in enumerate(zip(self.nodes, preferred(self.instance), strict=True))
        ]
        yield insert(self.instance, by_start(self.instance, self._said_starts), pick)
        yield insert(self.instance, by_priority(self.instance, rank), pick)
        random = Random(len(loose))  # noqa: S311 - no secret: repeatable is what is wanted
        for _ in range(draws):
            if self.is_over():
                return
            drawn = [value * random.uniform(1 - _SPREAD, 1 + _SPREAD) for value in rank]
            yield insert(self.instance, by_priority(self.instance, drawn), pick)

    @cached_property
    def _said_starts(self) -> list[int]:
        """Each task's proposed start; one that nobody has placed starts as soon as it can."""
        return [self.wanted[task.name][1] if task.name in self.wanted else 0 for task in self.problem.tasks]

    def _freed(self, loose: frozenset[int]) -> Iterator[Schedule]:
        """Yield schedules with a few tasks more that may move, the fewest first, until some keep the deadlines."""
        others = [at for at in range(len(self.nodes)) if at not in loose]
        for count in range(1, _FREED_MAX + 1):
            found = False
            for freed in combinations(others, count):
                if self.is_over():
                    return
                for schedule in self._with(loose | frozenset(freed), draws=0):
                    found = found or self.score(schedule)[0] == 0
                    yield schedule
            if found:
                return

    def _put_back(self, loose: frozenset[int]) -> Iterator[Schedule]:
        """Yield the best schedule that is found with all tasks free, and then with task after task put back."""
        best = min(self._with(frozenset(range(len(self.nodes))), _DRAWS), key=lambda each: self.score(each)[::2])
        yield best
        for task, node in enumerate(self.nodes):
            if node is None or node == best.nodes[task] or task in loose:
                continue
            if self.is_over():
                return
            pick = [[at] for at in best.nodes]
            pick[task] = [node]
            tried = insert(self.instance, by_start(self.instance, best.starts), pick)
            if self.score(tried)[0] <= self.score(best)[0]:
                best = tried
                yield best

    def _with_starts(self, schedule: Schedule) -> Schedule:
        """Return the schedule with no task earlier than it was proposed, its nodes and its order kept."""
        tasks = tuple(
            replace(task, earliest_start_seconds=max(task.earliest_start_seconds, said))
            for task, said in zip(self.problem.tasks, self._said_starts, strict=True)
        )
        waiting = Instance(replace(self.problem, tasks=tasks))
        places = [[waiting.place(*self.instance.form_at(place))] for place in schedule.nodes]
        return Schedule(schedule.nodes, insert(waiting, by_start(self.instance, schedule.starts), places).starts)


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
    mending = _Mending(problem, _wanted(problem, proposal), lambda: time.monotonic() >= until)
    schedule = mending.mended()
    placed = [_placed(mending.instance, schedule, at) for at in range(len(problem.tasks))]
    verdict = validate(problem, Proposal(tuple(placed)))
    return Nearest(proposed, verdict, *_changes(mending, proposal, proposed, schedule))


def _placed(instance: Instance, schedule: Schedule, task: int) -> Placed:
    """Return a task where it is in a schedule, as a proposal says it."""
    place = schedule.nodes[task]
    first, *others = instance.names_of(place)
    gpus = instance.gpus_at(task, place)
    return Placed(instance.problem.tasks[task].name, first, schedule.starts[task], None, tuple(others), gpus)


def _wanted(problem: Problem, proposal: Proposal) -> dict[str, tuple[Placed | None, int]]:
    """Return each placed task's nodes, if they exist, and start; of several places the first whose nodes exist."""
    found: dict[str, tuple[Placed | None, int]] = {}
    for each in proposal.placements:
        placed = each if set(each.nodes) <= problem.node_by_name.keys() else None
        if each.task in problem.task_by_name and found.get(each.task, (None, 0))[0] is None:
            found[each.task] = (placed, each.start_seconds)
    return found


def _changes(
    mending: _Mending, proposal: Proposal, proposed: Verdict, schedule: Schedule
) -> tuple[tuple[MovedTask, ...], tuple[Shifted, ...]]:
    wanted = _wanted(mending.problem, proposal)
    moved, shifted = [], []
    for at, (task, start) in enumerate(zip(mending.problem.tasks, schedule.starts, strict=True)):
        placed, said = wanted.get(task.name, (None, None))
        if mending.nodes[at] != schedule.nodes[at]:
            why = _why(proposed, task.name) or "so that the deadline is kept"
            now = listed(mending.instance.names_of(schedule.nodes[at]))
            moved.append(MovedTask(task.name, listed(placed.nodes) if placed is not None else None, now, why))
        elif said is not None and said != start:
            why = _why(proposed, task.name) or "it follows from the other changes"
            shifted.append(Shifted(task.name, said, start, why))
    return tuple(moved), tuple(shifted)


def _why(proposed: Verdict, task: str) -> str | None:
    """Return what was wrong with the task, the first of several; not that another did not wait for it."""
    return next((each.text for each in proposed.broken if task in _whose(each)), None)


def _whose(broken: Broken) -> tuple[str, ...]:
    """Return the tasks whose own place or start breaks the rule."""
    return broken.tasks[-1:] if broken.rule in ("order", "transfer") else broken.tasks
