"""What a plan comes to when its tasks take as long as they do: its nodes and order are kept, its durations drawn.

A task starts as soon as its inputs are there and those tasks have ended whose room on the node it takes over in the
plan. Which those are is settled once: each task takes what it needs from what was never used, and then from tasks that
have ended (a resource flow: Artigues, Michelon and Reusser, "Insertion techniques for static and dynamic
resource-constrained project scheduling", 2003). So no draw can overfill a node, none looks at durations that are not
known yet, and with the planned durations nothing is later than planned.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import ceil, exp, log
from random import Random

from analyzer.capacity.planner.plan import Placement, Plan
from analyzer.capacity.planner.problem import RESOURCES, Duration, Problem, Task


@dataclass(frozen=True, slots=True)
class Outlook:
    """Quantiles of the plan's end, in seconds from its start, over so many draws.

    `on_time_ratio` is the share of draws that keep every deadline, the tasks' own too; None where there is none.
    `tasks_without_spread` have one duration in every draw, because nobody said how it varies: the spread is then too
    narrow.
    """

    p10_seconds: int
    p50_seconds: int
    p90_seconds: int
    on_time_ratio: float | None
    draws: int
    tasks_without_spread: tuple[str, ...] = ()


_Z90 = 1.2815515655446004  # the standard normal's 90th percentile

Draw = Callable[[Random], int]


def drawn_from(duration: Duration, samples: Sequence[int] = ()) -> Draw:
    """Return what draws the task's seconds: one of its real runs, or a curve through its P10, P50 and P90.

    The curve is a split log-normal: each side of the median has its own width, so that all three quantiles are hit, no
    duration is negative, and the long tail of real runs is there (two-piece distributions: Wallis, "The two-piece
    normal, binormal, or double Gaussian distribution", 2014; here on the logarithm, split at the median). Where the P10
    is 0 it has no logarithm, and the curve is a split normal that ends at 0. Tasks are drawn independently: a cause
    that slows several at once, as a hot rack does, makes the true spread wider.
    """
    if samples:
        runs = tuple(samples)
        return lambda random: random.choice(runs)
    p10, p50, p90 = duration.p10_seconds, duration.p50_seconds, duration.p90_seconds
    if p10 == p90:
        return lambda _: p50
    if p10 == 0:
        below, above = p50 / _Z90, (p90 - p50) / _Z90
        return lambda random: _split_normal(random.gauss(0.0, 1.0), p50, below, above)
    below, above = log(p50 / p10) / _Z90, log(p90 / p50) / _Z90
    return lambda random: _split_log_normal(random.gauss(0.0, 1.0), p50, below, above)


def has_spread(duration: Duration, samples: Sequence[int] = ()) -> bool:
    """Say whether it is known how the task's duration varies."""
    return len(set(samples)) > 1 if samples else duration.p10_seconds < duration.p90_seconds


def _split_log_normal(z: float, median: int, below: float, above: float) -> int:
    return round(median * exp((below if z < 0 else above) * z))


def _split_normal(z: float, median: int, below: float, above: float) -> int:
    return max(0, round(median + (below if z < 0 else above) * z))


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
            needs = {at: int(getattr(problem.task_by_name[placements[at].task], resource)) for at in there}
            _hand_on(needs, getattr(node, resource), placements, found)
    return [tuple(sorted(each)) for each in found]


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


_HAIR = 1e-6  # seconds: less than this is left of a transfer only by rounding


def contended_ends_of(steps: Sequence[Step], seconds: Sequence[int]) -> list[int]:
    """Return when each task ends if they take so long and transfers slow each other down; whole seconds, rounded up.

    A transfer goes at its full rate divided by the number of those on the most crowded of its links. That is the least
    that fair sharing gives it, so what is found is an upper end of what contention costs. Links: a node's disk for
    local copies, its ports within a rack, a rack's uplinks between racks, and the network storage, which all share.
    """
    return _Course(steps, seconds).run()


class _Course:
    """One replay as it goes: tasks that run, data that moves, and what each task still waits for."""

    def __init__(self, steps: Sequence[Step], seconds: Sequence[int]) -> None:
        self._steps, self._seconds = steps, seconds
        self._ends = [0.0] * len(steps)
        self._waits = [1 + len(step.transfers) + len(step.room_of) for step in steps]  # one for its release
        self._sends: list[list[tuple[int, float, tuple[str, ...]]]] = [[] for _ in steps]
        self._frees: list[list[int]] = [[] for _ in steps]
        for at, step in enumerate(steps):
            for transfer in step.transfers:
                self._sends[transfer.before].append((at, float(transfer.seconds), transfer.links))
            for other in step.room_of:
                self._frees[other].append(at)
        # What comes: (when, whether a task ends, which); releases before ends only matters for equal moments.
        self._coming = [(float(step.release), False, at) for at, step in enumerate(steps)]
        self._coming.sort()
        # Of each transfer under way: the task that waits for it, the seconds left at full rate, its links.
        self._moving: list[int] = []
        self._left: list[float] = []
        self._links: list[tuple[str, ...]] = []
        self._now = 0.0

    def run(self) -> list[int]:
        """Return when each task ends."""
        while self._coming or self._moving:
            slowed = self._slowed()
            moments = [self._now + left * slow for left, slow in zip(self._left, slowed, strict=True)]
            until = min([*moments, *(when for when, _, _ in self._coming[:1])])
            self._left = [left - (until - self._now) / slow for left, slow in zip(self._left, slowed, strict=True)]
            self._now = until
            self._arrived()
            while self._coming and self._coming[0][0] <= self._now:
                self._came(*heappop(self._coming)[1:])
        return [ceil(end - _HAIR) for end in self._ends]

    def _slowed(self) -> list[int]:
        """Return by how much each transfer is slowed down: those on its most crowded link."""
        crowd = Counter(link for links in self._links for link in links)
        return [max(crowd[link] for link in links) for links in self._links]

    def _arrived(self) -> None:
        done = [at for at, left in zip(self._moving, self._left, strict=True) if left <= _HAIR]
        if done:
            kept = [number for number, left in enumerate(self._left) if left > _HAIR]
            self._moving = [self._moving[number] for number in kept]
            self._left = [self._left[number] for number in kept]
            self._links = [self._links[number] for number in kept]
            for at in done:
                self._less(at)

    def _came(self, is_end: bool, at: int) -> None:
        if not is_end:
            self._less(at)
            return
        self._ends[at] = self._now
        for other in self._frees[at]:
            self._less(other)
        for after, left, links in self._sends[at]:
            if left > 0:
                self._moving.append(after)
                self._left.append(left)
                self._links.append(links)
            else:
                self._less(after)

    def _less(self, at: int) -> None:
        """Note that a task waits for one thing less; with nothing left it runs."""
        self._waits[at] -= 1
        if self._waits[at] == 0:
            heappush(self._coming, (self._now + self._seconds[at], True, at))


_DRAWS = 1000
_DRAWS_MAX = 100_000


def simulate(
    problem: Problem,
    plan: Plan,
    draws: int = _DRAWS,
    seed: int = 0,
    *,
    samples: Mapping[str, Sequence[int]] | None = None,
) -> Outlook:
    """Return when the plan ends over so many draws; the same seed gives the same answer.

    Nodes and order are the plan's, nothing is solved again. `samples` are seconds of real runs by task, on GPUs of the
    kind that the plan has it on; they are drawn instead of the curve through P10, P50 and P90.
    """
    if not 0 < draws <= _DRAWS_MAX:
        raise ValueError(f"draw 1 to {_DRAWS_MAX:,} times, not {draws:,}")
    real = samples or {}
    steps = steps_of(problem, plan)
    draw = [drawn_from(step.duration, real.get(step.task.name, ())) for step in steps]
    durations = {step.task.name: step.duration for step in steps}
    random = Random(seed)  # noqa: S311 - no secret: repeatable is what is wanted
    finishes, on_time = [], 0
    for _ in range(draws):
        ends = ends_of(steps, [one(random) for one in draw])
        finishes.append(max(ends))
        on_time += all(
            step.deadline_seconds is None or end <= step.deadline_seconds for step, end in zip(steps, ends, strict=True)
        )
    finishes.sort()
    return Outlook(
        p10_seconds=_quantile(finishes, 0.1),
        p50_seconds=_quantile(finishes, 0.5),
        p90_seconds=_quantile(finishes, 0.9),
        on_time_ratio=on_time / draws if any(step.deadline_seconds is not None for step in steps) else None,
        draws=draws,
        tasks_without_spread=tuple(
            name for name in problem.task_by_name if not has_spread(durations[name], real.get(name, ()))
        ),
    )


def links_cost_seconds(problem: Problem, plan: Plan) -> int:
    """Return how much later the plan ends, with the planned durations, where transfers share their links."""
    steps = steps_of(problem, plan)
    seconds = [step.duration.p50_seconds for step in steps]
    return max(contended_ends_of(steps, seconds)) - max(ends_of(steps, seconds))


def _quantile(ascending: Sequence[int], share: float) -> int:
    """Return the least value that this share of all does not exceed."""
    return ascending[max(0, ceil(share * len(ascending)) - 1)]
