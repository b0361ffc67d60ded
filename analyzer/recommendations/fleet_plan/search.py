"""The answer without a solver: greedy, then ruin and recreate, for each part of the problem by itself.

Where only so much may move, every GPU that moves gets a price, and the price is sought at which the search moves as
much as it may: what is worth most by GPU moves then, wherever it is (Everett, Generalized Lagrange Multiplier Method,
1963). Without the price the search fills the limit with the first moves that pay, and no later one finds room.
"""

from collections.abc import Callable
from dataclasses import replace
from math import isqrt

from analyzer.recommendations.fleet_plan.greedy import greedy, settled
from analyzer.recommendations.fleet_plan.index import Index, UnitsByPool
from analyzer.recommendations.fleet_plan.problem import Limits, Problem
from analyzer.recommendations.fleet_plan.recreate import recreate, restored
from analyzer.recommendations.fleet_plan.split import Subproblem
from analyzer.recommendations.fleet_plan.state import State

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

        if part.index.problem.limits.moved_gpus_max is not None:
            found, count = _limited(part.index, state, own, seed, is_over)
        elif len(part.runs) > 1:
            found, count = recreate(state, seed, own, ends)
        else:
            found, count = state, 0
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
