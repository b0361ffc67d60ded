"""What a plan comes to when its tasks take as long as they do: its nodes and order are kept, its durations drawn.

A task starts as soon as its inputs are there and its node has room, whoever left it; a gang when all of its nodes have.
Tasks that wait for a node are served in the order of the plan: one that finds no room has the first claim to what comes
free. A task goes ahead of one before it in the plan whose inputs are late, or which would not end before the node goes
away, though not before its own planned start: until then the plan keeps the room for the other. So no draw can overfill
a node, and with the planned durations nothing is later than planned, but for transfers, which share their links.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import ceil, exp, inf, log
from random import Random

from analyzer.capacity.planner.instance import Instance
from analyzer.capacity.planner.plan import Placement, Plan
from analyzer.capacity.planner.problem import Duration, Problem, Task


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
    """One task of the replay: no earlier than `release`, after its transfers, and with what it `holds`.

    That is so much, packed, of each of its nodes, and last of the licences (see Instance).
    """

    task: Task
    release: int
    transfers: tuple[Transfer, ...]
    holds: tuple[tuple[int, int], ...]
    planned: int  # its start, in seconds
    deadline_seconds: int | None  # the earlier of its own and that of all
    duration: Duration  # on the plan's nodes


def _steps_of(problem: Problem, plan: Plan) -> list[Step]:
    """Return the plan's tasks in the order of their starts, each after all that it waits for."""
    depth = {task.name: number for number, task in enumerate(problem.order)}
    placements = sorted(plan.placements, key=lambda each: (each.start_seconds, depth[each.task]))
    number = {each.task: at for at, each in enumerate(placements)}
    instance = Instance(problem)
    steps = []
    for placed in placements:
        task, nodes = problem.task_by_name[placed.task], [problem.node_by_name[name] for name in placed.nodes]
        deadlines = [each for each in (task.deadline_seconds, problem.deadline_seconds) if each is not None]
        transfers = tuple(
            _transfer(problem, plan.by_task[each.task], placed, number[each.task], each.bytes) for each in task.inputs
        )
        release = max(task.earliest_start_seconds, *(node.available_from_seconds for node in nodes))
        duration = problem.duration_on(task, placed.nodes, placed.gpus)
        due = min(deadlines, default=None)
        place = instance.place_of(
            problem.task_number[task.name], [problem.node_number[name] for name in placed.nodes], placed.gpus
        )
        holds = tuple(instance.holds(problem.task_number[task.name], place))
        steps.append(Step(task, release, transfers, holds, placed.start_seconds, due, duration))
    return steps


def _transfer(problem: Problem, before: Placement, after: Placement, number: int, size_bytes: int) -> Transfer:
    source, target = problem.node_by_name[before.node], problem.node_by_name[after.node]
    medium = problem.medium(before.nodes, after.nodes)
    links = {
        "local": (f"disk of {source.name}",),
        "rack": (f"port out of {source.name}", f"port into {target.name}"),
        "cross_rack": (f"uplink from {source.rack or source.name}", f"uplink to {target.rack or target.name}"),
        "storage": ("storage",),
    }[medium]
    return Transfer(number, problem.network.seconds(medium, size_bytes), links)


class Replay:
    """A plan as it would go: its nodes and the order of its tasks, for any durations."""

    def __init__(self, problem: Problem, plan: Plan) -> None:
        self.steps = _steps_of(problem, plan)
        instance = Instance(problem)
        licences, guard = instance.licences
        self.free = [*instance.free, licences]
        self.guards = [*(instance.guard for _ in instance.free), guard]
        self.away = [*([*instance.away_of(node)] for node in range(len(instance.free))), []]
        self.sends: list[list[tuple[int, Transfer]]] = [[] for _ in self.steps]
        # Of each node, and last of the licences, who holds any of it, in the order of the plan.
        self.queues: list[list[int]] = [[] for _ in self.free]
        for at, step in enumerate(self.steps):
            for pool, _ in step.holds:
                self.queues[pool].append(at)
            for transfer in step.transfers:
                self.sends[transfer.before].append((at, transfer))

    def ends(self, seconds: Sequence[int], *, shares_links: bool = True) -> list[int]:
        """Return when each task ends if they take so long; whole seconds, rounded up.

        A transfer goes at its full rate divided by the number of those on the most crowded of its links: the least that
        fair sharing gives it. Links: a node's disk for local copies, its ports within a rack, a rack's uplinks between
        racks, and the network storage, which all share. Without `shares_links` each has them to itself.
        """
        return _Course(self, seconds, shares_links).run()


_HAIR = 1e-6  # seconds: less than this is left of a transfer only by rounding
_END, _WAKE, _RELEASE, _BACK = range(4)


class _Course:
    """One replay as it goes: tasks that run, data that moves, and what each task still waits for."""

    def __init__(self, replay: Replay, seconds: Sequence[int], shares_links: bool) -> None:
        self._replay, self._seconds, self._shares_links = replay, seconds, shares_links
        steps = replay.steps
        self._free = list(replay.free)
        self._first = [0] * len(self._free)  # of each queue: all before it have started
        self._ends = [-1.0] * len(steps)
        self._has_started = [False] * len(steps)
        self._waits = [1 + len(step.transfers) for step in steps]  # one for its release
        self._coming = [(float(step.release), _RELEASE, at) for at, step in enumerate(steps)]
        back = {(float(end), pool) for pool, spans in enumerate(replay.away) for _, end in spans}
        self._coming += [(end, _BACK, pool) for end, pool in back]
        heapify(self._coming)
        # Of each transfer under way: the task that waits for it, the seconds left at full rate, its links.
        self._moving: list[tuple[int, float, tuple[str, ...]]] = []
        self._slowed: list[int] = []
        self._arrival = inf  # when the next of them is there
        self._moved_at = self._now = 0.0

    def run(self) -> list[int]:
        """Return when each task ends."""
        while self._coming or self._moving:
            self._now = min(self._arrival, self._coming[0][0] if self._coming else inf)
            touched = set[int]()
            if self._arrival <= self._now:
                self._arrived(touched)
            while self._coming and self._coming[0][0] <= self._now:
                self._came(*heappop(self._coming)[1:], touched)
            while touched:
                self._serve(touched.pop(), touched)
        if min(self._ends) < 0:
            raise AssertionError("BUG: a task never started: validate the plan first")
        return [ceil(end - _HAIR) for end in self._ends]

    def _came(self, kind: int, at: int, touched: set[int]) -> None:
        if kind == _RELEASE:
            self._less(at, touched)
            return
        if kind == _BACK:
            touched.add(at)
            return
        step = self._replay.steps[at]
        touched.update(pool for pool, _ in step.holds)
        if kind == _END:
            for pool, need in step.holds if self._seconds[at] else ():
                self._free[pool] += need
            sends = [(after, transfer) for after, transfer in self._replay.sends[at] if transfer.seconds]
            for after, transfer in self._replay.sends[at]:
                if not transfer.seconds:
                    self._less(after, touched)
            if sends:
                self._move(
                    [(after, float(one.seconds), one.links if self._shares_links else ()) for after, one in sends]
                )

    def _less(self, at: int, touched: set[int]) -> None:
        """Note that a task waits for one thing less; with nothing left it is served in its turn."""
        self._waits[at] -= 1
        if self._waits[at]:
            return
        step = self._replay.steps[at]
        if not self._seconds[at]:  # what ends as it starts takes nothing
            self._start(at)
        touched.update(pool for pool, _ in step.holds)
        if step.planned > self._now:
            heappush(self._coming, (float(step.planned), _WAKE, at))

    def _serve(self, pool: int, touched: set[int]) -> None:
        """Start what waits for a node and finds room, in the order of the plan."""
        queue, steps = self._replay.queues[pool], self._replay.steps
        first = self._first[pool]
        while first < len(queue) and self._has_started[queue[first]]:
            first += 1
        self._first[pool] = first
        overtakes = False
        for place in range(first, len(queue)):
            at = queue[place]
            if self._has_started[at]:
                continue
            if overtakes and steps[at].planned > self._now:
                return
            if self._waits[at] or self._is_away(at):
                overtakes = overtakes or self._seconds[at] > 0
            elif not self._has_room(at):
                return  # it has the first claim to what comes free
            else:
                for other, need in steps[at].holds:
                    self._free[other] -= need
                self._start(at)
                touched.update(other for other, _ in steps[at].holds if other != pool)

    def _has_room(self, at: int) -> bool:
        """Return whether all that a task holds is free, and nobody before it has a claim to it."""
        step, guards = self._replay.steps[at], self._replay.guards
        for pool, need in step.holds:
            if (self._free[pool] - need) & guards[pool] != guards[pool]:
                return False
        return len(step.holds) == 1 or all(self._is_next(at, pool) for pool, _ in step.holds)

    def _is_away(self, at: int) -> bool:
        """Return whether a node of a task is away, or goes before the task would end."""
        until = self._now + self._seconds[at]
        return any(
            begin < until and self._now < end
            for pool, _ in self._replay.steps[at].holds
            for begin, end in self._replay.away[pool]
        )

    def _is_next(self, at: int, pool: int) -> bool:
        queue = self._replay.queues[pool]
        for other in queue[self._first[pool] : queue.index(at)]:
            is_waiting = not self._has_started[other] and self._seconds[other] > 0
            is_held = self._waits[other] or self._is_away(other)
            if is_waiting and (not is_held or self._replay.steps[at].planned > self._now):
                return False
        return True

    def _start(self, at: int) -> None:
        self._has_started[at] = True
        self._ends[at] = self._now + self._seconds[at]
        heappush(self._coming, (self._ends[at], _END, at))

    def _move(self, more: list[tuple[int, float, tuple[str, ...]]]) -> None:
        """Bring what is under way up to now, and put more beside it: that changes how fast each goes."""
        gone = self._now - self._moved_at
        self._moving = [
            (at, left - gone / slow, links) for (at, left, links), slow in zip(self._moving, self._slowed, strict=True)
        ]
        self._moving += more
        self._resume()

    def _resume(self) -> None:
        crowd = Counter(link for _, _, links in self._moving for link in links)
        self._slowed = [max((crowd[link] for link in links), default=1) for _, _, links in self._moving]
        self._moved_at = self._now
        arrivals = (left * slow for (_, left, _), slow in zip(self._moving, self._slowed, strict=True))
        self._arrival = self._now + max(0.0, min(arrivals, default=inf))

    def _arrived(self, touched: set[int]) -> None:
        self._move([])
        done = [at for at, left, _ in self._moving if left <= _HAIR]
        self._moving = [each for each in self._moving if each[1] > _HAIR]
        self._resume()
        for at in done:
            self._less(at, touched)


_DRAWS_LEAST, _DRAWS = 100, 1000
_DRAWS_MAX = 100_000
_TASKS_DRAWN = 500_000  # of all draws together; beyond, there are fewer draws


def simulate(
    problem: Problem,
    plan: Plan,
    draws: int | None = None,
    seed: int = 0,
    *,
    samples: Mapping[str, Sequence[int]] | None = None,
) -> Outlook:
    """Return when the plan ends over so many draws; the same seed gives the same answer.

    Nodes and order are the plan's, nothing is solved again. Where nobody says how many draws, a long plan has fewer.
    `samples` are seconds of real runs by task, on GPUs of the kind that the plan has it on; they are drawn instead of
    the curve through P10, P50 and P90.
    """
    if draws is None:
        draws = min(_DRAWS, max(_DRAWS_LEAST, _TASKS_DRAWN // len(problem.tasks)))
    if not 0 < draws <= _DRAWS_MAX:
        raise ValueError(f"draw 1 to {_DRAWS_MAX:,} times, not {draws:,}")
    real = samples or {}
    replay = Replay(problem, plan)
    steps = replay.steps
    draw = [drawn_from(step.duration, real.get(step.task.name, ())) for step in steps]
    durations = {step.task.name: step.duration for step in steps}
    random = Random(seed)  # noqa: S311 - no secret: repeatable is what is wanted
    finishes, on_time = [], 0
    for _ in range(draws):
        ends = replay.ends([one(random) for one in draw])
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
    replay = Replay(problem, plan)
    seconds = [step.duration.p50_seconds for step in replay.steps]
    return max(0, max(replay.ends(seconds)) - max(replay.ends(seconds, shares_links=False)))


def _quantile(ascending: Sequence[int], share: float) -> int:
    """Return the least value that this share of all does not exceed."""
    return ascending[max(0, ceil(share * len(ascending)) - 1)]
