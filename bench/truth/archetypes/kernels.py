"""Runs whose GPUs are busy in NVML's sense and yet do little, and runs below their clock."""

from dataclasses import replace

from bench.truth.archetypes import loaders
from bench.truth.archetypes.phases import compute
from bench.truth.archetypes.training import FED, a_step, train, wait
from bench.truth.draw import Draw
from bench.truth.kinds import Kind
from bench.truth.tape import Part


def _thin(draw: Draw, cause: str) -> Kind:
    kind = compute(draw).but(sm=draw.uniform(0.08, 0.38), occupancy=draw.uniform(0.03, 0.12))
    kind = kind.but(tensor=draw.uniform(0.0, 0.08), dram=draw.uniform(0.03, 0.18), power=draw.uniform(0.2, 0.4))
    return kind.but(pcie_in=draw.log_uniform(1e6, 5e7), **loaders.nothing(draw)).being("underused", cause)


def launch_bound(draw: Draw) -> None:
    """One Python thread that cannot launch kernels as fast as they end: short gaps everywhere, and no long ones."""
    draw.workers = int(draw.rng.integers(0, 5))
    thin = _thin(draw, "launch_bound").but(cores=draw.uniform(1.0, 1.15) * draw.ranks_per_node)
    thin = thin.but(utilization=draw.uniform(0.8, 0.99))
    train(draw, thin, [Part(thin, 1.0, 0.1)])


def small_kernels(draw: Draw) -> None:
    """Kernels of few blocks, one after the other without a gap (CUDA graphs): the host rests."""
    draw.workers = int(draw.rng.integers(0, 5))
    thin = _thin(draw, "small_kernels").but(cores=draw.uniform(0.2, 0.6) * draw.ranks_per_node)
    train(draw, thin, [Part(thin, 1.0, 0.1)])


def throttled_power(draw: Draw) -> None:
    """A board whose power is capped below what it is built for, and whose clock is lower for it."""
    draw.machine = replace(draw.machine, limit_watts=round(draw.uniform(0.5, 0.8) * draw.machine.limit_watts))
    work = compute(draw).but(**loaders.fed(draw)).but(power=draw.uniform(0.96, 1.0))
    work = work.slowed(draw.uniform(0.7, 0.93), "power")
    train(draw, work, a_step(draw, work, wait(draw, work, "loader_software", draw.uniform(*FED))))


def throttled_heat(draw: Draw) -> None:
    """Boards below their clock for heat, all of the run's alike."""
    work = compute(draw).but(**loaders.fed(draw)).but(power=draw.uniform(0.5, 0.8))
    work = work.slowed(draw.uniform(0.55, 0.92), "thermal")
    train(draw, work, a_step(draw, work, wait(draw, work, "loader_software", draw.uniform(*FED))))


def at_the_power_limit(draw: Draw) -> None:
    """A healthy run on its power cap: the reason's bit is nearly always set, and the clock hardly lower."""
    work = compute(draw).but(**loaders.fed(draw)).but(power=draw.uniform(0.97, 1.0))
    work = work.slowed(draw.uniform(0.985, 0.999), "power")
    train(draw, work, a_step(draw, work, wait(draw, work, "loader_software", draw.uniform(*FED))))
