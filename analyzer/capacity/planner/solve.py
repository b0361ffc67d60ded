"""Answer a planning problem: all solvers, the best of what they found, and whether the deadline can be kept.

OLB and HEFT take milliseconds. If their best is not the bound, CP-SAT looks for the proof in a process of its own: by
itself at first, while it proves most of what it ever proves, and then randomized HEFT goes on beside it. It ends as
soon as nothing can be better, or the time is over.

The heuristics: OLB, HEFT, randomized HEFT, and what changes least of what was planned.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil, exp
from random import Random
from time import monotonic

from analyzer.capacity.planner.instance import CROSS_RACK, LOCAL, RACK, STORAGE, Form, Instance, heads_of, lower_bound
from analyzer.capacity.planner.plan import SOLVERS, Binding, Plan, PlanAnswer, Solver, Verdict
from analyzer.capacity.planner.problem import Problem
from analyzer.capacity.planner.prove import Proofs, Prover, has_cp_sat, is_small
from analyzer.capacity.planner.schedule import (
    Schedule,
    by_priority,
    by_start,
    change_key,
    changes,
    has_own_deadlines,
    insert,
    late_seconds,
    latest_starts,
    length,
    occupy,
    plan_of,
    ready_at,
    slot,
    timetables,
)


def olb(instance: Instance) -> Schedule:
    """Return OLB's schedule (opportunistic load balancing): tasks as they arrived, each to what is free first.

    It looks at neither run nor transfer times, and gives each task a machine to itself, of a node with several GPUs
    those that it asks for: what a site gets where nobody plans. A task that arrived before what it waits for is taken
    once that has its place.
    """
    count = len(instance.choices)
    nodes, starts, ends = [0] * count, [0] * count, [0] * count
    free_at = [  # when each GPU of a node is free, the soonest first; a node without GPUs is one machine
        [available] * max(1, int(node.gpus))
        for available, node in zip(instance.available, instance.problem.nodes, strict=True)
    ]
    tables = timetables(instance)
    for task in by_priority(instance, [-arrived for arrived in range(count)]):
        place = _free_first(instance, task, free_at)
        last = _last_taken(instance.form_of(task, place))
        free = max(free_at[node][last] for node in instance.nodes_of(place))
        start = slot(instance, tables, task, place, max(free, ready_at(instance, task, place, nodes, ends)))
        occupy(instance, tables, task, place, start)
        nodes[task], starts[task], ends[task] = place, start, start + instance.seconds_on(task, place)
        for node in instance.nodes_of(place):
            free_at[node] = sorted([*free_at[node][last + 1 :], *[ends[task]] * (last + 1)])
    return Schedule(tuple(nodes), tuple(starts))


def _last_taken(form: Form) -> int:
    """Return which of a node's GPUs, the soonest free first, is the last that a task takes; it takes one at least."""
    return max(1, ceil(form.gpus)) - 1


def _free_first(instance: Instance, task: int, free_at: Sequence[Sequence[int]]) -> int:
    if instance.is_plain[task]:
        last = _last_taken(instance.forms[task][0])
        return min(instance.choices[task], key=lambda node: free_at[node][last])
    places: dict[int, int] = {}
    for number, form in enumerate(instance.forms[task]):
        for domain in form.domains:
            free = {node: free_at[node][_last_taken(form)] for node in domain}
            first = sorted(domain, key=free.__getitem__)[: form.hosts]
            places[instance.place(number, first)] = max(free[node] for node in first)
    return min(places, key=lambda place: places[place])


def heft(instance: Instance) -> Schedule:
    """Return HEFT's schedule, with insertion: the task with the longest way to the end first, where it ends first.

    Source: Topcuoglu, Hariri and Wu, "Performance-effective and low-complexity task scheduling for heterogeneous
    computing" (2002): rank(i) = mean run time + max over what follows of (mean transfer + rank). Here several tasks
    share a node, and equal ends go to the node with the least that is scarce.
    """
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
    """Return each plain task's nodes, those without GPUs and SSD first: what is scarce is kept for who needs it."""
    scarce = [(node.gpus > 0) + (node.ssd_bytes > 0) for node in instance.problem.nodes]
    return [
        sorted(choices, key=lambda node: scarce[node]) if is_plain else []
        for choices, is_plain in zip(instance.choices, instance.is_plain, strict=True)
    ]


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


_DRAWN = 0.1  # of the tries: orders drawn around HEFT's
_SPREAD = 0.3  # of a rank: how far it is drawn off
_HEAT = 0.003  # of the best length: by so much worse an order may be kept at first
_WITHIN = 0.2  # of all places: how far a task is moved in the order
_HELD = 0.2  # of all changes: a task is held to a node, or let go


@dataclass(frozen=True, slots=True)
class _State:
    order: list[int]
    held: dict[int, int]
    schedule: Schedule
    score: int


def random_heft(
    instance: Instance, first: Schedule, tries: int, seed: int = 0, is_over: Callable[[], bool] = lambda: False
) -> Schedule:
    """Return the shortest schedule that is found, `first` if none is shorter; tasks' own deadlines count before that.

    It ends after so many tries, or as soon as `is_over`, which is asked before each. The first tenth of the tries is
    HEFT with ranks drawn off. The rest is simulated annealing (Kirkpatrick, Gelatt and Vecchi, 1983) on what HEFT is
    given: the order of the tasks, and nodes that single tasks are held to. After 3 s of processor its plans of 50 tasks
    that fill their nodes were 5% shorter than draws alone had them. The same seed and number of tries give the same
    schedule, as long as the time does not run out.
    """
    search = _Search(instance, Random(seed))  # noqa: S311 - a draw that can be repeated
    best = state = search.start(first)
    for number in range(tries):
        if is_over():
            break
        if number < tries * _DRAWN:
            tried = search.drawn()
            is_kept = tried.score <= state.score
        else:
            tried = search.changed(state)
            heat = 1 + _HEAT * best.score * (1 - number / tries)
            is_kept = tried.score <= state.score or search.random.random() < exp((state.score - tried.score) / heat)
        state = tried if is_kept else state
        best = min(best, tried, key=lambda each: length(instance, each.schedule))
    return best.schedule


class _Search:
    def __init__(self, instance: Instance, random: Random) -> None:
        self.instance, self.random = instance, random
        self._ranks, self._pick = ranks(instance), preferred(instance)

    def start(self, first: Schedule) -> _State:
        """Return the state that a schedule is: its tasks by their starts."""
        order = by_start(self.instance, first.starts)
        return _State(order, {}, first, self._score(first))

    def drawn(self) -> _State:
        """Return the state of ranks that are each drawn off a little."""
        drawn = [rank * (1 + self.random.uniform(-_SPREAD, _SPREAD)) for rank in self._ranks]
        return self._state(by_priority(self.instance, drawn), {})

    def changed(self, state: _State) -> _State:
        """Return a state nearby: one to three tasks elsewhere in the order, or one held to another node or let go."""
        if self.random.random() >= _HELD:
            order = list(state.order)
            for _ in range(self.random.choice((1, 1, 2, 3))):
                self._shift(order)
            return self._state(order, state.held)
        task, held = self.random.randrange(len(state.order)), dict(state.held)
        if held.pop(task, None) is None:
            held[task] = self.random.choice(self._pick[task]) if self._pick[task] else self._any_place(task)
        return self._state(state.order, held)

    def _any_place(self, task: int) -> int:
        number, form = self.random.choice([*enumerate(self.instance.forms[task])])
        return self.instance.place(number, self.random.sample(self.random.choice(form.domains), form.hosts))

    def _shift(self, order: list[int]) -> None:
        """Move a task in the order, after all that it waits for and before all that waits for it."""
        place = self.random.randrange(len(order))
        task = order.pop(place)
        reach = int(len(order) * _WITHIN) + 1
        low = max((order.index(source) + 1 for source, _ in self.instance.before[task]), default=0)
        high = min((order.index(target) for target, _ in self.instance.after[task]), default=len(order))
        order.insert(self.random.randint(max(low, place - reach), min(high, place + reach)), task)

    def _state(self, order: list[int], held: dict[int, int]) -> _State:
        pick: Sequence[Sequence[int]] = [[held[t]] if t in held else nodes for t, nodes in enumerate(self._pick)]
        schedule = insert(self.instance, order, pick)
        return _State(order, held, schedule, self._score(schedule))

    def _score(self, schedule: Schedule) -> int:
        """Return what is to be little: seconds that tasks are late by their own deadlines count like the plan's."""
        return sum(length(self.instance, schedule))


def is_kept(instance: Instance, schedule: Schedule) -> bool:
    """Whether a schedule keeps the deadline of all, if there is one, and each task's own."""
    deadline = instance.problem.deadline_seconds
    in_time = deadline is None or schedule.makespan(instance) <= deadline
    return in_time and late_seconds(instance, schedule) == 0


def least_changed(instance: Instance, shortest: Schedule, is_over: Callable[[], bool]) -> Iterator[Schedule]:
    """Yield schedules that keep the deadline, each with fewer moves than the one before; `shortest` keeps it.

    It is for where CP-SAT is not there or has not the time to find the least. First all tasks where they were planned;
    if that is too late, from the shortest schedule one task after the other goes back to where it was planned, those
    with the most slack first, as long as the deadline is kept.
    """
    latest = latest_starts(instance, shortest, instance.problem.deadline_seconds or shortest.makespan(instance))
    order = by_start(instance, latest)
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
    named = {at: task.planned.node for at, task in enumerate(instance.problem.tasks)}
    numbers = {at: instance.problem.node_number[name] for at, name in named.items() if name is not None}
    return {at: node for at, node in numbers.items() if instance.is_plain[at] and node in instance.choices[at]}


SECONDS = 10.0
_TRIES = 20_000  # of randomized HEFT; it ends with the time or with CP-SAT
_TRIES_FIRST = 200  # before CP-SAT is asked: its hint is worth them
_FIRST_SHARE = 0.05  # of the time, at most, for the first tries
_ALONE_SHARE = 0.2  # of the time that is left: CP-SAT alone, which then has proven most of what it ever proves


def solve(
    problem: Problem,
    seconds: float = SECONDS,
    *,
    seed: int = 0,
    solvers: Collection[Solver] = SOLVERS,
) -> PlanAnswer:
    """Return the best plan that is found within so many seconds, and what it means for the deadline.

    The shortest plan, where there is no deadline or none keeps it; else the one that keeps it and changes least of
    what was planned: fewest moves, then least delay, then cost, then the end.
    """
    until = monotonic() + seconds
    instance = Instance(problem)
    prover = Prover() if "cp_sat" in solvers and has_cp_sat() and is_small(instance) else None
    try:
        work = _Work(instance, lower_bound(instance), until)
        work.quick(solvers)
        proofs = _search(work, solvers, prover, seed)
    finally:
        if prover is not None:
            prover.stop()
    work.take(proofs)
    verdict = _verdict(work, proofs)
    plan = _chosen(work, proofs, verdict)
    compared = tuple(work.plan(name) for name in SOLVERS if name in work.found)
    return PlanAnswer(problem, plan, compared, verdict, work.bound.seconds, changes(problem, plan))


@dataclass
class _Work:
    """What is known so far: the best schedule of each solver, and the bound."""

    instance: Instance
    bound: Binding
    until: float
    found: dict[Solver, Schedule] = field(default_factory=dict)

    def quick(self, solvers: Collection[Solver]) -> None:
        """Take what OLB and HEFT say; there is always one of them to begin with."""
        if "olb" in solvers:
            self.found["olb"] = olb(self.instance)
        if "heft" in solvers or not self.found:
            self.found["heft"] = heft(self.instance)

    def best(self) -> Solver:
        """Return the solver with the best schedule; of equals the simplest."""
        return min(self.found, key=lambda name: length(self.instance, self.found[name]))

    def shortest(self) -> Schedule:
        """Return the best schedule."""
        return self.found[self.best()]

    def is_over(self) -> bool:
        """Whether the time is over, or the best is the bound."""
        return monotonic() >= self.until or self.is_shortest()

    def is_shortest(self) -> bool:
        """Whether no schedule can be better than the best."""
        return length(self.instance, self.shortest()) == (0, self.bound.seconds)

    def take(self, proofs: Proofs) -> None:
        """Take CP-SAT's shortest schedule, and its bound where that is higher."""
        shortest = proofs.shortest
        if shortest.schedule is not None:
            self.found["cp_sat"] = _pushed(self.instance, shortest.schedule)
        if has_own_deadlines(self.instance):  # what it proves is of plans that keep them, and the bound is of all
            return
        deadline = self.instance.problem.deadline_seconds
        is_too_late = proofs.kept.is_infeasible and deadline is not None
        bound = max(shortest.bound or 0, (deadline or 0) + 1 if is_too_late else 0)
        if bound > self.bound.seconds:
            self.bound = Binding("search", bound)

    def plan(self, name: Solver) -> Plan:
        """Return a solver's plan."""
        return plan_of(self.instance, self.found[name], name, self.bound)


def _search(work: _Work, solvers: Collection[Solver], prover: Prover | None, seed: int) -> Proofs:
    """Let randomized HEFT and CP-SAT look for better, side by side; return what CP-SAT said."""
    wants_kept = work.instance.problem.deadline_seconds is not None and _plans_anything(work.instance.problem)
    if work.is_shortest() and not wants_kept:
        return Proofs()
    if "random_heft" in solvers and not work.is_shortest():
        first_until = monotonic() + _FIRST_SHARE * (work.until - monotonic())
        work.found["random_heft"] = random_heft(
            work.instance, work.shortest(), _TRIES_FIRST, seed, lambda: work.is_over() or monotonic() > first_until
        )
    if work.is_shortest() and not wants_kept:
        return Proofs()
    if prover is None:
        _go_on(work, solvers, seed, None)
        return Proofs()
    prover.ask(work.instance, work.shortest(), max(0.0, work.until - monotonic()), wants_kept)
    if not prover.is_done(_ALONE_SHARE * max(0.0, work.until - monotonic())):
        _go_on(work, solvers, seed, prover)
    return prover.result() if wants_kept or not work.is_shortest() else Proofs()


def _go_on(work: _Work, solvers: Collection[Solver], seed: int, prover: Prover | None) -> None:
    if "random_heft" not in solvers or work.is_shortest():
        return

    def is_over() -> bool:
        return work.is_over() or (prover is not None and prover.is_done())

    work.found["random_heft"] = random_heft(work.instance, work.found["random_heft"], _TRIES, seed + 1, is_over)


def _plans_anything(problem: Problem) -> bool:
    """Whether there is anything but the end by which one plan that keeps the deadline is better than another."""
    has_plan = any(task.planned.node is not None or task.planned.start_seconds is not None for task in problem.tasks)
    return has_plan or all(node.price_micros_per_hour is not None for node in problem.nodes)


def _verdict(work: _Work, proofs: Proofs) -> Verdict:
    problem = work.instance.problem
    own = [task.deadline_seconds for task in problem.tasks]
    if problem.deadline_seconds is None and not has_own_deadlines(work.instance):
        return "no_deadline"
    if is_kept(work.instance, work.shortest()) or (proofs.kept.schedule is not None):
        return "on_time"
    too_late = problem.deadline_seconds is not None and work.bound.seconds > problem.deadline_seconds
    heads = heads_of(work.instance)
    ends = [head + seconds for head, seconds in zip(heads, work.instance.least_seconds, strict=True)]
    too_late = too_late or any(at is not None and end > at for end, at in zip(ends, own, strict=True))
    shortest = proofs.shortest
    is_proven = (
        shortest.is_proven and shortest.schedule is not None and late_seconds(work.instance, shortest.schedule) > 0
    )
    return "impossible" if too_late or is_proven or proofs.kept.is_infeasible else "not_found"


def _chosen(work: _Work, proofs: Proofs, verdict: Verdict) -> Plan:
    """Return the plan to follow."""
    if verdict != "on_time" or work.instance.problem.deadline_seconds is None:
        return work.plan(work.best())
    candidates = list(_kept(work, proofs))
    solver, schedule = min(candidates, key=lambda each: change_key(work.instance, each[1]))
    return plan_of(work.instance, schedule, solver, work.bound)


def _kept(work: _Work, proofs: Proofs) -> Iterator[tuple[Solver, Schedule]]:
    """Yield schedules that keep the deadline."""
    yield from ((name, each) for name, each in work.found.items() if is_kept(work.instance, each))
    if proofs.kept.schedule is not None:
        yield "cp_sat", _pushed(work.instance, proofs.kept.schedule)
    if is_kept(work.instance, work.shortest()) and not proofs.kept.is_proven:
        for schedule in least_changed(work.instance, work.shortest(), lambda: monotonic() > work.until + 1):
            yield "heft", schedule


def _pushed(instance: Instance, schedule: Schedule) -> Schedule:
    """Return a schedule with each task as early as it goes on its node: CP-SAT leaves gaps that nothing asks for."""
    order = by_start(instance, schedule.starts)
    return insert(instance, order, [[node] for node in schedule.nodes])
