"""A sweep of small trials on A100s: each trial has its own weakness, and some have none.

Imitates a hyper-parameter search of detectors, one trial on two GPUs. Published numbers: of 706 issues in 400
Microsoft jobs with low use, 46 % lie in data operations and 45 % in model code (ICSE'24); most input-limited jobs
saturate no hardware (Plumber, MLSys'22): their loader is the limit by its parallelism, prefetch or caching; about 40 %
of jobs fail (Acme, NSDI'24); a ResNet-50 with no loader workers kept its V100 busy 54.9 % of the time and waited
39.6 %, with four 69.9 % and 1.0 % (PyTorch Kineto's sample traces). Small batches keep NVML near 100 % at low power.
"""

from collections.abc import Callable

import numpy as np

from agent.wire.units import HOUR_MS
from simulator import labels
from simulator.activity import Activity, blend
from simulator.archetypes.phases import CONTEXT_ONLY, DENSE, STALLED, gib, save, spread, start_up
from simulator.plan import Plan, Run, alike

_BUSY_WITHOUT_WORKERS = 0.549  # Kineto sample, num_workers = 0
_LOADER = Activity(workers=2, busiest_worker=0.45, cores=1.6, host_memory=gib(10))


def _fed(activity: Activity) -> Activity:
    return activity.but(
        workers=_LOADER.workers,
        busiest_worker=_LOADER.busiest_worker,
        cores=_LOADER.cores,
        host_memory=_LOADER.host_memory,
    ).reading_nvme(2.5e7, 0.004)


def _small_kernels(plan: Plan, horizon: int, rng: np.random.Generator) -> Run:
    """Return a trial whose kernels fill a quarter of the chip: busy in NVML's sense, at a third of the power."""
    busy = DENSE.but(utilization=0.96, zero=0.01, low=0.02, high=0.95, sm=0.24, occupancy=0.08, tensor=0.05, dram=0.12)
    busy = _fed(busy.but(power=0.34, memory=gib(9), pcie_in=2e7)).being(labels.SMALL_KERNELS)
    return _epochs(plan, horizon, rng, busy, epoch_seconds=1_500)


def _loader_software(plan: Plan, horizon: int, rng: np.random.Generator) -> Run:
    """Return a trial that alternates within a second between a batch and the wait for the next, as Kineto's sample."""
    dense = DENSE.but(sm=0.82, tensor=0.3, power=0.78, memory=gib(24), pcie_in=6e7)
    waiting = STALLED.but(memory=gib(24)).being(labels.LOADER_SOFTWARE)
    busy = blend((dense, _BUSY_WITHOUT_WORKERS), (waiting, 1 - _BUSY_WITHOUT_WORKERS))
    return _epochs(plan, horizon, rng, _fed(busy), epoch_seconds=700, between=_fed(waiting))


def _healthy(plan: Plan, horizon: int, rng: np.random.Generator) -> Run:
    """Return a trial in order."""
    dense = DENSE.but(sm=0.86, tensor=0.34, power=0.86, memory=gib(41), pcie_in=1.6e8)
    return _epochs(plan, horizon, rng, _fed(dense), epoch_seconds=2_400)


def _second_gpu_unused(plan: Plan, horizon: int, rng: np.random.Generator) -> Run:
    """Return a trial that asked for two GPUs and uses one."""
    used = _healthy(plan, horizon, rng)
    idle = plan.tape(horizon).play(Activity().being(labels.NEVER_USED), 14 * 86_400)
    return Run(plan, (used.timelines[0], idle.timeline(plan.lost_by)), (0, 1)[: len(plan.seats)])


def out_of_memory(plan: Plan, horizon: int, rng: np.random.Generator) -> Run:
    """Return a trial whose memory grows until it fails, before its first checkpoint."""
    tape = plan.tape(horizon)
    start_up(tape, rng, memory=gib(30), weights=1e9, again=False)
    while tape.running:
        grown = 40 + 39 * (tape.now - plan.started) / (tape.end - plan.started)
        tape.play(_fed(DENSE.but(sm=0.84, tensor=0.33, power=0.84, memory=gib(grown), pcie_in=1.5e8)), 300)
    return alike(plan, tape)


def _epochs(
    plan: Plan,
    horizon: int,
    rng: np.random.Generator,
    busy: Activity,
    *,
    epoch_seconds: float,
    between: Activity | None = None,
) -> Run:
    """Return epochs of `busy`; a new epoch starts the workers anew, which takes `between`."""
    tape = plan.tape(horizon)
    start_up(tape, rng, memory=busy.memory, weights=1e9, again=plan.attempt > 0)
    saved = tape.now
    while tape.running:
        tape.play(busy, spread(rng, epoch_seconds))
        if between is not None:
            tape.play(between, spread(rng, 75))
        if tape.now - saved >= 3 * HOUR_MS:
            save(tape, busy, 8e8, 20, remote=False)
            saved = tape.now
    return alike(plan, tape)


def held_by_context(plan: Plan, horizon: int, rng: np.random.Generator) -> Run:
    """Return a trial that ended inside but kept its process: memory held, nothing done."""
    tape = plan.tape(horizon)
    start_up(tape, rng, memory=gib(20), weights=1e9, again=False)
    tape.play(_fed(DENSE.but(sm=0.8, tensor=0.3, power=0.8, memory=gib(24))), spread(rng, 4 * 3_600))
    tape.play(CONTEXT_ONLY.but(memory=gib(24), host_memory=gib(10)).being(labels.ABANDONED), 14 * 86_400)
    return alike(plan, tape)


# What the trials of the sweep are, in turn: a share each of the kinds above.
KINDS: tuple[Callable[[Plan, int, np.random.Generator], Run], ...] = (
    _small_kernels,
    _loader_software,
    _healthy,
    out_of_memory,
    _small_kernels,
    _healthy,
    _second_gpu_unused,
    _loader_software,
)
