"""Several on one GPU: sessions on slices, and small trials side by side.

- Slices: an A100 of 80 GB has eight parts of memory and seven of computation; its profiles are 1g.10gb, 1g.20gb,
  3g.40gb and 7g.80gb (NVIDIA, MIG user guide; 2g and 4g add no memory). A session gets the smallest whose memory holds
  what it needs. It holds more than that: frameworks keep what they freed, and some take most of the memory at once.
  Half to all of what is held is needed (ours). A run of several GPUs keeps them: its ranks would have to exchange
  gradients across slices.
- Side by side: two at a time, the longest of those that are there at about the same time with the next longest. Each is
  slower by a drawn factor between 1.08 and 1.54: two services on one A100 under MPS lost 7.5% each (Pebble's
  measurements on GKE), and a pair that gains 30% over one after the other, the best that Villarrubia et al. (2026)
  report of kernels that fill a GPU, takes 1.54 times as long each. When one ends the other has the GPUs alone.

A pair may outlast the time that the plan left on its GPUs, and a GPU shows one of its holders: such a change tells for
how long GPUs are held, not what a ledger would see on them.
"""

from dataclasses import replace

import numpy as np

from agent.wire.units import GIB
from bench.savings.changes.pace import ending
from simulator.activity import Activity
from simulator.plan import Run, Seat
from simulator.timeline import Timeline

NEEDED = (0.5, 1.0)  # of the memory that a session holds
SLICES = ((10, 1, 1), (20, 1, 2), (40, 3, 4), (80, 7, 8))  # GiB, parts of computation, parts of memory
PARTS, MEMORY_PARTS = 7, 8
SLOWER = (1.08, 1.54)


def slice_gpus(runs: tuple[Run, ...], rng: np.random.Generator) -> tuple[Run, ...]:
    """Return the runs of one GPU each on slices of as few of their own GPUs as hold them."""
    needed = rng.uniform(*NEEDED, size=len(runs))
    alone = [at for at, run in enumerate(runs) if len(run.plan.seats) == 1]
    sizes = {at: _slice(_held(runs[at]) * needed[at]) for at in alone}
    gpus: list[tuple[Seat, int, int]] = []
    places: dict[int, Seat] = {}
    for at in sorted(alone, key=lambda at: (-sizes[at][1], at)):
        places[at] = _fitted(gpus, sizes[at], runs[at].plan.seats[0])
    return tuple(
        replace(run, plan=replace(run.plan, seats=(places[at],))) if at in places else run
        for at, run in enumerate(runs)
    )


def _held(run: Run) -> float:
    return max(phase.memory for phase in run.timelines[0].activities) / GIB


def _slice(gibibytes: float) -> tuple[int, int]:
    return next((parts, memory) for size, parts, memory in SLICES if gibibytes <= size)


def _fitted(gpus: list[tuple[Seat, int, int]], size: tuple[int, int], own: Seat) -> Seat:
    """Return the first GPU with room, which is then smaller by the slice; its own where none has room."""
    parts, memory = size
    for at, (seat, free, free_memory) in enumerate(gpus):
        if parts <= free and memory <= free_memory:
            gpus[at] = (seat, free - parts, free_memory - memory)
            return seat
    gpus.append((own, PARTS - parts, MEMORY_PARTS - memory))
    return own


def pack(runs: tuple[Run, ...], rng: np.random.Generator) -> tuple[Run, ...]:
    """Return the runs two by two on the GPUs of the one that began first; one may be left over."""
    factors = rng.uniform(*SLOWER, size=len(runs))
    waiting = sorted(runs, key=lambda run: run.plan.started)
    made: list[Run] = []
    while len(waiting) > 1:
        first, second, *waiting = waiting
        made += _pair(first, second, float(factors[len(made) // 2]))
    return tuple(made + waiting)


def _pair(first: Run, second: Run, slower: float) -> tuple[Run, Run]:
    if len(first.plan.seats) != len(second.plan.seats):
        return first, second
    lengths = [run.timelines[0].end - max(0, run.timelines[0].start) for run in (first, second)]
    both = round(slower * min(lengths))
    alone = max(lengths) - min(lengths)
    start = max(0, first.timelines[0].start)
    long, short = (first, second) if lengths[0] >= lengths[1] else (second, first)
    seats = first.plan.seats
    shown = _side_by_side(long.timelines[0], start, both, alone, slower)
    return (
        _seated(long, seats, shown, start + both + alone),
        _seated(short, seats, shown.between(start, start + both), start + both),
    )


def _side_by_side(timeline: Timeline, start: int, both: int, alone: int, slower: float) -> Timeline:
    """Return what the GPUs show: two at once, then the rest of the longer one."""
    lengths = np.diff(timeline.edges).astype(np.float64)
    done = np.concatenate([[0.0], np.cumsum(lengths)]) - max(0, -timeline.start)
    shared = both / slower
    moved = start + np.where(done < shared, done * slower, both + done - shared)
    edges = np.rint(moved).astype(np.int64)
    kept = np.diff(edges) > 0
    whole = Timeline(np.concatenate([edges[:1], edges[1:][kept]]), timeline.index[kept], timeline.repertoire)
    return whole.between(start, start + both + alone).changed(start, start + both, _doubled)


def _doubled(phase: Activity) -> Activity:
    """Return what two of these show on one GPU. Of a GPU that is shared, each run is told an equal part."""
    more = {name: getattr(phase, name) * 2 for name in ("memory", "cores", "workers", "host_memory", "nvme_read")}
    chip = {name: min(0.95, getattr(phase, name) * 1.7) for name in ("sm", "occupancy", "tensor", "dram")}
    return phase.but(**more, **chip, power=min(0.9, phase.power * 1.45))


def _seated(run: Run, seats: tuple[Seat, ...], shown: Timeline, end: int) -> Run:
    plan = replace(ending(run.plan, end), seats=seats, started=shown.start, shared=2)
    return Run(plan, (shown,), (0,) * len(seats))
