"""The problem as bins to fill: the racks of whole nodes, and every shared node, each with the runs that may lie in it.

Bins are what a bound by patterns takes apart (see by_rack). Runs that cannot move are no longer there: what they hold
is not free, what they open is open, what they cost is a constant. Who is to be apart from whom is left out, so a bound
may be too low for it and never too high. All is integers and lists, for it goes to another process as JSON.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass

from analyzer.placement.gang.counts import Count, counts_of
from analyzer.placement.gang.index import Index, Place

STATES_MAX = 700  # ways to fill one bin's pools; above, filling it well is a problem of its own


@dataclass(frozen=True, slots=True)
class Way:
    """One SKU for a run: the class of pools it may take (None: none), and pools it may only keep."""

    class_: int | None
    keeps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Gang:
    """A run that may move: units, costs as in the problem, and how it may lie in bins."""

    units: int
    step: int  # units that stay together: all where shared, else 1
    gpus: int  # of each unit
    span_cost: int
    move_cost: int
    restart_cost: int
    unfit_cost: int
    waiting_cost: int
    held: tuple[tuple[int, int], ...]  # pool and units
    unfit: tuple[int, ...]
    ways: tuple[Way, ...]
    largest: int  # units in one bin at most
    fewest: int  # bins that it takes at least
    most: int  # bins that it may take
    counts: tuple[Count, ...]  # what its pieces count together at least, by their units
    start: tuple[tuple[int, int], ...]  # pool and units in the plan that is known

    @property
    def is_whole(self) -> bool:
        """Whether its units stay together whatever happens: then it is in one bin, and moves wholly or not at all."""
        return self.step == self.units

    @property
    def is_settled(self) -> bool:
        """Whether it runs and has one way only, so that there is nothing to choose but where."""
        return bool(self.held) and len(self.ways) == 1


@dataclass(frozen=True, slots=True)
class Bins:
    """What there is to fill, and the constant part of the cost."""

    bins: tuple[tuple[int, ...], ...]  # pools of each
    bin_of: tuple[int, ...]  # by pool
    free: tuple[int, ...]
    open_cost: tuple[int, ...]  # 0 where it is open anyway
    classes: tuple[tuple[int, ...], ...]  # pools of each
    gangs: tuple[Gang, ...]
    constant: int
    kept_gpus_min: int | None  # GPUs that must stay where a limit says how many may move


def bins_of(index: Index, places: list[Place], constant: int) -> Bins | None:
    """Return the problem as bins, `constant` being what fixed runs cost; None where a bin has too many fillings."""
    free, is_open = _without_fixed(index)
    bins, bin_of = _bins(index)
    for pools in bins:
        states = 1
        for pool in pools:
            states *= free[pool] + 1
        if states > STATES_MAX:
            return None
    classes = [[pool for pools in racks for pool in pools] for racks in index.rack_pools]
    movable = [run for run, fixed in enumerate(index.fixed) if not fixed]
    gangs = tuple(_gang(index, run, places[run], classes, free, bin_of) for run in movable)
    limit = index.problem.limits.moved_gpus_max
    everything = sum(units * index.gpus[pool] for run in movable for pool, units in index.held[run].items())
    return Bins(
        bins=tuple(tuple(pools) for pools in bins),
        bin_of=tuple(bin_of),
        free=tuple(free),
        open_cost=tuple(0 if used else cost for cost, used in zip(index.open_cost, is_open, strict=True)),
        classes=tuple(tuple(pools) for pools in classes),
        gangs=gangs,
        constant=constant + sum(cost for cost, used in zip(index.open_cost, is_open, strict=True) if used),
        kept_gpus_min=None if limit is None else everything - limit,
    )


def _without_fixed(index: Index) -> tuple[list[int], list[bool]]:
    free, is_open = list(index.capacity), [False] * len(index.capacity)
    for run, fixed in enumerate(index.fixed):
        if fixed:
            for pool, units in index.held[run].items():
                free[pool] -= units
                is_open[pool] = True
    return free, is_open


def _bins(index: Index) -> tuple[list[list[int]], list[int]]:
    """Return the pools of each bin, and each pool's bin: shared nodes alone, the whole ones of a rack together."""
    numbers: dict[object, int] = {}
    bin_of = []
    for pool, rack in enumerate(index.rack_of):
        kind = index.problem.pools[pool].kind
        key = ("pool", pool) if kind.shared else ("rack", rack, kind.gpus_per_unit)
        bin_of.append(numbers.setdefault(key, len(numbers)))
    bins: list[list[int]] = [[] for _ in numbers]
    for pool, number in enumerate(bin_of):
        bins[number].append(pool)
    return bins, bin_of


def _gang(index: Index, run: int, place: Place, classes: list[list[int]], free: list[int], bin_of: list[int]) -> Gang:
    about, held = index.problem.runs[run], index.held[run]
    ways = _ways(index, run, classes)
    rooms: dict[int, int] = defaultdict(int)
    for pool in {p for number in index.choices[run] for p in classes[number]} | set(held):
        rooms[bin_of[pool]] += free[pool]
    fewest = _fewest(rooms, about.units)
    counts = () if about.needs.shared else counts_of(about.units, Counter(rooms.values()))
    return Gang(
        units=about.units,
        step=about.units if about.needs.shared else 1,
        gpus=about.needs.gpus_per_unit,
        span_cost=about.span_cost,
        move_cost=about.move_cost,
        restart_cost=about.restart_cost,
        unfit_cost=about.unfit_cost,
        waiting_cost=about.waiting_cost,
        held=tuple(sorted(held.items())),
        unfit=tuple(sorted(index.unfit[run])),
        ways=tuple(ways),
        largest=min(about.units, max(rooms.values(), default=0)),
        fewest=fewest,
        most=1 if about.needs.shared else max(fewest, index.rack_limit[run]),
        counts=counts,
        start=tuple(sorted(place.items())),
    )


def _fewest(rooms: dict[int, int], units: int) -> int:
    left, count = units, 0
    for room in sorted(rooms.values(), reverse=True):
        if left <= 0:
            break
        left, count = left - room, count + 1
    return max(1, count)


def _ways(index: Index, run: int, classes: list[list[int]]) -> list[Way]:
    """Return a way for each class, and one for what suits none and can only be kept."""
    pools = index.problem.pools
    mixes = index.problem.runs[run].needs.mixes_skus
    keeps: dict[int | None, list[int]] = {number: [] for number in index.choices[run]}
    for pool in sorted(index.unfit[run]):
        like = [n for n in index.choices[run] if mixes or pools[classes[n][0]].kind.sku == pools[pool].kind.sku]
        keeps.setdefault(like[0] if like else None, []).append(pool)
    return [Way(number, tuple(kept)) for number, kept in keeps.items()]
