"""A collective that never ends: every rank spins, nothing moves.

Published numbers: while NCCL waits, NVML reads 100 %, SM activity is its resident blocks' (24 of 132 on an H100),
tensor cores are quiet, power is 0.2-0.4 of the limit, and NIC and NVLink carry nothing; over ten minutes is a hang.
"""

import numpy as np

from agent.wire.units import MINUTE_MS
from simulator import labels
from simulator.archetypes.phases import DENSE, SPINNING, gib, spread, start_up
from simulator.archetypes.pretraining import exchange, ring
from simulator.plan import Plan, Run, alike

_HUNG_FOR = 40 * MINUTE_MS  # until its owner notices and cancels


def hanging(plan: Plan, horizon: int, rng: np.random.Generator) -> Run:
    """Return a probe that trains in order and hangs for its last 40 minutes."""
    tape = plan.tape(horizon)
    dense = DENSE.but(memory=gib(58), host_memory=gib(20), workers=2, busiest_worker=0.3, cores=2.0)
    links = ring(18e9, len({seat.node for seat in plan.seats}), len(plan.seats), crossing=False)
    gradients = exchange(dense, links)
    start_up(tape, rng, memory=gib(58), weights=1e10, again=False)
    while tape.now < tape.end - _HUNG_FOR:
        tape.play(dense, min(spread(rng, 150, 0.05), (tape.end - _HUNG_FOR - tape.now) / 1_000))
        tape.play(gradients, links.seconds)
    tape.play(SPINNING.but(memory=gib(58), host_memory=gib(20)).being(labels.HANG), 86_400)
    return alike(plan, tape)
