"""Runs of several ranks that wait for one another.

Published: stragglers slow 42.5% of jobs by 10% and more (OSDI'25); the slow rank of a synchronous run is the busier
one, while healthy peers wait in the collective (HTA); a pipeline of p stages and m microbatches stands still for
(p - 1) / (m + p - 1) of its time (GPipe); communication took 25 to 60% of a step in Crux's and TopoOpt's traces.
"""

from dataclasses import replace

from bench.truth.archetypes import loaders
from bench.truth.archetypes.phases import blocked, compute, exchange, optimizer, start
from bench.truth.archetypes.training import FED, a_step, train, wait
from bench.truth.draw import Draw
from bench.truth.kinds import Kind
from bench.truth.tape import Part

LATE = (0.12, 0.45)


def _over_hosts(draw: Draw) -> bool:
    """Spread the ranks over two hosts of one rack, in a part of the runs."""
    if draw.chance(0.4):
        draw.nodes = 2
    return draw.nodes == 2


def communication(draw: Draw) -> None:
    """Exposed collectives take a quarter to 60% of each step, within one host or between two of one rack."""
    spread = _over_hosts(draw)
    work = compute(draw).but(**loaders.fed(draw))
    parts = a_step(draw, work, wait(draw, work, "loader_software", draw.uniform(*FED)), exchanged=(0.25, 0.6))
    if spread:
        carried = draw.uniform(0.4, 0.9) * draw.ranks_per_node * 5e10  # a port of 400 Gbit/s a GPU
        last = parts[-1]
        assert isinstance(last.seen, Kind)
        parts[-1] = replace(last, seen=last.seen.but(fabric=carried))
    train(draw, work, parts)


def _straggled(draw: Draw, slow_work: Kind, tail: Kind, work: Kind, late: float) -> None:
    """Play steps whose last part one rank spends at work (or asleep) and the others in the collective.

    `late` is that part as a share of what the slow rank does.
    """
    odd = int(draw.rng.integers(draw.cell.ranks))
    draw.group_of_rank = [int(rank == odd) for rank in range(draw.cell.ranks)]
    meeting = exchange(draw, work)
    waiting = meeting.but(nvlink=1e8, fabric=0.0).being("communicating", "straggler")
    share = draw.uniform(0.02, 0.08)
    parts = [
        Part((work, slow_work), 0.95 * (1 - share) * (1 - late), 0.03),
        Part((waiting, tail), 0.95 * (1 - share) * late, 0.1, 0.2),
        Part((optimizer(draw, work),) * 2, 0.05 * (1 - share), 0.03),
        Part((meeting, meeting), share, 0.1),
    ]
    start(draw, work)
    draw.tape.steps(parts, draw.step, draw.tape.left)


def straggler_heat(draw: Draw) -> None:
    """One rank is hot and below its clock: it is the busy one, and its peers wait."""
    work = compute(draw).but(**loaders.fed(draw))
    clock = draw.uniform(0.6, 0.88)
    slow = work.but(power=draw.uniform(0.45, 0.7)).slowed(clock, "thermal")
    _straggled(draw, slow, slow, work, 1 - clock)


def straggler_skew(draw: Draw) -> None:
    """One rank has longer sequences: busier than its peers, and at its full clock."""
    work = compute(draw).but(**loaders.fed(draw))
    _straggled(draw, work, work, work, draw.uniform(*LATE))


def straggler_sleep(draw: Draw) -> None:
    """One rank sleeps in each step, for nothing that its host shows: it is the idler one."""
    work = compute(draw).but(**loaders.fed(draw))
    _straggled(draw, work, blocked(draw, work).being("unexplained", None), work, draw.uniform(*LATE))


def hang(draw: Draw) -> None:
    """Training that stops: every rank spins in a collective that never ends, and the links are still."""
    work = compute(draw).but(**loaders.fed(draw))
    start(draw, work)
    draw.tape.steps(a_step(draw, work), draw.step, draw.uniform(1200, 3600))
    spinning = exchange(draw, work).but(nvlink=0.0, pcie_in=0.0, pcie_out=0.0, dram=0.01)
    resting = loaders.nothing(draw, cores=1.0) | {"io_pressure": 0.0, "cpu_pressure": 0.0, "waiting_workers": 0.0}
    still = dict.fromkeys(("disk_read", "disk_busy", "disk_waited", "mount_read", "mount_waited", "ethernet_in"), 0.0)
    draw.tape.play(spinning.but(**still).but(**resting).being("communicating", "hang"), draw.tape.left)
    draw.exit_status = "cancelled"


def pipeline(draw: Draw) -> None:
    """Stages of a pipeline that wait for each other's activations: 10 to 35% of the step, and no one's input."""
    work = compute(draw).but(**loaders.fed(draw)).but(nvlink=draw.uniform(0.02, 0.1) * draw.machine.nvlink_bytes)
    bubble = exchange(draw, work).but(nvlink=draw.uniform(0.002, 0.02) * draw.machine.nvlink_bytes)
    bubble = bubble.but(sm=draw.uniform(0.01, 0.06))
    stages, batches = draw.cell.ranks, int(draw.rng.integers(14, 60))
    share = (stages - 1) / (batches + stages - 1)
    parts = [Part(bubble, share / 2, 0.1), Part(work, 0.93 * (1 - share), 0.04), Part(bubble, share / 2, 0.1)]
    train(draw, work, [*parts, Part(optimizer(draw, work), 0.07 * (1 - share), 0.05)])


def reinforcement(draw: Draw) -> None:
    """Rollouts and updates in turn: decoding at one level, training at another, weights moved in between."""
    work = compute(draw).but(**loaders.nothing(draw, cores=1.5))
    draw.workers = int(draw.rng.integers(1, 5))
    rollout = work.but(sm=draw.uniform(0.3, 0.6), tensor=draw.uniform(0.03, 0.12), dram=draw.uniform(0.5, 0.8))
    rollout = rollout.but(power=draw.uniform(0.45, 0.65)).being("productive", "decode")
    tail = rollout.but(sm=draw.uniform(0.12, 0.3), dram=draw.uniform(0.25, 0.45), power=draw.uniform(0.35, 0.5))
    share = draw.uniform(0.4, 0.75)
    parts = [Part(rollout, 0.8 * share, 0.1), Part(tail, 0.2 * share, 0.3), Part(work, 0.95 * (1 - share), 0.05)]
    if draw.cell.ranks > 1:
        parts.append(Part(exchange(draw, work), 0.05 * (1 - share), 0.1))
    # An iteration of reinforcement learning is some ten steps of another run.
    start(draw, work)
    draw.tape.steps(parts, draw.step * 10, draw.tape.left)
