"""Notebooks on whole GPUs, and four small runs that share one.

Published numbers: of serving and notebook pods, 66.8 % of samples are 0 and 75.3 % of time is idle while held
(Alibaba GenTD26); jobstats advises a MIG slice under 15 % use and 10 GB; sites exempt short interactive sessions and
flag those over eight hours.
"""

import numpy as np

from agent.wire.units import DAY_MS, HOUR_MS
from simulator import labels
from simulator.activity import blend
from simulator.archetypes.phases import CONTEXT_ONLY, DENSE, STALLED, gib, spread, start_up
from simulator.plan import Plan, Run, alike

_WORKING_HOURS = (9.0, 18.5)
_WORKING_DAYS = 5


def notebook(plan: Plan, horizon: int, rng: np.random.Generator) -> Run:
    """Return a session used in bursts of minutes during working hours, its memory held day and night."""
    tape = plan.tape(horizon)
    memory = gib(float(rng.integers(14, 58)))
    cell = DENSE.but(sm=0.7, tensor=0.2, power=0.66, memory=memory, cores=1.2, host_memory=gib(8))
    held = CONTEXT_ONLY.but(memory=memory, host_memory=gib(8)).being(labels.MEMORY_HELD)
    start_up(tape, rng, memory=memory, weights=2e9, again=False)
    while tape.running:
        tape.play(cell, spread(rng, 800, 0.7))
        tape.play(held, spread(rng, 1_000, 0.7))
        if not _in_working_hours(tape.now):
            tape.play(held, (_next_morning(tape.now) - tape.now) / 1_000 + spread(rng, 1_800))
    return alike(plan, tape)


def sharing(plan: Plan, horizon: int, rng: np.random.Generator) -> Run:
    """Return what a GPU shows that several small runs share: together they keep it well used.

    Every sharer's plan makes the same timeline, since it is the GPU's; each owns an equal part of it.
    """
    tape = plan.tape(horizon)
    packed = DENSE.but(utilization=0.97, zero=0.01, low=0.02, high=0.95, sm=0.74, tensor=0.2, dram=0.4, power=0.74)
    packed = packed.but(memory=gib(41), cores=4.4, workers=4, busiest_worker=0.5, host_memory=gib(24))
    start_up(tape, rng, memory=gib(41), weights=2e9, again=False)
    while tape.running:
        tape.play(packed, spread(rng, 900)).play(blend((packed, 0.9), (STALLED.being(labels.COMPUTE), 0.1)), 60)
    return alike(plan, tape)


def _in_working_hours(milliseconds: int) -> bool:
    day, rest = divmod(milliseconds, DAY_MS)
    return day % 7 < _WORKING_DAYS and _WORKING_HOURS[0] <= rest / HOUR_MS < _WORKING_HOURS[1]


def _next_morning(milliseconds: int) -> int:
    """Return the next time that working hours begin; the span begins on a Monday."""
    day = milliseconds // DAY_MS
    while day % 7 >= _WORKING_DAYS or milliseconds >= day * DAY_MS + _WORKING_HOURS[0] * HOUR_MS:
        day += 1
    return int(day * DAY_MS + _WORKING_HOURS[0] * HOUR_MS)
