"""Short evaluation runs: load a model, answer benchmarks, end.

Published numbers: evaluation is many short jobs whose GPUs idle while models load and metrics are computed (Acme,
NSDI'24, where use is polarised at 0 and 100 %); its SM activity sits at another level than training, with no
gradients on the links. Between benchmarks a single process tokenises: neither CPU nor disk is saturated (Plumber's
software-limited case).
"""

import numpy as np

from simulator import labels
from simulator.archetypes.phases import DENSE, STALLED, gib, spread, start_up
from simulator.plan import Plan, Run, alike


def benchmarks(plan: Plan, horizon: int, rng: np.random.Generator) -> Run:
    """Return a run of benchmarks with about a quarter of its time in the loader between them."""
    tape = plan.tape(horizon)
    judging = DENSE.but(sm=0.70, tensor=0.30, dram=0.55, power=0.68, memory=gib(44), cores=1.5, host_memory=gib(14))
    judging = judging.but(workers=1, busiest_worker=0.3, requests=4.0, tokens=2_400.0).being(labels.EVALUATION)
    waiting = STALLED.but(memory=gib(44), cores=1.4, workers=1, busiest_worker=0.55, host_memory=gib(14))
    waiting = waiting.being(labels.LOADER_SOFTWARE).reading_nvme(6e6, 0.001)
    start_up(tape, rng, memory=gib(44), weights=1.6e10, again=False)
    while tape.running:
        tape.play(judging, spread(rng, 210, 0.4)).play(waiting, spread(rng, 66, 0.4))
    return alike(plan, tape)
