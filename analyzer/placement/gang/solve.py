"""From a problem to a plan: greedy, then ruin and recreate, then a bound, and the optimum where HiGHS gets to it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import monotonic

from analyzer.placement.gang.bound import Racking, Solving, each_alone, has_highs
from analyzer.placement.gang.index import Index, Place, index_of
from analyzer.placement.gang.model import programme_of
from analyzer.placement.gang.plan import BoundBy, Plan
from analyzer.placement.gang.problem import Problem
from analyzer.placement.gang.programme import places_of
from analyzer.placement.gang.recreate import restored
from analyzer.placement.gang.search import joined, searched
from analyzer.placement.gang.split import Part, parts_of
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
    began = clock()
    index = index_of(problem)
    parts = parts_of(index)
    states, cost, iterations = searched(
        parts, budget.iterations, budget.seed, lambda share: clock() >= began + budget.seconds * share
    )
    before = State.unchanged(index).cost
    state = joined(index, parts, states)
    plan = plan_of(state, before, "recreate" if state.cost < cost else "greedy", iterations, budget.seed)
    if plan.cost >= before:  # the same cost is no reason to move anybody
        plan = plan_of(State.unchanged(index), before, "unchanged", iterations, budget.seed)
    return bounded(index, parts, plan, states, budget.bound_seconds)


def bounded(index: Index, parts: list[Part], plan: Plan, states: list[State], seconds: float) -> Plan:
    """Return the plan with a bound, or a better one where HiGHS found it on the way."""
    bound, by = sum(each_alone(part.index) for part in parts), BOUND_ALONE
    if seconds > 0 and has_highs():
        found = _asked(parts, states, seconds)
        known = sum(bound for _, bound in found)
        places: list[Place] = [{} for _ in index.held]
        for part, (own, _) in zip(parts, found, strict=True):
            part.put_into(places, own)
        plan = _better(index, plan, places)
        if known >= bound:
            bound, by = known, BOUND_HIGHS
    if bound > plan.cost:
        raise AssertionError(f"BUG: a plan of {plan.cost} is below the bound {bound}")
    return replace(plan, bound=bound, bound_by=by)


def _asked(parts: list[Part], states: list[State], seconds: float) -> list[tuple[list[Place], int]]:
    """Bound the parts, the smallest first: what they leave over is the others'. Return by part places and bound."""
    until = monotonic() + seconds
    found: list[tuple[list[Place], int]] = []
    weights = [1 + sum(map(len, part.index.held)) for part in parts]  # pools held: the more scattered, the harder
    for number in reversed(range(len(parts))):  # parts are sorted, largest first
        share = weights[number] / sum(weights[: number + 1])
        found.append(_part_asked(parts[number].index, states[number], max(1.0, (until - monotonic()) * share)))
    return found[::-1]


def _part_asked(index: Index, state: State, seconds: float) -> tuple[list[Place], int]:
    """Ask for a part's bound in three ways at once; return the cheaper places, and the highest bound."""
    places = [place or {} for place in state.place]
    bounds: list[int | None] = [each_alone(index)]
    if bounds[0] == state.cost:
        return places, state.cost
    children: list[Solving | Racking] = []
    try:
        if _columns(index) <= FULL_COLUMNS_MAX:
            programme = programme_of(index, places, is_lumped=False)
            children.append(full := Solving(programme, seconds, has_start=True))
        children.append(racking := Racking(index, places, state.cost, seconds))
        children.append(lumped := Solving(programme_of(index, places, is_lumped=True), seconds, has_start=False))
        cost = state.cost
        if len(children) == 3:
            solved = full.result()
            bounds.append(solved.bound)
            if solved.values is not None:
                places, cost = _cheaper(index, places, cost, places_of(index, programme, solved.values))
        if bounds[-1] is None or bounds[-1] < cost:
            bounds += [racking.bound(), lumped.result().bound]
    finally:
        for child in children:
            child.stop()
    return places, max(bound for bound in bounds if bound is not None)


def _cheaper(index: Index, places: list[Place], cost: int, other: list[Place]) -> tuple[list[Place], int]:
    """Return HiGHS's places where they are cheaper, and valid: it counts in floating point."""
    state = restored(index, other)
    plan = plan_of(state, State.unchanged(index).cost, "highs")
    return (other, state.cost) if state.cost < cost and not broken(index.problem, plan) else (places, cost)


def _columns(index: Index) -> int:
    """Return about how many columns the full programme has: a run's units new in a pool, and its span of the rack."""
    sizes = [sum(map(len, racks)) for racks in index.rack_pools]
    return sum(2 * sizes[number] for choices in index.choices for number in choices)


def _better(index: Index, plan: Plan, places: list[Place]) -> Plan:
    """Return the plan of these places where it is cheaper."""
    found = plan_of(restored(index, places), plan.cost_before, "highs", plan.iterations, plan.seed)
    return plan if found.cost >= plan.cost or broken(index.problem, found) else found
