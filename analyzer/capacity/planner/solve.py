"""Answer a planning problem: all solvers, the best of what they found, and whether the deadline can be kept.

OLB and HEFT take milliseconds. If their best is not the bound, CP-SAT looks for the proof in a process of its own: by
itself at first, while it proves most of what it ever proves, and then randomized HEFT goes on beside it. It ends as
soon as nothing can be better, or the time is over.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from time import monotonic

from analyzer.capacity.planner.heuristics import heft, is_kept, least_changed, olb, random_heft
from analyzer.capacity.planner.instance import Instance, heads_of, lower_bound
from analyzer.capacity.planner.plan import SOLVERS, Binding, Plan, PlanAnswer, Solver, Verdict
from analyzer.capacity.planner.problem import Problem
from analyzer.capacity.planner.prove import Proofs, Prover, has_cp_sat, is_small
from analyzer.capacity.planner.schedule import (
    Schedule,
    by_start,
    change_key,
    changes,
    has_own_deadlines,
    insert,
    late_seconds,
    length,
    plan_of,
)

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
