"""The quick answer: place all runs anew, largest first, and set each right once more; or only set right what is there.

Of the two the cheaper is kept. The first finds what today's fragments hide; it fails where not everything may move.
"""

from analyzer.recommendations.fleet_plan.index import Index
from analyzer.recommendations.fleet_plan.insertion import best_place
from analyzer.recommendations.fleet_plan.state import State

_PASSES = 3  # over all runs; a fourth changed nothing in any fleet of bench_placement


def greedy(index: Index) -> State:
    """Return a valid state that costs no more than today's."""
    anew = _anew(index)
    if anew is not None:
        _settle(anew)
    kept = settled(index)
    return anew if anew is not None and anew.cost < kept.cost else kept


def settled(index: Index) -> State:
    """Return today's state with each run set right where that pays."""
    state = State.unchanged(index)
    _settle(state)
    return state


def _anew(index: Index) -> State | None:
    state = State(index)
    runs = index.problem.runs
    numbers = sorted(range(len(runs)), key=lambda n: (not index.fixed[n], -runs[n].units, -runs[n].span_cost, n))
    for number in numbers:
        place = best_place(state, number)
        if place is None:
            return None
        state.put(number, place)
    return state


def _settle(state: State) -> None:
    """Take each run out and put it where it costs least, until nothing changes or the passes are over."""
    movable = [n for n, fixed in enumerate(state.index.fixed) if not fixed]
    is_limited = state.index.problem.limits.moved_gpus_max is not None
    for _ in range(_PASSES):
        before = state.cost
        worth = [_worth(state, n) if is_limited else state.own_cost[n] for n in movable]
        for _, number in sorted(zip(worth, movable, strict=True), key=lambda pair: (-pair[0], pair[1])):
            cost = state.cost
            place = state.take(number)
            better = best_place(state, number)
            state.put(number, place if better is None else better)
            if state.cost > cost:  # keeping a part of what does not suit is no candidate, and can be the cheaper
                state.take(number)
                state.put(number, place)
        if state.cost == before:
            return


def _worth(state: State, run: int) -> int:
    """Return what the run's best place saves for each GPU that it moves: where moving is limited, that comes first."""
    cost, moved = state.cost, state.moved_gpus
    place = state.take(run)
    better = best_place(state, run)
    state.put(run, place if better is None else better)
    saved, more = cost - state.cost, state.moved_gpus - moved
    state.take(run)
    state.put(run, place)
    return saved // max(1, more)
