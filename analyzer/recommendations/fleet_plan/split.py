"""Parts of a problem that have nothing to do with each other: no run of one could use what a run of another could.

SKUs, taints, reservations, shared and whole nodes separate a fleet. Without a limit on what moves, the parts' best
plans together are the best plan. Runs that must be apart are in one part.
"""

from dataclasses import dataclass

from analyzer.recommendations.fleet_plan.index import Index, UnitsByPool, index_of
from analyzer.recommendations.fleet_plan.problem import Problem


@dataclass(frozen=True, slots=True)
class Subproblem:
    """One part as a problem of its own, with the numbers that its pools and runs have in the whole."""

    index: Index
    pools: tuple[int, ...]
    runs: tuple[int, ...]

    def put_into(self, places: list[UnitsByPool], own: list[UnitsByPool]) -> None:
        """Write the part's places into those of all."""
        for run, place in zip(self.runs, own, strict=True):
            places[run] = {self.pools[pool]: units for pool, units in place.items()}


def parts_of(index: Index) -> list[Subproblem]:
    """Return the parts, those of most runs first; a limit on what moves keeps all in one."""
    if index.problem.limits.moved_gpus_max is not None:
        return [Subproblem(index, tuple(range(len(index.capacity))), tuple(range(len(index.held))))]
    sets = _joined(index)
    pool_0 = len(index.held)
    runs: dict[int, list[int]] = {}
    for run in range(len(index.held)):
        runs.setdefault(sets.of(run), []).append(run)
    pools: dict[int, list[int]] = {name: [] for name in runs}
    for pool in range(len(index.capacity)):
        if (name := sets.of(pool_0 + pool)) in pools:
            pools[name].append(pool)
    found = [_part(index, pools[name], own) for name, own in runs.items()]
    return sorted(found, key=lambda part: -len(part.runs))


def _joined(index: Index) -> "_Sets":
    """Return runs, then pools, then classes, joined where one could use the other."""
    pool_0, class_0 = len(index.held), len(index.held) + len(index.capacity)
    sets = _Sets(class_0 + len(index.rack_pools))
    asked: set[int] = set()
    for run, place in enumerate(index.held):
        for other in (*index.apart[run], *(pool_0 + pool for pool in place)):
            sets.join(run, other)
        if not index.fixed[run]:
            asked.update(index.choices[run])
            for number in index.choices[run]:
                sets.join(run, class_0 + number)
    for pool, classes in enumerate(index.classes_of):
        for number in asked.intersection(classes):
            sets.join(pool_0 + pool, class_0 + number)
    return sets


def _part(index: Index, pools: list[int], runs: list[int]) -> Subproblem:
    problem = index.problem
    own = Problem(
        tuple(problem.pools[pool] for pool in pools), tuple(problem.runs[run] for run in runs), problem.limits
    )
    return Subproblem(index_of(own), tuple(pools), tuple(runs))


class _Sets:
    """Sets that are joined (union and find)."""

    def __init__(self, count: int) -> None:
        self._up = list(range(count))

    def of(self, one: int) -> int:
        """Return the name of the set that it is in."""
        while self._up[one] != one:
            self._up[one] = self._up[self._up[one]]
            one = self._up[one]
        return one

    def join(self, one: int, other: int) -> None:
        """Make one set of two; it gets the name of the lower."""
        low, high = sorted((self.of(one), self.of(other)))
        self._up[high] = low
