"""The best filling of a bin at given prices: which runs, how many units of each, in which of its pools.

A run gets a price for each unit that is placed, costs a span for the bin, and earns for units that stay. Runs that hold
nothing in the bin differ only in how much a piece of so many units is worth, so the best few of each size are enough.
"""

from collections import defaultdict
from dataclasses import dataclass

from analyzer.placement.gang.bins import Bins, Gang

Piece = dict[int, int]  # units by pool
Pattern = dict[int, Piece]  # by run
Chain = tuple["Chain | None", int, int]  # what was before, run, filling

TINY = 1e-12


@dataclass(frozen=True, slots=True)
class Prices:
    """What the master says that things are worth, in its scale; costs are in the same."""

    unit: list[list[float]]  # by run and way
    bin_: list[float]  # by run: of being in one more bin, less its span
    counts: list[list[float]]  # by run, in the order of its counts
    stay: dict[tuple[int, int], float]  # by run and bin: of each unit that stays
    moving: list[float]  # by run: of each unit that stays, wherever
    unfit: list[float]  # by run: cost of each unit that does not suit


class Filler:
    """Fills bins. Tables of what fits are made once for all bins of one shape."""

    def __init__(self, bins: Bins, open_cost: list[float]) -> None:
        self.bins, self.open_cost = bins, open_cost
        self.class_in = [_classes_in(bins, pools) for pools in bins.bins]
        self.held = [dict(gang.held) for gang in bins.gangs]
        self.held_in: list[list[int]] = [[] for _ in bins.bins]
        for run, held in enumerate(self.held):
            for number in dict.fromkeys(bins.bin_of[pool] for pool in held):
                self.held_in[number].append(run)
        self.way_of = [_way_of(bins, gang) for gang in bins.gangs]
        self.by_class: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for run, gang in enumerate(bins.gangs):
            for number, way in enumerate(gang.ways):
                if way.class_ is not None:
                    self.by_class[way.class_].append((run, number))
        self._shapes: dict[tuple[int, ...], _Shape] = {}

    def patterns(self, prices: Prices) -> list[tuple[float, Pattern]]:
        """Return by bin the most that a filling is worth, and the filling; an empty one is worth nothing."""
        most = max((sum(self.bins.free[p] for p in pools) for pools in self.bins.bins), default=0)
        best = {number: self._best(entries, most, prices) for number, entries in self.by_class.items()}
        return [self._fill(number, best, prices) for number in range(len(self.bins.bins))]

    def _best(self, entries: list[tuple[int, int]], most: int, prices: Prices) -> list[list[tuple[float, int]]]:
        """Return by units the worth of such a piece by run, best first."""
        gangs = self.bins.gangs
        found: list[list[tuple[float, int]]] = [[] for _ in range(most + 1)]
        for run, way in entries:
            gang, unit = gangs[run], prices.unit[run][way]
            for units in range(gang.step, min(most, gang.largest) + 1, gang.step):
                worth = unit * units + self._bin_price(gang, run, units, prices)
                if worth > 0:
                    found[units].append((worth, run))
        for pieces in found:
            pieces.sort(key=lambda piece: (-piece[0], piece[1]))
        return found

    @staticmethod
    def _bin_price(gang: Gang, run: int, units: int, prices: Prices) -> float:
        worth = prices.bin_[run]
        for count, price in zip(gang.counts, prices.counts[run], strict=True):
            worth += price * count.of[units - 1]
        return worth

    def _fill(
        self, number: int, best: dict[int, list[list[tuple[float, int]]]], prices: Prices
    ) -> tuple[float, Pattern]:
        pools = self.bins.bins[number]
        shape = self._shape(tuple(self.bins.free[pool] for pool in pools))
        if shape.total == 0:
            return 0.0, {}
        held = set(self.held_in[number])
        worths: dict[int, dict[int, float]] = {}
        for class_, positions in self.class_in[number].items():
            if class_ in best:
                self._others(shape, positions, best[class_], held, worths)
        for run in self.held_in[number]:
            worths[run] = self._own(number, shape, run, prices)
        return self._chosen(pools, shape, worths)

    @staticmethod
    def _others(
        shape: "_Shape",
        positions: tuple[int, ...],
        best: list[list[tuple[float, int]]],
        held: set[int],
        worths: dict[int, dict[int, float]],
    ) -> None:
        """Add pieces of runs that hold nothing here: of each size as many as there could be beside it, and one."""
        room = sum(shape.capacities[n] for n in positions)
        for units in range(1, room + 1):
            left = shape.total - units + 1
            for worth, run in best[units]:
                if left == 0:
                    break
                if run not in held:
                    left -= 1
                    pieces = worths.setdefault(run, {})
                    for filling in shape.fillings(positions, units):
                        pieces[filling] = worth

    def _own(self, number: int, shape: "_Shape", run: int, prices: Prices) -> dict[int, float]:
        gang, pools, held, ways = self.bins.gangs[run], self.bins.bins[number], self.held[run], self.way_of[run]
        stay = prices.moving[run] + prices.stay.get((run, number), 0.0)
        unfit = set(gang.unfit)
        found: dict[int, float] = {}
        for filling, vector in enumerate(shape.vectors):
            units = sum(vector)
            if not 0 < units <= gang.largest or units % gang.step:
                continue
            worth, is_allowed = self._bin_price(gang, run, units, prices), True
            for pool, n in zip(pools, vector, strict=True):
                if n == 0:
                    continue
                if pool not in ways or (pool in unfit and n > held[pool]):
                    is_allowed = False
                    break
                worth += n * prices.unit[run][ways[pool]] + min(n, held.get(pool, 0)) * stay
                if pool in unfit:
                    worth -= n * prices.unfit[run]
            if is_allowed and worth > 0:
                found[filling] = worth
        return found

    def _chosen(
        self, pools: tuple[int, ...], shape: "_Shape", worths: dict[int, dict[int, float]]
    ) -> tuple[float, Pattern]:
        """Return the best choice of at most one piece a run (a knapsack of as many dimensions as pools)."""
        value = [0.0] + [-1e300] * (len(shape.vectors) - 1)
        chain: list[Chain | None] = [None] * len(value)
        for run, pieces in worths.items():
            before, links = value[:], chain[:]
            for filling, worth in pieces.items():
                for start, end in shape.steps(filling):
                    if before[start] + worth > value[end] + TINY:
                        value[end] = before[start] + worth
                        chain[end] = (links[start], run, filling)
        best, state = 0.0, 0
        for number, vector in enumerate(shape.vectors):
            net = value[number] - sum(self.open_cost[p] for p, n in zip(pools, vector, strict=True) if n)
            if net > best:
                best, state = net, number
        pattern: Pattern = {}
        link = chain[state]
        while link is not None:
            link, run, filling = link
            pattern[run] = {p: n for p, n in zip(pools, shape.vectors[filling], strict=True) if n}
        return best, pattern

    def _shape(self, capacities: tuple[int, ...]) -> "_Shape":
        if capacities not in self._shapes:
            self._shapes[capacities] = _Shape(capacities)
        return self._shapes[capacities]


class _Shape:
    """All fillings of pools of such capacities, numbered, and which can be added to which."""

    def __init__(self, capacities: tuple[int, ...]) -> None:
        self.capacities, self.total = capacities, sum(capacities)
        self.vectors: list[tuple[int, ...]] = [()]
        for capacity in capacities:
            self.vectors = [(*vector, n) for vector in self.vectors for n in range(capacity + 1)]
        self._number = {vector: n for n, vector in enumerate(self.vectors)}
        self._steps: dict[int, list[tuple[int, int]]] = {}
        self._fillings: dict[tuple[tuple[int, ...], int], list[int]] = {}

    def steps(self, filling: int) -> list[tuple[int, int]]:
        """Return pairs of fillings: before this one is added, and after."""
        if filling not in self._steps:
            more = self.vectors[filling]
            sums = [tuple(a + b for a, b in zip(vector, more, strict=True)) for vector in self.vectors]
            self._steps[filling] = [(n, self._number[s]) for n, s in enumerate(sums) if s in self._number]
        return self._steps[filling]

    def fillings(self, positions: tuple[int, ...], units: int) -> list[int]:
        """Return the fillings of so many units that lie in these positions."""
        key = (positions, units)
        if key not in self._fillings:
            others = [n for n in range(len(self.capacities)) if n not in positions]
            self._fillings[key] = [
                number
                for number, vector in enumerate(self.vectors)
                if sum(vector) == units and not any(vector[n] for n in others)
            ]
        return self._fillings[key]


def _classes_in(bins: Bins, pools: tuple[int, ...]) -> dict[int, tuple[int, ...]]:
    found = {}
    for number, class_ in enumerate(bins.classes):
        if positions := tuple(n for n, pool in enumerate(pools) if pool in class_):
            found[number] = positions
    return found


def _way_of(bins: Bins, gang: Gang) -> dict[int, int]:
    found: dict[int, int] = {}
    for number, way in enumerate(gang.ways):
        for pool in (*way.keeps, *(() if way.class_ is None else bins.classes[way.class_])):
            found[pool] = number
    return found
