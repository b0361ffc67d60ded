"""The question, which racks have what, which runs are where, what places and moves cost; and its answer, a plan.

A run is a gang: all of its units or none. A pool is a number of units that are alike to whoever asks: the whole nodes
of one kind in a rack, or the single GPUs (or slices) of one shared node. Every cost is an integer of one currency for
all (micro-dollars or GPU-milliseconds) over one horizon, a week by default; nothing here knows which.

Nothing that is so today is made illegal by asking: a run may keep units of a pool that no longer suits it (at
`unfit_cost`), as many racks as it has now, and a rack that it already shares with a run that it should be apart from.
So "change nothing" is always a valid plan.

A pool is whole or shared for the length of a plan: that a shared node which is emptied is given whole to another run is
two plans. It would need capacities that depend on who has left, in every solver, for a move that has to wait
for others anyway; what an emptied node is worth is its `open_cost`.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from analyzer.errors import AnalyzerError


class ProblemError(AnalyzerError):
    """The problem contradicts itself: what is held is more than there is, or a name is unknown."""


@dataclass(frozen=True, slots=True)
class UnitKind:
    """What the units of a pool are. Where `shared`, a unit is one GPU or slice of one node; else it is a whole node."""

    sku: str
    gpus_per_unit: int  # 1 where shared; a MIG slice counts as a whole GPU towards what may move
    shared: bool = False
    nvme: bool = False
    mig: str | None = None
    taints: frozenset[str] = frozenset()
    reservation: str | None = None


@dataclass(frozen=True, slots=True)
class Pool:
    """Units of one kind in one rack: those that are free and those that runs of the problem hold."""

    id: str
    rack: str
    kind: UnitKind
    units: int
    open_cost: int = 0  # of being used at all: a shared node that is empty can be given whole, or shut down


@dataclass(frozen=True, slots=True)
class Needs:
    """What a run asks of each of its units. A run keeps to one SKU unless `mixes_skus`."""

    skus: frozenset[str]
    gpus_per_unit: int
    shared: bool = False
    nvme: bool = False
    mig: str | None = None
    tolerates: frozenset[str] = frozenset()
    reservations: frozenset[str] = frozenset()
    mixes_skus: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """One gang: its units, what it needs, where it is, and what places and moves cost it. A queued run holds nothing.

    One of shared units lies within one pool, one of whole nodes within `max_racks` racks, or as many as it has now.
    """

    id: str
    units: int
    needs: Needs
    held: tuple[tuple[str, int], ...] = ()  # pool and units
    span_cost: int = 0  # of each rack after the first
    move_cost: int = 0  # of each unit that moves
    restart_cost: int = 0  # once, where any unit moves
    unfit_cost: int = 0  # of each unit kept in a pool that does not suit
    waiting_cost: int = 0  # of a queued run that still waits
    max_racks: int | None = None
    apart_from: frozenset[str] = frozenset()  # runs with which it shares no rack
    pinned: bool = False


@dataclass(frozen=True, slots=True)
class Limits:
    """How much may change at once."""

    moved_gpus_max: int | None = None  # GPUs of all units that leave their pool
    still: frozenset[str] = frozenset()  # runs that must not move now: a cool-down, or a rejection


@dataclass(frozen=True)
class Problem:
    """Pools, runs and limits, checked for contradictions.

    Raises:
        ProblemError: a name occurs twice or is unknown, or what is held is not what the pools and the run say.
    """

    pools: tuple[Pool, ...]
    runs: tuple[Run, ...]
    limits: Limits = Limits()

    def __post_init__(self) -> None:
        if len(self.pool_by_id) != len(self.pools) or len(self.run_by_id) != len(self.runs):
            raise ProblemError("two pools or two runs have the same name")
        taken = dict.fromkeys(self.pool_by_id, 0)
        for run in self.runs:
            self._check(run)
            for pool, units in run.held:
                taken[pool] += units
        for pool, units in taken.items():
            if units > self.pool_by_id[pool].units:
                raise ProblemError(f"{units} units of {pool} are held, and it has {self.pool_by_id[pool].units}")

    def _check(self, run: Run) -> None:
        names = [pool for pool, _ in run.held]
        unknown = [name for name in names if name not in self.pool_by_id]
        if unknown or len(set(names)) != len(names):
            raise ProblemError(f"{run.id} holds units of unknown or repeated pools: {', '.join(unknown or names)}")
        if run.units <= 0 or any(units <= 0 for _, units in run.held):
            raise ProblemError(f"{run.id} has or holds no units")
        if run.held and sum(units for _, units in run.held) != run.units:
            raise ProblemError(f"{run.id} is a gang of {run.units} units and holds a part of them")
        kinds = [self.pool_by_id[name].kind for name in names]
        if any((k.shared, k.gpus_per_unit) != (run.needs.shared, run.needs.gpus_per_unit) for k in kinds):
            raise ProblemError(f"{run.id} holds units of another size than it asks for")
        if run.needs.shared and len(names) > 1:
            raise ProblemError(f"{run.id} needs units of one node and holds {len(names)}")
        if not run.needs.mixes_skus and len({kind.sku for kind in kinds}) > 1:
            raise ProblemError(f"{run.id} holds several SKUs: say that it mixes them")
        costs = (run.span_cost, run.move_cost, run.restart_cost, run.unfit_cost, run.waiting_cost)
        if min(costs) < 0 or any(type(cost) is not int for cost in costs):
            raise ProblemError(f"{run.id} has a cost that is not an integer of 0 or more")

    @cached_property
    def pool_by_id(self) -> dict[str, Pool]:
        """Pools by name."""
        return {pool.id: pool for pool in self.pools}

    @cached_property
    def run_by_id(self) -> dict[str, Run]:
        """Runs by name."""
        return {run.id: run for run in self.runs}


Solver = Literal["unchanged", "greedy", "recreate"]


@dataclass(frozen=True, slots=True)
class Move:
    """Units of one run that go from pools to pools; a queued run that starts comes from nowhere."""

    run_id: str
    from_: tuple[tuple[str, int], ...]
    to: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """Every run's units by pool (none where it waits), costs in the problem's currency, and what found it."""

    placed: dict[str, tuple[tuple[str, int], ...]]
    moves: tuple[Move, ...]
    cost_before: int  # of changing nothing
    cost: int  # of the plan, moving included
    moved_gpus: int
    solver: Solver
    iterations: int
    seed: int
