"""Phases one after another, and what of them falls into an interval. Times are milliseconds since the site's start."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol, Self, TypeAlias

import numpy as np

from agent.wire.units import GIB
from simulator import labels
from simulator.activity import Activity, FloatArray, IntArray, Repertoire, blend, thrown_away

_Change: TypeAlias = Callable[[Activity], Activity]


@dataclass(frozen=True, slots=True)
class Timeline:
    """Phases that abut: phase i lasts from edges[i] to edges[i + 1] and is activities[index[i]]."""

    edges: IntArray
    index: IntArray
    repertoire: Repertoire

    @property
    def activities(self) -> tuple[Activity, ...]:
        """The different phases."""
        return self.repertoire.activities

    @property
    def start(self) -> int:
        """When the first phase begins."""
        return int(self.edges[0])

    @property
    def end(self) -> int:
        """When the last phase ends."""
        return int(self.edges[-1])

    def between(self, start: int, end: int) -> "Timeline":
        """Return the part from start to end, which must lie within."""
        first = int(np.searchsorted(self.edges, start, "right")) - 1
        last = int(np.searchsorted(self.edges, end, "left"))
        edges = self.edges[first : last + 1].copy()
        edges[0], edges[-1] = start, end
        return Timeline(edges, self.index[first:last], self.repertoire)

    def changed(self, start: int, end: int, change: _Change) -> "Timeline":
        """Return the same with every phase between start and end changed; phases are cut where they straddle."""
        start, end = max(start, self.start), min(end, self.end)
        if start >= end:
            return self
        middle = self.between(start, end)
        used, renamed = np.unique(middle.index, return_inverse=True)  # a phase is dear to make, and most lie elsewhere
        middle = Timeline(middle.edges, renamed, Repertoire(change(self.activities[at]) for at in used))
        before = [self.between(self.start, start)] if self.start < start else []
        after = [self.between(end, self.end)] if end < self.end else []
        return joined([*before, middle, *after])

    def with_memory(self, share: float) -> "Timeline":
        """Return the same on a GPU that holds this share of the memory."""
        held = (activity.but(memory=activity.memory * share) for activity in self.activities)
        return Timeline(self.edges, self.index, Repertoire(held))

    def cumulated(self, names: tuple[str, ...], grid: IntArray) -> FloatArray:
        """Return the integral over time (seconds) of these signals up to each grid time.

        Grid times outside the timeline are taken as its ends, so that nothing accrues there.
        """
        return self.integrated(self.repertoire.values(names), grid)

    def integrated(self, values: FloatArray, grid: IntArray) -> FloatArray:
        """Return the integral over time (seconds) of each column of `values` (a row an activity) up to each grid time.

        Grid times outside the timeline are taken as its ends, so that nothing accrues there.
        """
        grid = np.clip(grid, self.start, self.end)
        first, last = self._touched(grid)
        rates = values[self.index[first:last]]
        edges = self.edges[first : last + 1]
        sums = np.zeros((last - first + 1, values.shape[1]))
        np.cumsum(rates * (np.diff(edges)[:, None] / 1_000), axis=0, out=sums[1:])
        phase = np.minimum(np.searchsorted(edges, grid, "right") - 1, last - first - 1)
        result: FloatArray = sums[phase] + rates[phase] * ((grid - edges[phase])[:, None] / 1_000)
        return result

    def _touched(self, grid: IntArray) -> tuple[int, int]:
        """Return which phases a sorted grid touches, as a slice of at least one."""
        first = max(0, int(np.searchsorted(self.edges, grid[0], "right")) - 1)
        last = max(first + 1, int(np.searchsorted(self.edges, grid[-1], "left")))
        return min(first, len(self.index) - 1), min(last, len(self.index))


def lasting(activity: Activity, start: int, end: int) -> Timeline:
    """Return one phase."""
    return Timeline(np.array([start, end], dtype=np.int64), np.zeros(1, dtype=np.int64), Repertoire([activity]))


def joined(parts: Iterable[Timeline]) -> Timeline:
    """Return abutting timelines as one."""
    parts = list(parts)
    activities: list[Activity] = []
    known: dict[int, int] = {}  # by identity: equal phases of other runs stay apart, which is harmless
    index = []
    for part in parts:
        renamed = np.array([_number(activity, activities, known) for activity in part.activities], dtype=np.int64)
        index.append(renamed[part.index])
    edges = [part.edges[:-1] for part in parts] + [parts[-1].edges[-1:]]
    return Timeline(np.concatenate(edges), np.concatenate(index), Repertoire(activities))


def _number(activity: Activity, activities: list[Activity], known: dict[int, int]) -> int:
    if id(activity) not in known:
        known[id(activity)] = len(activities)
        activities.append(activity)
    return known[id(activity)]


class Player(Protocol):
    """Anything that phases can be played to."""

    def play(self, activity: Activity, seconds: float) -> Self:
        """Append a phase."""
        ...


class Tape:
    """Records the phases of one rank until its end. What is played beyond the end is cut off."""

    def __init__(self, start: int, end: int) -> None:
        self.start = self.now = self.saved_at = start
        self.end = end
        self._edges = [start]
        self._index: list[int] = []
        self._activities: list[Activity] = []
        self._known: dict[int, int] = {}

    @property
    def running(self) -> bool:
        """Whether there is time left."""
        return self.now < self.end

    def play(self, activity: Activity, seconds: float) -> Self:
        """Append a phase. A checkpoint that is complete before the end moves the point from which work can be lost."""
        until = min(self.now + max(1, round(seconds * 1_000)), self.end)
        if until <= self.now:
            return self
        self._index.append(_number(activity, self._activities, self._known))
        self._edges.append(until)
        if activity.truth[0][0].state == "checkpointing" and until < self.end:
            self.saved_at = until
        self.now = until
        return self

    def timeline(self, lost_by: str | None = None) -> Timeline:
        """Return what was played; `lost_by` is the failure that threw away what came after the last checkpoint."""
        made = Timeline(
            np.array(self._edges, dtype=np.int64), np.array(self._index, dtype=np.int64), Repertoire(self._activities)
        )
        if lost_by is None:
            return made
        return made.changed(self.saved_at, self.end, lambda activity: thrown_away(activity, lost_by))


class Lockstep:
    """Ranks that start and end every step together: what is played, they all do."""

    def __init__(self, *tapes: Tape) -> None:
        self.tapes = tapes

    @property
    def now(self) -> int:
        """Where they are."""
        return self.tapes[0].now

    @property
    def running(self) -> bool:
        """Whether there is time left."""
        return self.tapes[0].running

    def play(self, activity: Activity, seconds: float) -> Self:
        """Append a phase to all."""
        for tape in self.tapes:
            tape.play(activity, seconds)
        return self


GIGABYTE = 1e9

DENSE = Activity(
    utilization=1.0,
    zero=0.0,
    low=0.0,
    high=1.0,
    sm=0.90,
    occupancy=0.32,
    tensor=0.45,
    dram=0.48,
    power=0.90,
    clock=1.0,
    cores=1.3,
    truth=((labels.COMPUTE, 1.0),),
)
SPINNING = Activity(
    utilization=1.0,
    zero=0.0,
    low=0.0,
    high=1.0,
    sm=0.18,
    occupancy=0.03,
    dram=0.03,
    power=0.35,
    clock=1.0,
    cores=1.1,
    truth=((labels.COLLECTIVE, 1.0),),
)
STALLED = Activity(power=0.20, clock=1.0, cores=0.2)
CONTEXT_ONLY = Activity(power=0.165, clock=1.0, cores=0.02)  # a process that sits: memory and a context, lower clocks


def gib(count: float) -> float:
    """Return bytes."""
    return count * GIB


def spread(rng: np.random.Generator, mean: float, sigma: float = 0.25) -> float:
    """Return a length around this mean, skewed as lengths are, and within a third and the triple of it."""
    return float(mean * np.clip(np.exp(rng.normal(-sigma * sigma / 2, sigma)), 1 / 3, 3.0))


def start_up(
    tape: Player, rng: np.random.Generator, *, memory: float, weights: float, image_seconds: float = 0.0, again: bool
) -> None:
    """Play a start: image, weights (bytes a GPU, read from the local drives), first compiled steps."""
    if image_seconds:
        pulling = Activity(cores=0.6, ethernet_in=6e7, nvme_written=1.5e8, nvme_busy=0.01)
        tape.play(pulling.being(labels.IMAGE_PULL), spread(rng, image_seconds))
    seconds = spread(rng, 90 + weights / 1.1e8)
    loading = Activity(
        memory=memory * 0.4, power=0.165, clock=1.0, cores=1.2, pcie_in=weights / seconds, io_pressure=0.25
    )
    loading = loading.reading_nvme(weights / seconds, weights / seconds / 5.8e9, 1.5)
    tape.play(loading.being(labels.RESTORE if again else labels.MODEL_LOAD), seconds)
    kernels = DENSE.but(memory=memory * 0.7, sm=0.3, tensor=0.1, dram=0.15, power=0.4)
    compiling = blend((kernels, 0.25), (STALLED.but(memory=memory * 0.7, cores=1.6), 0.75))
    tape.play(compiling.being(labels.WARM_UP), spread(rng, 110))


def save(tape: Player, like: Activity, size: float, seconds: float, *, remote: bool) -> None:
    """Play a checkpoint of `size` bytes a GPU: device to host in a burst, then host to storage."""
    burst = min(12.0, seconds / 3)
    waiting = STALLED.but(memory=like.memory, workers=like.workers, busiest_worker=0.05, host_memory=like.host_memory)
    waiting = waiting.being(labels.SAVING_REMOTELY if remote else labels.SAVING_LOCALLY)
    tape.play(waiting.but(pcie_out=size / burst, cores=1.1), burst)
    rate = size / (seconds - burst)
    if remote:
        writing = waiting.but(nfs_written=rate, io_pressure=0.4, cores=0.5)
    else:
        writing = waiting.but(nvme_written=rate, nvme_busy=min(0.12, rate / 3e9), io_pressure=0.3, cores=0.5)
    tape.play(writing, seconds - burst)


def pause(tape: Player, like: Activity, seconds: float) -> None:
    """Play a pause that leaves no trace on the host: a lock, a licence, a far-away service."""
    still = STALLED.but(memory=like.memory, workers=like.workers, host_memory=like.host_memory)
    tape.play(still.being(labels.UNEXPLAINED), seconds)
