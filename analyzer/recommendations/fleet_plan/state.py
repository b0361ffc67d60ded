"""Who is where while a plan is made: what is free, what it costs, and what one change makes of both."""

from analyzer.recommendations.fleet_plan.index import Index, UnitsByPool
from analyzer.recommendations.fleet_plan.plan import Move, Plan, Solver


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
