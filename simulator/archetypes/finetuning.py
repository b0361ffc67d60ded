"""Supervised fine-tuning whose loader workers are the limit, and the same under a CPU quota.

Imitates language-model fine-tuning with on-the-fly tokenisation and packing. Published numbers: 3-24 cores a GPU are
needed for preprocessing, which takes up to 65 % of epoch time (DS-Analyzer, VLDB'21, as cited by tf.data, VLDB'21);
20 % of Google's jobs spend over a third of their compute time in the input pipeline (tf.data). The signature: every
worker fills a core (or the cgroup's quota throttles it), reads stay below the ceiling, all ranks dip together and
the links are quiet meanwhile.
"""

import numpy as np

from agent.wire.units import HOUR_MS
from simulator import labels
from simulator.activity import Activity, blend
from simulator.archetypes.phases import DENSE, SPINNING, STALLED, gib, pause, save, spread, start_up
from simulator.plan import Plan, Run, alike

_LOADER_SIGNALS = (
    "workers",
    "busiest_worker",
    "waiting_workers",
    "cores",
    "refused_cores",
    "cpu_pressure",
    "io_pressure",
    "nvme_read",
    "nvme_busy",
    "nvme_waited",
    "host_memory",
)
_TOKENS_PER_SECOND = 1_770.0  # a GPU, while it works


def preprocessing_bound(plan: Plan, horizon: int, rng: np.random.Generator) -> Run:
    """Return a run that waits 41 % of its time for four loader workers a rank, each on a full core."""
    loader = Activity(workers=4, busiest_worker=0.985, cores=5.0, cpu_pressure=0.03, host_memory=gib(36))
    return _play(plan, horizon, rng, loader.reading_nvme(1.1e8, 0.012), busy=105.0, starved=79.0)


def quota_bound(plan: Plan, horizon: int, rng: np.random.Generator) -> Run:
    """Return a run whose workers are throttled by the quota of their cgroup."""
    loader = Activity(workers=6, busiest_worker=0.62, cores=4.0, refused_cores=2.1, cpu_pressure=0.55)
    return _play(plan, horizon, rng, loader.but(host_memory=gib(18)).reading_nvme(4e7, 0.006), busy=70.0, starved=42.0)


def _play(plan: Plan, horizon: int, rng: np.random.Generator, loader: Activity, *, busy: float, starved: float) -> Run:
    tape = plan.tape(horizon)
    working, waiting = _working(loader), _waiting(loader)
    start_up(tape, rng, memory=gib(71), weights=1.6e10, image_seconds=90, again=plan.attempt > 0)
    saved = paused = tape.now
    while tape.running:
        tape.play(working, spread(rng, busy)).play(waiting, spread(rng, starved, 0.3))
        if tape.now - saved >= 2 * HOUR_MS:
            save(tape, working, 7e9, 150, remote=False)
            saved = tape.now
        if tape.now - paused >= 2.5 * HOUR_MS:
            pause(tape, working, spread(rng, 110))
            paused = tape.now
    return alike(plan, tape)


def _host(activity: Activity, loader: Activity) -> Activity:
    """Return a GPU's phase with the loader's side of it."""
    return activity.but(**{name: getattr(loader, name) for name in _LOADER_SIGNALS})


def _working(loader: Activity) -> Activity:
    dense = DENSE.but(tensor=0.41, dram=0.52, power=0.88, memory=gib(71), pcie_in=3.9e8, nvlink=2.2e10)
    dense = dense.but(steps=0.021, tokens=_TOKENS_PER_SECOND)
    summing = SPINNING.but(memory=gib(71), fabric=1e9, nvlink=7e10, tokens=_TOKENS_PER_SECOND, steps=0.021)
    return _host(blend((dense, 0.89), (summing, 0.11)), loader)


def _waiting(loader: Activity) -> Activity:
    return _host(STALLED.but(memory=gib(71)).being(labels.PREPROCESSING), loader)
