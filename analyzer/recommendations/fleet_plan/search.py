"""Places for runs: the quick answer first, then ruin and recreate, and where one run would go best.

Quick: place all runs anew, largest first, and set each right once more; or only set right what is there. Of the two
the cheaper is kept. The first finds what today's fragments hide; it fails where not everything may move.

For one run, with the others where they are: candidates are few and made, not searched: where it is today; racks that
it holds, most first, and the rest in the rack that fits best; the one rack that fits best; the fewest racks, largest
first. The cheapest wins, then the one that leaves the least room in the pools it touches: room that stays together is
room for the next gang.

Ruin and recreate: take a few neighbouring runs out, put them back in another order, keep what does not cost more.
Schrimpf et al., Record Breaking Optimization Results Using the Ruin and Recreate Principle (2000), with simulated
annealing's rule of acceptance. The same seed and number of iterations give the same plan; a clock only ends it early.
"""

from collections.abc import Callable, Iterator
from math import exp, log
from random import Random

from analyzer.recommendations.fleet_plan.state import Index, State, UnitsByPool

# Of all candidates, so many are overlooked where a Random is given: the same repair then does not follow every ruin
# ("blinks": Christiaens and Vanden Berghe, Slack Induction by String Removals, 2020, who overlook as many positions).
_BLINKS = 0.01


def _best_place(state: State, run: int, random: Random | None = None) -> UnitsByPool | None:
    """Return the cheapest place found for a run that is out, {} where it waits; None where there is none."""
    found: UnitsByPool | None = None
    best: tuple[int, int] | None = None
    for place in _candidates(state, run):
        if not state.may_move(run, place):
            continue
        if found is not None and random is not None and random.random() < _BLINKS:
            continue
        key = (state.price(run, place) + state.opening(place), _left_over(state, place))
        if best is None or key < best:
            found, best = place, key
    return found


def _left_over(state: State, place: UnitsByPool) -> int:
    """Return the units that stay free beside it, in the pools that it takes: fuller is better."""
    left, free = 0, state.free
    for pool, units in place.items():
        left += free[pool] - units
    return left


def _candidates(state: State, run: int) -> Iterator[UnitsByPool]:
    index = state.index
    held = index.held[run]
    if not held:
        yield {}
    if index.fixed[run]:
        if held:
            yield held
        return
    barred = state.barred(run) if index.apart[run] else set()
    is_free = all(state.free[pool] >= units for pool, units in held.items())
    if held and is_free and not any(index.rack_of[pool] in barred for pool in held):
        yield held
    for number in index.choices[run]:
        if index.problem.runs[run].needs.shared:
            yield from _one_pool(state, run, number, barred)
        else:
            yield from _some_racks(state, run, number, barred)


def _one_pool(state: State, run: int, number: int, barred: set[int]) -> Iterator[UnitsByPool]:
    """Yield the fullest used pool with room, and the first unused one."""
    index, units = state.index, state.index.problem.runs[run].units
    best: int | None = None
    opened, unused = 0, None
    available = state.available[number]
    for rack in index.racks_of[number]:
        if available[rack] < units or rack in barred:
            continue
        for pool in index.rack_pools[number][rack]:
            free = state.free[pool]
            if free < units:
                continue
            if free == index.capacity[pool]:
                if unused is None or index.open_cost[pool] < index.open_cost[unused]:
                    unused = pool
            elif best is None or free < opened:
                best, opened = pool, free
    for chosen in (best, unused):
        if chosen is not None:
            yield {chosen: units}


def _some_racks(state: State, run: int, number: int, barred: set[int]) -> Iterator[UnitsByPool]:
    index, about = state.index, state.index.problem.runs[run]
    units, limit = about.units, index.rack_limit[run]
    available = state.available[number]
    room = [(n, rack) for rack in index.racks_of[number] if (n := available[rack]) and rack not in barred]
    if sum(n for n, _ in room) < units:
        return
    keeps: dict[int, int] = {}
    for pool, n in index.held[run].items():
        kept = min(n, state.free[pool])
        rack = index.rack_of[pool]
        if kept and rack not in barred and pool not in index.unfit[run] and number in index.classes_of[pool]:
            keeps[rack] = keeps.get(rack, 0) + kept
    by_room = {rack: n for n, rack in room}
    tried: set[tuple[int, ...]] = set()
    order = sorted(keeps, key=lambda rack: (-keeps[rack], -by_room[rack], rack))
    starts: list[list[int]] = [[], *(order[:n] for n in range(1, min(len(order), limit) + 1))]
    starts += [[rack] for rack in order[1:4]]
    for start in starts:
        chosen = _filled_up(start, units, room, by_room)
        if chosen is None or len(chosen) > limit or tuple(chosen) in tried:
            continue
        tried.add(tuple(chosen))
        yield _spread(state, run, number, chosen, keeps, by_room)


def _filled_up(start: list[int], units: int, room: list[tuple[int, int]], by_room: dict[int, int]) -> list[int] | None:
    """Return the racks to start with and as few more as are needed, the last the one that fits best."""
    chosen = list(start)
    left = units - sum(by_room[rack] for rack in start)
    if left <= 0:
        return chosen
    used = set(start)
    fits = min(((n, rack) for n, rack in room if n >= left and rack not in used), default=None)
    if fits is not None:
        return [*chosen, fits[1]]
    largest = sorted(((-n, rack) for n, rack in room if rack not in used))
    for position, (negative, rack) in enumerate(largest):
        chosen.append(rack)
        left += negative
        if left <= 0:
            return chosen
        rest = largest[position + 1 :]
        fits = min(((-n, other) for n, other in rest if -n >= left), default=None)
        if fits is not None:
            return [*chosen, fits[1]]
    return None


def _spread(
    state: State, run: int, number: int, racks: list[int], keeps: dict[int, int], by_room: dict[int, int]
) -> UnitsByPool:
    """Return so many units of each pool of the racks: what is held first, then rack after rack, the fullest first."""
    index, place = state.index, dict[int, int]()
    left = index.problem.runs[run].units
    held = index.held[run]
    for rack in racks:
        if rack in keeps:
            for pool in index.rack_pools[number][rack]:
                n = min(held.get(pool, 0), state.free[pool], left)
                if n > 0:
                    place[pool] = n
                    left -= n
    for rack in sorted(racks, key=lambda rack: (by_room[rack] - keeps.get(rack, 0), rack)):
        for pool in index.rack_pools[number][rack]:
            n = min(state.free[pool] - place.get(pool, 0), left)
            if n > 0:
                place[pool] = place.get(pool, 0) + n
                left -= n
    if left:
        raise AssertionError("BUG: the racks chosen have no room for the run")
    return place


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
        place = _best_place(state, number)
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
            better = _best_place(state, number)
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
    better = _best_place(state, run)
    state.put(run, place if better is None else better)
    saved, more = cost - state.cost, state.moved_gpus - moved
    state.take(run)
    state.put(run, place)
    return saved // max(1, more)


_OUT_MAX = 14  # runs taken out at once
_RACKS_MAX = 3  # drawn at random to be emptied, no more than the run takes
_LARGE = 0.7  # of the draws are of racks that could have the run, or most of it: small ones bring no run together
# Temperature, as a share of the mean cost of runs and open pools that cost anything, at the first and last iteration.
_HOT, _COLD = 0.1, 0.001


class _Recreation:
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
            place = _best_place(self.state, run, random)
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
    search = _Recreation(state, seed)
    done = search.search(iterations, is_over)
    return restored(state.index, search.best), done


def restored(index: Index, places: list[UnitsByPool]) -> State:
    """Return the state in which every run is where the list says."""
    state = State(index)
    for run, place in enumerate(places):
        state.put(run, place)
    return state
