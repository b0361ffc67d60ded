"""From a problem to a plan: greedy, then ruin and recreate, then a bound, and the optimum where HiGHS gets to it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import monotonic

from analyzer.placement.gang.bound import Solving, each_alone, has_highs
from analyzer.placement.gang.greedy import greedy
from analyzer.placement.gang.index import Index, Place, index_of
from analyzer.placement.gang.model import places_of, programme_of
from analyzer.placement.gang.plan import BoundBy, Plan
from analyzer.placement.gang.problem import Problem
from analyzer.placement.gang.recreate import recreate, restored
from analyzer.placement.gang.state import State, plan_of

FULL_COLUMNS_MAX = 60_000  # of the full programme; above, only the lumped one is asked


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
        places = [place or {} for place in state.place]
        lumped = Solving(programme_of(index, places, is_lumped=True), seconds, has_start=False)
        full_programme = programme_of(index, places, is_lumped=False)
        full = (
            Solving(full_programme, seconds, has_start=True)
            if len(full_programme.cost) <= FULL_COLUMNS_MAX
            else None
        )
        try:
            found = [lumped.result().bound]
            if full is not None:
                solved = full.result()
                found.append(solved.bound)
                if solved.values is not None:
                    plan = _better(index, plan, places_of(index, full_programme, solved.values))
        finally:
            lumped.stop()
            if full is not None:
                full.stop()
        known = [value for value in found if value is not None]
        if known and max(known) >= bound:
            bound, by = max(known), BOUND_HIGHS
    assert bound <= plan.cost, f"BUG: a plan of {plan.cost} is below the bound {bound}"
    return replace(plan, bound=bound, bound_by=by)


BOUND_ALONE: BoundBy = "each run alone"
BOUND_HIGHS: BoundBy = "highs"


def _better(index: Index, plan: Plan, places: list[Place]) -> Plan:
    state = restored(index, places)
    if state.cost >= plan.cost:
        return plan
    return plan_of(state, plan.cost_before, "highs", plan.iterations, plan.seed)
