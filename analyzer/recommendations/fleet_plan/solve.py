"""From a problem to a plan: greedy, then ruin and recreate, in each part of the fleet by itself."""

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from analyzer.recommendations.fleet_plan.index import index_of
from analyzer.recommendations.fleet_plan.plan import Plan
from analyzer.recommendations.fleet_plan.problem import Problem
from analyzer.recommendations.fleet_plan.search import joined_state, searched
from analyzer.recommendations.fleet_plan.split import parts_of
from analyzer.recommendations.fleet_plan.state import State, plan_of


@dataclass(frozen=True, slots=True)
class Budget:
    """How long to search. The iterations decide what is found; the seconds only end it early."""

    iterations: int
    seconds: float = 60.0
    seed: int = 0


def solve(problem: Problem, budget: Budget, clock: Callable[[], float] = monotonic) -> Plan:
    """Return the best plan found, never worse than changing nothing."""
    began = clock()
    index = index_of(problem)
    parts = parts_of(index)
    states, cost, iterations = searched(
        parts, budget.iterations, budget.seed, lambda share: clock() >= began + budget.seconds * share
    )
    before = State.unchanged(index).cost
    state = joined_state(index, parts, states)
    if state.cost >= before:  # the same cost is no reason to move anybody
        return plan_of(State.unchanged(index), before, "unchanged", iterations, budget.seed)
    return plan_of(state, before, "recreate" if state.cost < cost else "greedy", iterations, budget.seed)
