"""Data preparation on GPU nodes: processors and disks busy, GPUs held and never touched.

Published numbers: preprocessing is worth its own hosts (Meta's DSI, ISCA'22); a run that never used its GPU is
cancelled after 120 minutes at Princeton (job_defense_shield).
"""

import numpy as np

from simulator import labels
from simulator.activity import NVME_BYTES_PER_SECOND, Activity
from simulator.archetypes.phases import gib, spread
from simulator.plan import Plan, Run, alike


def tokenising(plan: Plan, horizon: int, rng: np.random.Generator) -> Run:
    """Return a run that fills cores and drives and leaves its GPUs alone."""
    tape = plan.tape(horizon)
    share = 1 / len(plan.seats)
    mapping = Activity(cores=72 * share, workers=36, busiest_worker=0.93, cpu_pressure=0.12, host_memory=gib(60))
    mapping = mapping.but(io_pressure=0.45, iowait_cores=2.0, waiting_workers=0.3, nvme_written=1.1e9 * share)
    mapping = mapping.reading_nvme(0.72 * NVME_BYTES_PER_SECOND * share, 0.95 * share, 7.0).being(labels.NEVER_USED)
    merging = mapping.but(cores=20 * share, busiest_worker=0.7, cpu_pressure=0.02, nvme_written=1.9e9 * share)
    while tape.running:
        tape.play(mapping, spread(rng, 2_400)).play(merging, spread(rng, 600))
    return alike(plan, tape)
