"""Reinforcement learning from feedback: rollouts and updates in turn. Healthy, and easily mistaken.

Published numbers: phases alternate between DRAM-heavy generation and tensor-heavy updates (algorithms of RLHF
systems); alternation of rollout and training is a known false positive of starvation rules, as are pipeline bubbles.
"""

import numpy as np

from agent.wire.units import HOUR_MS
from simulator import labels
from simulator.archetypes.phases import DENSE, SPINNING, gib, save, spread, start_up
from simulator.plan import Plan, Run, alike


def alternating(plan: Plan, horizon: int, rng: np.random.Generator) -> Run:
    """Return a run that generates for some minutes, updates for some, and sends the weights around in between."""
    tape = plan.tape(horizon)
    update = DENSE.but(tensor=0.43, power=0.88, memory=gib(66), cores=2.0, host_memory=gib(25), nvlink=3e10)
    update = update.but(steps=0.05)
    rollout = DENSE.but(sm=0.55, tensor=0.09, dram=0.64, occupancy=0.2, power=0.58, memory=gib(66), cores=1.8)
    rollout = rollout.but(host_memory=gib(25), nvlink=4e9, samples=1.6).being(labels.DECODE)
    syncing = SPINNING.but(memory=gib(66), fabric=1e9, nvlink=6e10, host_memory=gib(25))
    start_up(tape, rng, memory=gib(66), weights=1.6e10, image_seconds=90, again=plan.attempt > 0)
    saved = tape.now
    while tape.running:
        tape.play(rollout, spread(rng, 290)).play(syncing, 24).play(update, spread(rng, 210)).play(syncing, 32)
        if tape.now - saved >= 2 * HOUR_MS:
            save(tape, update, 7e9, 110, remote=False)
            saved = tape.now
    return alike(plan, tape)
