"""The quick answer: place all runs anew, largest first, and set each right once more; or only set right what is there.

Of the two the cheaper is kept. The first finds what today's fragments hide; it fails where not everything may move.
"""

from analyzer.placement.gang.index import Index
from analyzer.placement.gang.insertion import best_place
from analyzer.placement.gang.state import State

PASSES = 3  # over all runs; a fourth changed nothing in any fleet of bench_placement


def greedy(index: Index) -> State:
    """Return a valid state that costs no more than today's."""
    anew = _anew(index)
    if anew is not None:
        _settle(anew)
    kept = State.unchanged(index)
    _settle(kept)
    return anew if anew is not None and anew.cost < kept.cost else kept


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
    for _ in range(PASSES):
        before = state.cost
        for number in sorted(movable, key=lambda n: (-state.own_cost[n], n)):
            cost = state.cost
            place = state.take(number)
            better = best_place(state, number)
            state.put(number, place if better is None else better)
            if state.cost > cost:  # keeping a part of what does not suit is no candidate, and can be the cheaper
                state.take(number)
                state.put(number, place)
        if state.cost == before:
            return
