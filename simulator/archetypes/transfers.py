"""Embeddings copied from pageable memory: the PCIe link busy while the chip waits.

Published numbers: a host-to-device limit shows as PCIe traffic of 1 GB/s and more with SM activity under 30 %
(KempnerPulse's I/O class), SM low while the link is busy and DRAM quiet; one host thread copies at full speed, since
pageable memory is staged through a pinned buffer, far below the 50 GB/s that a Gen5 link gives pinned memory.
"""

import numpy as np

from agent.wire.units import HOUR_MS
from simulator import labels
from simulator.activity import blend
from simulator.archetypes.phases import DENSE, STALLED, gib, save, spread, start_up
from simulator.plan import Plan, Run, alike

PAGEABLE_BYTES_PER_SECOND = 1.15e10


def host_to_device_bound(plan: Plan, horizon: int, rng: np.random.Generator) -> Run:
    """Return a run whose large tables make the copies longer than the kernels, and whose small ones do not."""
    tape = plan.tape(horizon)
    host = {"memory": gib(49), "workers": 2.0, "busiest_worker": 0.3, "host_memory": gib(120)}
    kernels = DENSE.but(sm=0.72, tensor=0.18, dram=0.55, power=0.74, cores=1.5, **host)
    copying = STALLED.but(pcie_in=PAGEABLE_BYTES_PER_SECOND, cores=1.9, dram=0.01, power=0.22, **host)
    copying = copying.being(labels.HOST_TO_DEVICE)
    large, small = blend((kernels, 0.25), (copying, 0.75)), blend((kernels, 0.9), (copying, 0.1))
    start_up(tape, rng, memory=gib(49), weights=3e10, again=False)
    saved = tape.now
    while tape.running:
        tape.play(large, spread(rng, 170)).play(small, spread(rng, 190))
        if tape.now - saved >= 2 * HOUR_MS:
            save(tape, kernels, 5e9, 40, remote=False)
            saved = tape.now
    return alike(plan, tape)
