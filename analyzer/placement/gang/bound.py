"""What no plan can cost less than: by HiGHS where it is installed, else each run for itself."""

import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from importlib.util import find_spec
from math import ceil, gcd
from typing import IO

from analyzer.placement.gang.index import Index, Place
from analyzer.placement.gang.programme import Programme

GRACE_SECONDS = 2.0  # HiGHS looks at its clock between steps; after that it is killed
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
    is_optimal: bool
    values: tuple[float, ...] | None


class Solving:
    """One programme in a child process, from the moment it is made."""

    def __init__(self, programme: Programme, seconds: float, has_start: bool) -> None:
        self._constant = programme.constant
        self._step = gcd(*programme.cost, programme.constant) or 1
        largest = max((abs(cost) for cost in programme.cost), default=1) or 1
        self._scale = largest / SCALE
        self._seconds = seconds
        rows = [[list(row), list(row.values()), low, high] for row, low, high in programme.rows]
        asked = {
            "cost": [cost / self._scale for cost in programme.cost],
            "upper": programme.upper,
            "start": programme.start if has_start else None,
            "rows": rows,
            "seconds": seconds,
        }
        # Files, not pipes: neither side then waits for the other to read.
        self._question: IO[str] = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed with the answer)
        self._answer: IO[str] = tempfile.TemporaryFile("w+")  # noqa: SIM115
        json.dump(asked, self._question)
        self._question.seek(0)
        self._child = subprocess.Popen(
            [sys.executable, "-m", "analyzer.placement.gang.highs"],
            stdin=self._question,
            stdout=self._answer,
            stderr=subprocess.DEVNULL,
        )

    def result(self) -> Solved:
        """Wait for the answer, until its time is over; what dies or is killed has found nothing."""
        try:
            self._child.wait(self._seconds + GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self.stop()
        self._answer.seek(0)
        told = self._answer.read()
        self._answer.close()
        self._question.close()
        if not told.endswith("\n"):
            return Solved(None, False, None)
        found = json.loads(told)
        values = found["values"]
        return Solved(
            self._integer(found["bound"]), bool(found["is_optimal"]), None if values is None else tuple(values)
        )

    def stop(self) -> None:
        """End the child, if it is still there."""
        if self._child.poll() is None:
            self._child.kill()
            self._child.wait()

    def _integer(self, bound: float | None) -> int | None:
        """Return the least cost that a plan can have, given the bound: all costs are multiples of one step."""
        if bound is None:
            return None
        real = bound * self._scale + self._constant
        lowered = real - TOLERANCE * max(abs(real), self._step)
        return max(0, self._step * ceil(lowered / self._step))


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
