"""Runs that look suspicious and are in order, and one that is slow by its own launches.

False positives named in the literature: data that comes from the page cache (no reads, fully fed); a host whose disk
another run keeps busy; optimizers offloaded to the host (PCIe busy both ways, DeepSpeed's ZeRO-Offload). And the
launch-bound case: NVML 80-100 %, SM activity 0.1-0.4 without any bimodality, exactly one host thread at 100 %, little
on PCIe, power 0.2-0.4 (host wait in HTA's sense).
"""

import numpy as np

from agent.wire.units import HOUR_MS
from simulator import labels
from simulator.activity import Activity
from simulator.archetypes.phases import DENSE, gib, pause, save, spread, start_up
from simulator.plan import Plan, Run, alike


def page_cache_fed(plan: Plan, horizon: int, rng: np.random.Generator) -> Run:
    """Return a run whose data set fits into memory: after the start it reads nothing and lacks nothing."""
    dense = DENSE.but(tensor=0.42, memory=gib(57), workers=6, busiest_worker=0.66, cores=5.0, pcie_in=4e8)
    return _steady(plan, horizon, rng, dense.but(host_memory=gib(190)), memory=gib(57))


def beside_a_busy_disk(plan: Plan, horizon: int, rng: np.random.Generator) -> Run:
    """Return a run that streams little from the network mount while another run fills the local drives."""
    dense = DENSE.but(tensor=0.37, memory=gib(46), workers=3, busiest_worker=0.5, cores=2.8, host_memory=gib(20))
    return _steady(plan, horizon, rng, dense.but(pcie_in=6e7).reading_nfs(3e7), memory=gib(46))


def offloaded(plan: Plan, horizon: int, rng: np.random.Generator) -> Run:
    """Return a run whose optimizer lives on the host: both directions of PCIe busy, the chip busy as well."""
    dense = DENSE.but(sm=0.84, tensor=0.33, power=0.82, memory=gib(70), cores=7.0, host_memory=gib(150))
    return _steady(plan, horizon, rng, dense.but(pcie_in=9e9, pcie_out=9e9, workers=2), memory=gib(70))


def launch_bound(plan: Plan, horizon: int, rng: np.random.Generator) -> Run:
    """Return a run of very many very short kernels behind one Python thread."""
    thin = DENSE.but(utilization=0.91, zero=0.01, low=0.02, high=0.9, sm=0.21, occupancy=0.06, tensor=0.03, dram=0.1)
    thin = thin.but(power=0.31, memory=gib(11), cores=1.02, pcie_in=8e6, host_memory=gib(9), workers=2)
    return _steady(plan, horizon, rng, thin.but(busiest_worker=0.08).being(labels.LAUNCH_BOUND), memory=gib(11))


def distilling(plan: Plan, horizon: int, rng: np.random.Generator) -> Run:
    """Return a run that waits for a teacher on a far-away service: low at times, and nothing on this host says why."""
    dense = DENSE.but(tensor=0.38, memory=gib(52), workers=2, busiest_worker=0.25, cores=1.8, host_memory=gib(16))
    tape = plan.tape(horizon)
    start_up(tape, rng, memory=gib(52), weights=8e9, again=False)
    while tape.running:
        tape.play(dense, spread(rng, 420, 0.4))
        pause(tape, dense, spread(rng, 260, 0.5))
    return alike(plan, tape)


def _steady(plan: Plan, horizon: int, rng: np.random.Generator, phase: Activity, memory: float) -> Run:
    tape = plan.tape(horizon)
    start_up(tape, rng, memory=memory, weights=4e9, again=plan.attempt > 0)
    while tape.running:
        tape.play(phase, spread(rng, 2 * HOUR_MS / 1_000, 0.1))
        save(tape, phase, 1.5e9, 35, remote=False)
    return alike(plan, tape)
