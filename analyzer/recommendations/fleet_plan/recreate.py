"""Ruin and recreate: take a few neighbouring runs out, put them back in another order, keep what does not cost more.

Schrimpf et al., Record Breaking Optimization Results Using the Ruin and Recreate Principle (2000), with simulated
annealing's rule of acceptance. The same seed and number of iterations give the same plan; a clock only ends it early.
"""

from collections.abc import Callable
from math import exp, log
from random import Random

from analyzer.recommendations.fleet_plan.greedy import best_place
from analyzer.recommendations.fleet_plan.state import Index, State, UnitsByPool

_OUT_MAX = 14  # runs taken out at once
_RACKS_MAX = 3  # drawn at random to be emptied, no more than the run takes
_LARGE = 0.7  # of the draws are of racks that could have the run, or most of it: small ones bring no run together
# Temperature, as a share of the mean cost of runs and open pools that cost anything, at the first and last iteration.
_HOT, _COLD = 0.1, 0.001


class Recreation:
    """One search from a state; `best` holds the cheapest places so far."""

    def __init__(self, state: State, seed: int) -> None:
        self.state = state
        self.random = Random(seed)  # noqa: S311 (no secret: repeatable is what is wanted)
        self.movable = [n for n, fixed in enumerate(state.index.fixed) if not fixed]
        self.best: list[UnitsByPool] = [place or {} for place in state.place]
        self.best_cost = state.cost
        self._dirty: set[int] = set()  # runs whose place differs from the best
        index = state.index
        costs = [cost for cost in state.own_cost if cost > 0]
        costs += [cost for pool, cost in enumerate(index.open_cost) if cost and state.runs_in[pool]]
        self.scale = sum(costs) / len(costs) if costs else 1.0
        self._room = _room(index)
        self._largest = [max([1, *room]) for room in self._room]
        self._larges: dict[tuple[int, int], list[int]] = {}

    def _large(self, number: int, units: int) -> list[int]:
        """Return the class's racks that have room for so many units, or the most that any has, once all has left."""
        if (number, units) not in self._larges:
            room = self._room[number]
            needed = min(units, self._largest[number])
            self._larges[number, units] = [rack for rack in self.state.index.racks_of[number] if room[rack] >= needed]
        return self._larges[number, units]

    def search(self, iterations: int, is_over: Callable[[], bool]) -> int:
        """Ruin and recreate so often; return how often, fewer where it was over before."""
        if not self.movable:
            return 0
        for done in range(iterations):
            if done % 16 == 0 and is_over():
                return done
            self._step(self.scale * _HOT * exp(log(_COLD / _HOT) * done / iterations))
        return iterations

    def _step(self, temperature: float) -> None:
        state, before = self.state, self.state.cost
        out = {run: state.take(run) for run in self._ruin()}
        allowed = before - temperature * log(1.0 - self.random.random())
        if not self._recreate(list(out)) or state.cost > allowed:
            self._undo(out)
            return
        self._dirty.update(run for run, place in out.items() if state.place[run] != place)
        if state.cost < self.best_cost:
            self.best_cost = state.cost
            for run in self._dirty:
                self.best[run] = state.place[run] or {}
            self._dirty.clear()

    def _undo(self, out: dict[int, UnitsByPool]) -> None:
        for run in out:
            if self.state.place[run] is not None:
                self.state.take(run)
        for run, place in out.items():
            self.state.put(run, place)

    def _ruin(self) -> list[int]:
        """Return a run that costs much, and others in the racks or nodes that it has, had, or could have."""
        state, index, random = self.state, self.state.index, self.random
        first = max(random.choices(self.movable, k=3), key=lambda run: state.own_cost[run])
        if random.random() < 0.2:
            first = random.choice(self.movable)
        size = random.randint(2, _OUT_MAX)
        found = {first: None, **dict.fromkeys(self._moved())}
        for pools in self._near(first):
            runs = [run for pool in pools for run in state.runs_in[pool] if not index.fixed[run]]
            random.shuffle(runs)
            for run in runs:
                if len(found) >= size:
                    return list(found)
                found[run] = None
        return list(found)

    def _moved(self) -> list[int]:
        """Return a few runs that have moved, where moving is limited: what one gives back another may use."""
        state, random = self.state, self.random
        if state.index.problem.limits.moved_gpus_max is None:
            return []
        drawn = random.choices(self.movable, k=random.randint(0, 24))
        return [run for run in drawn if state.gone(run, state.place[run] or {})][:4]

    def _near(self, run: int) -> list[list[int]]:
        """Return groups of pools to empty: a few at random that would suit, and those it has and had."""
        index, random = self.state.index, self.random
        shared, units = index.problem.runs[run].needs.shared, index.problem.runs[run].units
        own = list(self.state.place[run] or ()) + [p for p in index.held[run] if p not in index.unfit[run]]
        random.shuffle(own)
        groups: list[list[int]] = []
        choices = index.choices[run]
        if choices:
            number = random.choice(choices)
            racks = index.rack_pools[number]
            suiting = index.racks_of[number]
            if random.random() < _LARGE:
                suiting = self._large(number, units)
            most = min(_RACKS_MAX, 2 if shared else -(-units // self._largest[number]))
            drawn = random.sample(suiting, min(len(suiting), random.randint(1, most)))
            groups += [[random.choice(racks[rack])] if shared else racks[rack] for rack in drawn]
            groups += [[pool] if shared else racks[index.rack_of[pool]] for pool in own[:3]]
        random.shuffle(groups)
        return groups

    def _recreate(self, out: list[int]) -> bool:
        """Put all back; False where one finds no place."""
        random, runs = self.random, self.state.index.problem.runs
        way = random.random()
        random.shuffle(out)
        if way < 0.4:
            out.sort(key=lambda run: -runs[run].units)
        elif way < 0.6:
            out.sort(key=lambda run: -runs[run].span_cost)
        elif way < 0.8:
            out.sort(key=lambda run: -runs[run].move_cost * runs[run].units)
        for run in out:
            place = best_place(self.state, run, random)
            if place is None:
                return False
            self.state.put(run, place)
        return True


def _room(index: Index) -> list[list[int]]:
    """Return by class and rack the units that runs which may move could have."""
    free = list(index.capacity)
    for fixed, held in zip(index.fixed, index.held, strict=True):
        if fixed:
            for pool, units in held.items():
                free[pool] -= units
    return [[sum(free[pool] for pool in pools) for pools in racks] for racks in index.rack_pools]


def recreate(state: State, seed: int, iterations: int, is_over: Callable[[], bool]) -> tuple[State, int]:
    """Return the best state found from this one, and after how many iterations; the state given is used up."""
    search = Recreation(state, seed)
    done = search.search(iterations, is_over)
    return restored(state.index, search.best), done


def restored(index: Index, places: list[UnitsByPool]) -> State:
    """Return the state in which every run is where the list says."""
    state = State(index)
    for run, place in enumerate(places):
        state.put(run, place)
    return state
