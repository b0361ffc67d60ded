"""Speech: fine-tuning that waits for the network mount, and a debugging session that nobody gave back.

Published numbers: fetch stalls are what remains of cold-cache time after warm-cache time (DS-Analyzer, VLDB'21);
MLPerf Storage v1.0 fails a run whose accelerator utilization falls under 90 % (70 % for cosmoflow; the weakest result
published is about 60 %, which is what is imitated). The signature of network storage: the NIC moves what is consumed,
flat at the server's ceiling; reads take twenty times longer; workers sleep uninterruptibly; the local drives are quiet.
Held and quiet: memory over 500 MB, SM activity under 1 %, power near the idle floor; Princeton cancels after 120
minutes at zero, Kubecost and dstack likewise.
"""

import numpy as np

from agent.wire.units import HOUR_MS, MINUTE_MS
from simulator import labels
from simulator.activity import Activity, blend
from simulator.archetypes.phases import CONTEXT_ONLY, DENSE, SPINNING, STALLED, gib, save, spread, start_up
from simulator.plan import Plan, Run, alike

NFS_CEILING = 1.12e9  # bytes a second that the server gives one host
_QUIET_SINCE = 6.1 * HOUR_MS  # of the debugging session


def network_storage_bound(plan: Plan, horizon: int, rng: np.random.Generator) -> Run:
    """Return a run on one host that waits 40 % of its time for the network mount, always at its ceiling."""
    tape = plan.tape(horizon)
    share = 1 / len(plan.seats)

    def fed(activity: Activity) -> Activity:
        read = activity.but(workers=6, busiest_worker=0.16, waiting_workers=0.82, host_memory=gib(30), cores=1.5)
        return read.but(io_pressure=0.68, iowait_cores=2.5).reading_nfs(NFS_CEILING * share, 22.0)

    dense = DENSE.but(tensor=0.36, power=0.86, memory=gib(54), pcie_in=2.3e8, steps=0.4, samples=26.0)
    working = fed(blend((dense, 0.93), (SPINNING.but(memory=gib(54), nvlink=5e10), 0.07)))
    waiting = fed(STALLED.but(memory=gib(54)).being(labels.NETWORK_STORAGE))
    start_up(tape, rng, memory=gib(54), weights=4e9, image_seconds=70, again=False)
    saved = tape.now
    while tape.running:
        tape.play(working, spread(rng, 82)).play(waiting, spread(rng, 57, 0.35))
        if tape.now - saved >= 2 * HOUR_MS:
            save(tape, dense, 2.5e9, 45, remote=False)
            saved = tape.now
    return alike(plan, tape)


def debugging(plan: Plan, horizon: int, rng: np.random.Generator) -> Run:
    """Return a session that tries things for six hours and is then forgotten, its memory still held."""
    tape = plan.tape(horizon)
    memory = gib(37)
    trying = DENSE.but(sm=0.78, tensor=0.28, power=0.72, memory=memory, host_memory=gib(12), workers=2, cores=1.9)
    trying = trying.but(busiest_worker=0.4)
    thinking = CONTEXT_ONLY.but(memory=memory, host_memory=gib(12))
    start_up(tape, rng, memory=memory, weights=4e9, again=False)
    while tape.now < plan.started + _QUIET_SINCE - 12 * MINUTE_MS:
        tape.play(trying, spread(rng, 900, 0.5)).play(thinking.being(labels.MEMORY_HELD), spread(rng, 420, 0.6))
    tape.play(trying, (plan.started + _QUIET_SINCE - tape.now) / 1_000)
    tape.play(thinking.being(labels.ABANDONED), 14 * 86_400)
    return alike(plan, tape)
