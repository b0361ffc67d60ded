"""The problem in numbers, and who is where while a plan is made: what is free, and what it costs.

Pools and runs go by position, and for every run there are the classes of pools that it may be given. A class is a set
of pools; runs with equal needs share theirs, so that what is free can be kept by class and rack instead of being summed
for every question. A run that keeps to one SKU and takes several has a class for each.
"""

from dataclasses import dataclass

from analyzer.recommendations.fleet_plan.problem import Move, Needs, Plan, Problem, Run, Solver, UnitKind

UnitsByPool = dict[int, int]  # units by pool; empty where the run waits


def _suits(kind: UnitKind, needs: Needs) -> bool:
    """Whether a run with these needs may be given units of this kind."""
    return (
        kind.sku in needs.skus
        and kind.shared == needs.shared
        and kind.gpus_per_unit == needs.gpus_per_unit
        and (kind.nvme or not needs.nvme)
        and kind.mig == needs.mig
        and kind.taints <= needs.tolerates
        and (kind.reservation is None or kind.reservation in needs.reservations)
    )


@dataclass(frozen=True)
class Index:
    """One problem by position. Lists are not changed after they are made."""

    problem: Problem
    rack_of: list[int]  # by pool
    capacity: list[int]
    open_cost: list[int]
    gpus: list[int]
    rack_pools: list[list[list[int]]]  # by class and rack: pools of the class, those that fewest runs could take first
    racks_of: list[list[int]]  # by class: racks that have any
    classes_of: list[list[int]]  # by pool
    choices: list[list[int]]  # by run: classes
    held: list[UnitsByPool]  # by run
    unfit: list[frozenset[int]]  # by run: held pools that do not suit
    rack_limit: list[int]  # by run
    apart: list[frozenset[int]]  # by run
    fixed: list[bool]  # by run

    @property
    def racks(self) -> int:
        """How many racks there are."""
        return max(self.rack_of, default=-1) + 1


def index_of(problem: Problem) -> Index:
    """Return the problem by position."""
    racks = {rack: n for n, rack in enumerate(dict.fromkeys(pool.rack for pool in problem.pools))}
    numbers = {pool.id: n for n, pool in enumerate(problem.pools)}
    rack_of = [racks[pool.rack] for pool in problem.pools]
    classes: dict[tuple[int, ...], int] = {}
    by_needs: dict[Needs, list[int]] = {}
    for run in problem.runs:
        if run.needs not in by_needs:
            by_needs[run.needs] = [classes.setdefault(pools, len(classes)) for pools in _pools(problem, run.needs)]
    classes_of: list[list[int]] = [[] for _ in problem.pools]
    for pools, number in classes.items():
        for pool in pools:
            classes_of[pool].append(number)
    rack_pools = [_by_rack(pools, rack_of, len(racks), classes_of) for pools in classes]
    held = [{numbers[pool]: units for pool, units in run.held} for run in problem.runs]
    return Index(
        problem=problem,
        rack_of=rack_of,
        capacity=[pool.units for pool in problem.pools],
        open_cost=[pool.open_cost for pool in problem.pools],
        gpus=[pool.kind.gpus_per_unit for pool in problem.pools],
        rack_pools=rack_pools,
        racks_of=[[rack for rack, pools in enumerate(inside) if pools] for inside in rack_pools],
        classes_of=classes_of,
        choices=[by_needs[run.needs] for run in problem.runs],
        held=held,
        unfit=[
            frozenset(p for p in place if not _suits(problem.pools[p].kind, run.needs))
            for run, place in zip(problem.runs, held, strict=True)
        ],
        rack_limit=[_rack_limit(run, place, rack_of) for run, place in zip(problem.runs, held, strict=True)],
        apart=_apart(problem),
        fixed=[run.pinned or run.id in problem.limits.still for run in problem.runs],
    )


def _pools(problem: Problem, needs: Needs) -> list[tuple[int, ...]]:
    suiting = [n for n, pool in enumerate(problem.pools) if pool.units > 0 and _suits(pool.kind, needs)]
    if needs.mixes_skus:
        return [tuple(suiting)] if suiting else []
    found = [tuple(n for n in suiting if problem.pools[n].kind.sku == sku) for sku in sorted(needs.skus)]
    return [pools for pools in found if pools]


def _by_rack(pools: tuple[int, ...], rack_of: list[int], racks: int, classes_of: list[list[int]]) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in range(racks)]
    for pool in sorted(pools, key=lambda p: (len(classes_of[p]), p)):
        found[rack_of[pool]].append(pool)
    return found


def _rack_limit(run: Run, place: UnitsByPool, rack_of: list[int]) -> int:
    limit = run.units if run.max_racks is None else run.max_racks
    return max(limit, len({rack_of[pool] for pool in place}))


def _apart(problem: Problem) -> list[frozenset[int]]:
    numbers = {run.id: n for n, run in enumerate(problem.runs)}
    found: list[set[int]] = [set() for _ in problem.runs]
    for n, run in enumerate(problem.runs):
        for other in run.apart_from:
            if other in numbers and other != run.id:
                found[n].add(numbers[other])
                found[numbers[other]].add(n)
    return [frozenset(others) for others in found]


class State:
    """Places of all runs with the sums that follow from them, kept as runs are put and taken.

    `cost` counts runs that have been put, and pools in use; one that is taken out counts nothing until it is put again.
    """

    def __init__(self, index: Index) -> None:
        self.index = index
        self.free = list(index.capacity)
        self.place: list[UnitsByPool | None] = [None] * len(index.held)  # None: taken out
        self.own_cost = [0] * len(index.held)
        self.cost = 0
        self.moved_gpus = 0
        self.available = [
            [sum(index.capacity[pool] for pool in pools) for pools in racks] for racks in index.rack_pools
        ]
        self.runs_in: list[dict[int, None]] = [{} for _ in index.capacity]

    @classmethod
    def unchanged(cls, index: Index) -> "State":
        """Return the state of today."""
        state = cls(index)
        for run, held in enumerate(index.held):
            state.put(run, held)
        return state

    def put(self, run: int, place: UnitsByPool) -> None:
        """Put a run that is out; what it takes must be free."""
        cost = self.price(run, place)
        self.own_cost[run] = cost
        self.cost += cost
        for pool, units in place.items():
            if self.free[pool] == self.index.capacity[pool]:
                self.cost += self.index.open_cost[pool]
            self._change(pool, -units)
            self.runs_in[pool][run] = None
        self.moved_gpus += self.moved(run, place)
        self.place[run] = place

    def take(self, run: int) -> UnitsByPool:
        """Take a run out; return where it was."""
        place = self.place[run]
        if place is None:
            raise AssertionError("BUG: a run is taken out twice")
        self.cost -= self.own_cost[run]
        for pool, units in place.items():
            self._change(pool, units)
            del self.runs_in[pool][run]
            if self.free[pool] == self.index.capacity[pool]:
                self.cost -= self.index.open_cost[pool]
        self.moved_gpus -= self.moved(run, place)
        self.place[run] = None
        return place

    def _change(self, pool: int, units: int) -> None:
        self.free[pool] += units
        rack = self.index.rack_of[pool]
        for number in self.index.classes_of[pool]:
            self.available[number][rack] += units

    def price(self, run: int, place: UnitsByPool) -> int:
        """Return what a run costs in a place, without what opening its pools costs."""
        about = self.index.problem.runs[run]
        if not place:
            return about.waiting_cost
        rack_of = self.index.rack_of
        cost = about.span_cost * (len({rack_of[pool] for pool in place}) - 1) if len(place) > 1 else 0
        gone = self.gone(run, place)
        if gone:
            cost += about.move_cost * gone + about.restart_cost
        for pool in self.index.unfit[run]:
            cost += about.unfit_cost * place.get(pool, 0)
        return cost

    def gone(self, run: int, place: UnitsByPool) -> int:
        """Return the units that the run would leave."""
        held = self.index.held[run]
        if not held or held is place:
            return 0
        gone = self.index.problem.runs[run].units
        for pool, units in place.items():
            if pool in held:
                had = held[pool]
                gone -= min(had, units)
        return gone

    def moved(self, run: int, place: UnitsByPool) -> int:
        """Return the GPUs of the units that the run would leave."""
        return self.gone(run, place) * self.index.problem.runs[run].needs.gpus_per_unit

    def opening(self, place: UnitsByPool) -> int:
        """Return what opening those of its pools that nobody uses would cost."""
        index, cost = self.index, 0
        for pool in place:
            if index.open_cost[pool] and self.free[pool] == index.capacity[pool]:
                cost += index.open_cost[pool]
        return cost

    def may_move(self, run: int, place: UnitsByPool) -> bool:
        """Whether so many more GPUs may move as would leave for this place."""
        limit = self.index.problem.limits.moved_gpus_max
        return limit is None or self.moved_gpus + self.moved(run, place) <= limit

    def barred(self, run: int) -> set[int]:
        """Return the racks in which the run must not be, for the runs that it should be apart from."""
        rack_of = self.index.rack_of
        mine = {rack_of[pool] for pool in self.index.held[run]}
        found: set[int] = set()
        for other in self.index.apart[run]:
            theirs = {rack_of[pool] for pool in self.index.held[other]}
            found |= {rack_of[pool] for pool in self.place[other] or ()} - (mine & theirs)
        return found


def plan_of(state: State, cost_before: int, solver: Solver, iterations: int = 0, seed: int = 0) -> Plan:
    """Return the state as a plan; every run must have been put."""
    problem = state.index.problem
    placed: dict[str, tuple[tuple[str, int], ...]] = {}
    moves = []
    for number, run in enumerate(problem.runs):
        place = state.place[number]
        if place is None:
            raise AssertionError(f"BUG: {run.id} was taken out and not put back")
        held = state.index.held[number]
        placed[run.id] = _named(state.index, place)
        if place != held:
            left = {pool: units - place.get(pool, 0) for pool, units in held.items()}
            gained = {pool: units - held.get(pool, 0) for pool, units in place.items()}
            moves.append(Move(run.id, _named(state.index, left), _named(state.index, gained)))
    return Plan(
        placed=placed,
        moves=tuple(moves),
        cost_before=cost_before,
        cost=state.cost,
        moved_gpus=state.moved_gpus,
        solver=solver if moves else "unchanged",
        iterations=iterations,
        seed=seed,
    )


def _named(index: Index, place: UnitsByPool) -> tuple[tuple[str, int], ...]:
    pools = index.problem.pools
    return tuple((pools[pool].id, units) for pool, units in sorted(place.items()) if units > 0)
