"""The problem in numbers: pools and runs by position, and for every run the classes of pools that it may be given.

A class is a set of pools; runs with equal needs share theirs, so that what is free can be kept by class and rack
instead of being summed for every question. A run that keeps to one SKU and takes several has a class for each.
"""

from dataclasses import dataclass

from analyzer.recommendations.fleet_plan.problem import Needs, Problem, Run, UnitKind

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
