"""Vision transformers on one host: local drives at their ceiling at times, the power limit at others.

Published numbers: prep and fetch stalls of image training up to 65 % of an epoch (DS-Analyzer, VLDB'21); PSI io.some
over 10 %, the disk over 80 % busy with reads flat at its ceiling and slower than when quiet mark local storage. The
power limit: 0.9 of the reference clock at the cap; the loss is 1 - clock/reference, never the share of time that the
power-cap bit is set, which an H100 at full load shows nearly always.
"""

import numpy as np

from agent.wire.units import HOUR_MS
from simulator import labels
from simulator.activity import NVME_BYTES_PER_SECOND, Activity, blend
from simulator.archetypes.phases import DENSE, SPINNING, STALLED, gib, pause, save, spread, start_up
from simulator.plan import Plan, Run, alike
from simulator.timeline import Tape

_CAPPED_CLOCK = 0.90


def vit(plan: Plan, horizon: int, rng: np.random.Generator) -> Run:
    """Return a run that alternates by the hour between well fed, storage-bound and power-limited stretches."""
    tape = plan.tape(horizon)
    share = 1 / len(plan.seats)
    dense = _dense(share)
    start_up(tape, rng, memory=gib(63), weights=6e9, image_seconds=60, again=plan.attempt > 0)
    saved = tape.now
    while tape.running:
        kind = rng.choice(3, p=(0.55, 0.25, 0.20))
        seconds = spread(rng, 3_000)
        if kind == 1:
            _storage_bound(tape, rng, dense, share, seconds)
        else:
            tape.play(_capped(dense) if kind == 2 else dense, seconds)
        if tape.now - saved >= HOUR_MS:
            save(tape, dense, 3e9, 60, remote=False)
            saved = tape.now
        if rng.random() < 0.08:
            pause(tape, dense, spread(rng, 130))
    return alike(plan, tape)


def _dense(share: float) -> Activity:
    dense = DENSE.but(tensor=0.40, dram=0.58, power=0.91, memory=gib(63), pcie_in=4.5e8, host_memory=gib(60))
    dense = dense.but(workers=8, busiest_worker=0.58, cores=6.0, io_pressure=0.04, waiting_workers=0.08)
    dense = dense.reading_nvme(0.5 * NVME_BYTES_PER_SECOND * share, 0.55 * share, 1.6)
    summing = SPINNING.but(memory=gib(63), nvlink=6e10, workers=8, cores=6.0, busiest_worker=0.58)
    return blend((dense, 0.89), (summing, 0.11))


def _capped(dense: Activity) -> Activity:
    """Return the phase at the power limit: the compute part of it runs at a lower clock."""
    truth = tuple((label, part * _CAPPED_CLOCK if label == labels.COMPUTE else part) for label, part in dense.truth)
    rest = 1 - sum(part for _, part in truth)
    return dense.but(power=0.995, clock=_CAPPED_CLOCK, limited_by_power=0.93).truly((*truth, (labels.POWER, rest)))


def _storage_bound(tape: Tape, rng: np.random.Generator, dense: Activity, share: float, seconds: float) -> None:
    """Play a stretch over shards that are not cached: the drives at their ceiling, the GPUs waiting in between."""

    def limited(activity: Activity) -> Activity:
        slow = activity.but(busiest_worker=0.2, waiting_workers=0.78, io_pressure=0.52, iowait_cores=2.0, cores=2.4)
        return slow.reading_nvme(0.965 * NVME_BYTES_PER_SECOND * share, 0.975 * share, 9.0)

    working = limited(dense)
    waiting = limited(STALLED.but(memory=dense.memory, workers=8, host_memory=dense.host_memory).being(labels.STORAGE))
    until = tape.now + seconds * 1_000
    while tape.running and tape.now < until:
        tape.play(working, spread(rng, 64)).play(waiting, spread(rng, 46))
