"""What no plan can cost less than: by HiGHS in processes of its own where it is installed, else each run alone."""

from collections import defaultdict
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from math import ceil, gcd

from analyzer.placement.gang.bins import bins_of
from analyzer.placement.gang.index import Index, Place
from analyzer.placement.gang.model import fixed_cost
from analyzer.placement.gang.programme import Programme
from analyzer.solver_process import SolverProcess

SCALE = 10_000.0  # of the largest cost that HiGHS is given: its tolerances are absolute
# HiGHS takes a value within 1e-6 of an integer as one (mip_feasibility_tolerance), and counts in floating point: its
# bound is lowered by this share before it is called one.
TOLERANCE = 1e-6


def has_highs() -> bool:
    """Whether highspy is installed; it is not imported."""
    return find_spec("highspy") is not None


@dataclass(frozen=True, slots=True)
class Solved:
    """What HiGHS said: an integer no plan costs less than (None: it got to none), and its columns where it has any."""

    bound: int | None
    values: tuple[float, ...] | None


class Solving:
    """One programme in a child process, from the moment it is made."""

    def __init__(self, programme: Programme, seconds: float, has_start: bool) -> None:
        self._constant = programme.constant
        self._step = gcd(*programme.cost, programme.constant) or 1
        largest = max((abs(cost) for cost in programme.cost), default=1) or 1
        self._scale = largest / SCALE
        asked: dict[str, object] = {
            "cost": [cost / self._scale for cost in programme.cost],
            "upper": programme.upper,
            "start": programme.start if has_start else None,
            "rows": [[list(row), list(row.values()), low, high] for row, low, high in programme.rows],
            "seconds": seconds,
        }
        self._child = SolverProcess("analyzer.placement.gang.highs").ask(asked, seconds)

    def result(self) -> Solved:
        """Wait for the answer, until its time is over; what dies or is killed has found nothing."""
        found = self._child.answer()
        if found is None:
            return Solved(None, None)
        bound, values = found["bound"], found["values"]
        real = None if bound is None else lowered(bound * self._scale + self._constant, self._step)
        return Solved(real, None if values is None else tuple(values))

    def stop(self) -> None:
        """End the child, if it is still there."""
        self._child.stop()


class Racking:
    """The bound by the patterns of whole racks in a child process, from the moment it is made."""

    def __init__(self, index: Index, places: list[Place], known: int, seconds: float) -> None:
        constant = sum(fixed_cost(index, run) for run, fixed in enumerate(index.fixed) if fixed)
        bins = bins_of(index, places, constant)
        self._child = None
        if bins is not None and bins.gangs:
            asked: dict[str, object] = {"bins": asdict(bins), "known": known, "seconds": seconds}
            self._child = SolverProcess("analyzer.placement.gang.by_rack").ask(asked, seconds)

    def bound(self) -> int | None:
        """Wait for the best bound, until its time is over; None where there is none."""
        found = None if self._child is None else self._child.answer()
        return None if found is None else lowered(found["bound"], 1)

    def stop(self) -> None:
        """End the child, if it is still there."""
        if self._child is not None:
            self._child.stop()


def lowered(bound: float, step: int) -> int:
    """Return the least cost that a plan can have, given a bound in floating point: a multiple of the step."""
    return max(0, step * ceil((bound - TOLERANCE * max(abs(bound), step)) / step))


def each_alone(index: Index) -> int:
    """Return a bound without a solver: every run in the best place it could have, were the others not there."""
    return sum(_alone(index, run, held) for run, held in enumerate(index.held)) + _opening(index)


def _alone(index: Index, run: int, held: Place) -> int:
    about = index.problem.runs[run]
    fewest = _fewest_racks(index, run)
    if not held:
        if index.fixed[run] or fewest is None:
            return about.waiting_cost
        return min(about.waiting_cost, about.span_cost * (fewest - 1))
    by_rack: dict[int, int] = defaultdict(int)
    for pool, units in held.items():
        by_rack[index.rack_of[pool]] += units
    unfit = about.unfit_cost * sum(held[pool] for pool in index.unfit[run])
    best = about.span_cost * (len(by_rack) - 1) + unfit  # where it is
    if index.fixed[run] or fewest is None:
        return best
    kept, largest = 0, sorted(by_rack.values(), reverse=True)
    for racks in range(1, max(len(by_rack), fewest) + 1):
        kept += largest[racks - 1] if racks <= len(largest) else 0
        if racks >= fewest:
            gone = max(1, about.units - kept)
            best = min(best, about.span_cost * (racks - 1) + about.move_cost * gone + about.restart_cost)
    return best


def _fewest_racks(index: Index, run: int) -> int | None:
    """Return how few racks can hold the run, were it alone; None where all of them cannot."""
    pools = {pool for number in index.choices[run] for inside in index.rack_pools[number] for pool in inside}
    room: dict[int, int] = defaultdict(int)
    for pool in pools | set(index.held[run]):
        room[index.rack_of[pool]] += index.capacity[pool]
    left = index.problem.runs[run].units
    for count, units in enumerate(sorted(room.values(), reverse=True), 1):
        left -= units
        if left <= 0:
            return count
    return None


def _opening(index: Index) -> int:
    """Return what opening pools costs at least: what fixed runs open, and of the rest each unit its share."""
    opened = {pool for run, held in enumerate(index.held) if index.fixed[run] for pool in held}
    least = sum(index.open_cost[pool] for pool in opened)
    for run, held in enumerate(index.held):
        if index.fixed[run] or not held:
            continue
        pools = {p for number in index.choices[run] for inside in index.rack_pools[number] for p in inside} | set(held)
        units = index.problem.runs[run].units
        least += min(0 if p in opened else index.open_cost[p] * units // index.capacity[p] for p in pools)
    return least
