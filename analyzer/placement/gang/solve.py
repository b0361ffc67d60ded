"""From a problem to a plan: greedy, then ruin and recreate, then a bound, and the optimum where HiGHS gets to it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import monotonic

from analyzer.placement.gang.bound import Solving, each_alone, has_highs
from analyzer.placement.gang.greedy import greedy
from analyzer.placement.gang.index import Index, Place, index_of
from analyzer.placement.gang.model import programme_of
from analyzer.placement.gang.plan import BoundBy, Plan
from analyzer.placement.gang.problem import Problem
from analyzer.placement.gang.programme import places_of
from analyzer.placement.gang.recreate import recreate, restored
from analyzer.placement.gang.state import State, plan_of
from analyzer.placement.gang.validate import broken

BOUND_ALONE: BoundBy = "each run alone"
BOUND_HIGHS: BoundBy = "highs"
FULL_COLUMNS_MAX = 60_000  # about, of the full programme; above, only the lumped one is asked


@dataclass(frozen=True, slots=True)
class Budget:
    """How long to search. The iterations decide what is found; the seconds only end it early."""

    iterations: int
    seconds: float = 60.0
    bound_seconds: float = 0.0  # for HiGHS, after the search; 0 asks for no bound by it
    seed: int = 0


def solve(problem: Problem, budget: Budget, clock: Callable[[], float] = monotonic) -> Plan:
    """Return the best plan found, never worse than changing nothing, with a bound and so the gap."""
    until = clock() + budget.seconds
    index = index_of(problem)
    before = State.unchanged(index).cost
    state = greedy(index)
    cost = state.cost
    state, iterations = recreate(state, budget.seed, budget.iterations, lambda: clock() >= until)
    plan = plan_of(state, before, "recreate" if state.cost < cost else "greedy", iterations, budget.seed)
    if plan.cost >= before:  # the same cost is no reason to move anybody
        plan = plan_of(State.unchanged(index), before, "unchanged", iterations, budget.seed)
    return bounded(index, plan, state, budget.bound_seconds)


def bounded(index: Index, plan: Plan, state: State, seconds: float) -> Plan:
    """Return the plan with a bound, or a better one where HiGHS found it on the way."""
    bound, by = each_alone(index), BOUND_ALONE
    if seconds > 0 and has_highs():
        plan, known = _asked(index, plan, [place or {} for place in state.place], seconds)
        if known is not None and known >= bound:
            bound, by = known, BOUND_HIGHS
    if bound > plan.cost:
        raise AssertionError(f"BUG: a plan of {plan.cost} is below the bound {bound}")
    return replace(plan, bound=bound, bound_by=by)


def _asked(index: Index, plan: Plan, places: list[Place], seconds: float) -> tuple[Plan, int | None]:
    """Ask HiGHS for both programmes at once; return the cheaper plan, where it has one, and the higher bound."""
    full = None
    lumped = Solving(programme_of(index, places, is_lumped=True), seconds, has_start=False)
    try:
        if _columns(index) <= FULL_COLUMNS_MAX:
            programme = programme_of(index, places, is_lumped=False)
            full = Solving(programme, seconds, has_start=True)
        found = [lumped.result().bound]
        if full is not None:
            solved = full.result()
            found.append(solved.bound)
            if solved.values is not None:
                plan = _better(index, plan, places_of(index, programme, solved.values))
    finally:
        lumped.stop()
        if full is not None:
            full.stop()
    return plan, max((bound for bound in found if bound is not None), default=None)


def _columns(index: Index) -> int:
    """Return about how many columns the full programme has: a run's units new in a pool, and its span of the rack."""
    sizes = [sum(map(len, racks)) for racks in index.rack_pools]
    return sum(2 * sizes[number] for choices in index.choices for number in choices)


def _better(index: Index, plan: Plan, places: list[Place]) -> Plan:
    """Return HiGHS's plan where it is cheaper, and valid: it counts in floating point."""
    state = restored(index, places)
    found = plan_of(state, plan.cost_before, "highs", plan.iterations, plan.seed)
    return plan if found.cost >= plan.cost or broken(index.problem, found) else found
