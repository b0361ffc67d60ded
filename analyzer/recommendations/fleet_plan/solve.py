"""From a problem to a plan: greedy, then ruin and recreate, for each part of the problem by itself.

Where only so much may move, every GPU that moves gets a price, and the price is sought at which the search moves as
much as it may: what is worth most by GPU moves then, wherever it is (Everett, Generalized Lagrange Multiplier Method,
1963). Without the price the search fills the limit with the first moves that pay, and no later one finds room.

Parts have nothing to do with each other: no run of one could use what a run of another could. SKUs, taints,
reservations, shared and whole nodes separate a fleet. Without a limit on what moves, the parts' best plans together are
the best plan. Runs that must be apart are in one part.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import isqrt
from time import monotonic

from analyzer.recommendations.fleet_plan.problem import Limits, Plan, Problem
from analyzer.recommendations.fleet_plan.search import greedy, recreate, restored, settled
from analyzer.recommendations.fleet_plan.state import Index, State, UnitsByPool, index_of, plan_of


@dataclass(frozen=True, slots=True)
class Subproblem:
    """One part as a problem of its own, with the numbers that its pools and runs have in the whole."""

    index: Index
    pools: tuple[int, ...]
    runs: tuple[int, ...]

    def put_into(self, places: list[UnitsByPool], own: list[UnitsByPool]) -> None:
        """Write the part's places into those of all."""
        for run, place in zip(self.runs, own, strict=True):
            places[run] = {self.pools[pool]: units for pool, units in place.items()}


def parts_of(index: Index) -> list[Subproblem]:
    """Return the parts, those of most runs first; a limit on what moves keeps all in one."""
    if index.problem.limits.moved_gpus_max is not None:
        return [Subproblem(index, tuple(range(len(index.capacity))), tuple(range(len(index.held))))]
    sets = _joined(index)
    pool_0 = len(index.held)
    runs: dict[int, list[int]] = {}
    for run in range(len(index.held)):
        runs.setdefault(sets.of(run), []).append(run)
    pools: dict[int, list[int]] = {name: [] for name in runs}
    for pool in range(len(index.capacity)):
        if (name := sets.of(pool_0 + pool)) in pools:
            pools[name].append(pool)
    found = [_part(index, pools[name], own) for name, own in runs.items()]
    return sorted(found, key=lambda part: -len(part.runs))


def _joined(index: Index) -> "_Sets":
    """Return runs, then pools, then classes, joined where one could use the other."""
    pool_0, class_0 = len(index.held), len(index.held) + len(index.capacity)
    sets = _Sets(class_0 + len(index.rack_pools))
    asked: set[int] = set()
    for run, place in enumerate(index.held):
        for other in (*index.apart[run], *(pool_0 + pool for pool in place)):
            sets.join(run, other)
        if not index.fixed[run]:
            asked.update(index.choices[run])
            for number in index.choices[run]:
                sets.join(run, class_0 + number)
    for pool, classes in enumerate(index.classes_of):
        for number in asked.intersection(classes):
            sets.join(pool_0 + pool, class_0 + number)
    return sets


def _part(index: Index, pools: list[int], runs: list[int]) -> Subproblem:
    problem = index.problem
    own = Problem(
        tuple(problem.pools[pool] for pool in pools), tuple(problem.runs[run] for run in runs), problem.limits
    )
    return Subproblem(index_of(own), tuple(pools), tuple(runs))


class _Sets:
    """Sets that are joined (union and find)."""

    def __init__(self, count: int) -> None:
        self._up = list(range(count))

    def of(self, one: int) -> int:
        """Return the name of the set that it is in."""
        while self._up[one] != one:
            self._up[one] = self._up[self._up[one]]
            one = self._up[one]
        return one

    def join(self, one: int, other: int) -> None:
        """Make one set of two; it gets the name of the lower."""
        low, high = sorted((self.of(one), self.of(other)))
        self._up[high] = low


_PRICES = 7  # tried, each halving what is left of the range, on a scale of ratios
_RANGE = 1 << 14  # the highest price to the lowest
_PRICED_SHARE = 0.75  # of the iterations; the rest fills the limit up


def searched(
    parts: list[Subproblem], iterations: int, seed: int, is_over: Callable[[float], bool]
) -> tuple[list[State], int, int]:
    """Return the best state of each part, what greedy alone would have cost, and the iterations done.

    `is_over(share)` says whether such a share of the time has passed: parts get theirs by their number of runs.
    """
    first = [greedy(part.index) for part in parts]
    cost = sum(state.cost for state in first)
    runs = sum(len(part.runs) for part in parts) or 1
    states, done, passed = [], 0, 0
    for part, state in zip(parts, first, strict=True):
        passed += len(part.runs)
        own = iterations * len(part.runs) // runs
        until = passed / runs

        def ends(until: float = until) -> bool:
            return is_over(until)

        if part.index.fixed.count(False) < 2:  # a lone one is where greedy, which tried all its places, put it
            found, count = state, 0
        elif part.index.problem.limits.moved_gpus_max is not None:
            found, count = _limited(part.index, state, own, seed, is_over)
        else:
            found, count = recreate(state, seed, own, ends)
        states.append(found)
        done += count
    return states, cost, done


def _limited(
    index: Index, first: State, iterations: int, seed: int, is_over: Callable[[float], bool]
) -> tuple[State, int]:
    """Return the best state within the limit, sought with prices first."""
    limit = index.problem.limits.moved_gpus_max or 0
    best = [dict(place or {}) for place in first.place]
    best_cost = first.cost
    high = _dearest(index)
    low = high // _RANGE + 1
    done = 0
    each = int(iterations * _PRICED_SHARE / _PRICES)
    for number in range(_PRICES):
        price = isqrt(low * high)
        until = _PRICED_SHARE * (number + 1) / _PRICES

        def ends(until: float = until) -> bool:
            return is_over(until)

        found, count = recreate(settled(_priced(index, price)), seed + number, each, ends)
        done += count
        low, high = (price, high) if found.moved_gpus > limit else (low, price)
        state = restored(index, [place or {} for place in found.place])
        if _within(state, limit) and state.cost < best_cost:
            best, best_cost = [dict(place or {}) for place in state.place], state.cost
    found, count = recreate(restored(index, best), seed, iterations - each * _PRICES, lambda: is_over(1.0))
    return found, done + count


def _within(state: State, limit: int) -> bool:
    """Take moves back, those that save least by GPU first, until the limit is kept; return whether it is."""
    index = state.index
    worth = []
    for run, held in enumerate(index.held):
        place = state.place[run] or {}
        if (moved := state.moved(run, place)) > 0:
            worth.append(((state.price(run, held) - state.own_cost[run]) // moved, run))
    for _, run in sorted(worth):
        if state.moved_gpus <= limit:
            break
        held, place = index.held[run], state.take(run)
        barred = state.barred(run)
        is_free = all(state.free[pool] >= units for pool, units in held.items())
        state.put(run, held if is_free and not any(index.rack_of[pool] in barred for pool in held) else place)
    return state.moved_gpus <= limit


def _dearest(index: Index) -> int:
    """Return a price at which no move pays: more than any run could save by each GPU."""
    dearest = 0
    for run, place in zip(index.problem.runs, index.held, strict=True):
        if place:
            racks = len({index.rack_of[pool] for pool in place})
            opened = sum(index.open_cost[pool] for pool in place)
            dearest = max(dearest, run.span_cost * (racks - 1) + run.unfit_cost * run.units + opened)
    return dearest + 1


def _priced(index: Index, price: int) -> Index:
    """Return the same problem without the limit, with a price on every GPU that moves."""
    problem = index.problem
    runs = tuple(replace(run, move_cost=run.move_cost + price * run.needs.gpus_per_unit) for run in problem.runs)
    return replace(index, problem=Problem(problem.pools, runs, Limits(None, problem.limits.still)))


def joined_state(index: Index, parts: list[Subproblem], states: list[State]) -> State:
    """Return the state of all, given those of the parts."""
    places: list[UnitsByPool] = [{} for _ in index.held]
    for part, state in zip(parts, states, strict=True):
        part.put_into(places, [place or {} for place in state.place])
    return restored(index, places)


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
