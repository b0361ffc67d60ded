"""Runs that wait for what feeds them: loader workers, a quota, storage, the network mount, the PCIe link."""

import numpy as np

from agent.wire.units import DAY_SECONDS, HOUR_MS, MINUTE_MS
from simulator import labels
from simulator.activity import NVME_BYTES_PER_SECOND, Activity, blend
from simulator.plan import Plan, Run, alike
from simulator.timeline import CONTEXT_ONLY, DENSE, SPINNING, STALLED, Tape, gib, pause, save, spread, start_up

# Supervised fine-tuning whose loader workers are the limit, and the same under a CPU quota.
#
# Imitates language-model fine-tuning with on-the-fly tokenisation and packing. Published numbers: 3-24 cores a GPU are
# needed for preprocessing, which takes up to 65% of epoch time (DS-Analyzer, VLDB'21, as cited by tf.data, VLDB'21);
# 20% of Google's jobs spend over a third of their compute time in the input pipeline (tf.data). The signature: every
# worker fills a core (or the cgroup's quota throttles it), reads stay below the ceiling, all ranks dip together and the
# links are quiet meanwhile.
_LOADER_SIGNALS = (
    "workers", "busiest_worker", "waiting_workers", "cores", "refused_cores", "cpu_pressure", "io_pressure",
    "nvme_read", "nvme_busy", "nvme_waited", "host_memory",
)  # fmt: skip
_TOKENS_PER_SECOND = 1_770.0  # a GPU, while it works


def preprocessing_bound(plan: Plan, horizon: int, rng: np.random.Generator) -> Run:
    """Return a run that waits 41% of its time for four loader workers a rank, each on a full core."""
    loader = Activity(workers=4, busiest_worker=0.985, cores=5.0, cpu_pressure=0.03, host_memory=gib(36))
    return _play(plan, horizon, rng, loader.reading_nvme(1.1e8, 0.012), busy=105.0, starved=79.0)


def quota_bound(plan: Plan, horizon: int, rng: np.random.Generator) -> Run:
    """Return a run whose workers are throttled by the quota of their cgroup."""
    loader = Activity(workers=6, busiest_worker=0.62, cores=4.0, refused_cores=2.1, cpu_pressure=0.55)
    return _play(plan, horizon, rng, loader.but(host_memory=gib(18)).reading_nvme(4e7, 0.006), busy=70.0, starved=42.0)


def _play(plan: Plan, horizon: int, rng: np.random.Generator, loader: Activity, *, busy: float, starved: float) -> Run:
    tape = plan.tape(horizon)
    working, waiting = _working(loader), _host(STALLED.but(memory=gib(71)).being(labels.PREPROCESSING), loader)
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


# Speech: fine-tuning that waits for the network mount, and a debugging session that nobody gave back.
#
# Published numbers: fetch stalls are what remains of cold-cache time after warm-cache time (DS-Analyzer, VLDB'21);
# MLPerf Storage v1.0 fails a run whose accelerator utilization falls under 90% (70% for cosmoflow; the weakest result
# published is about 60%, which is what is imitated). The signature of network storage: the NIC moves what is consumed,
# flat at the server's ceiling; reads take twenty times longer; workers sleep uninterruptibly; the local drives are
# quiet. Held and quiet: memory over 500 MB, SM activity under 1%, power near the idle floor; Princeton cancels after
# 120 minutes at zero, Kubecost and dstack likewise.
NFS_CEILING = 1.12e9  # bytes a second that the server gives one host
_QUIET_SINCE = 6.1 * HOUR_MS  # of the debugging session


def network_storage_bound(plan: Plan, horizon: int, rng: np.random.Generator) -> Run:
    """Return a run on one host that waits 40% of its time for the network mount, always at its ceiling."""
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
    tape.play(thinking.being(labels.ABANDONED), 14 * DAY_SECONDS)
    return alike(plan, tape)


# Vision transformers on one host: local drives at their ceiling at times, the power limit at others.
#
# Published numbers: prep and fetch stalls of image training up to 65% of an epoch (DS-Analyzer, VLDB'21); PSI io.some
# over 10%, the disk over 80% busy with reads flat at its ceiling and slower than when quiet mark local storage. The
# power limit: 0.9 of the reference clock at the cap; the loss is 1 - clock/reference, never the share of time that the
# power-cap bit is set, which an H100 at full load shows nearly always.
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


# Embeddings copied from pageable memory: the PCIe link busy while the chip waits.
#
# Published numbers: a host-to-device limit shows as PCIe traffic of 1 GB/s and more with SM activity under 30%
# (KempnerPulse's I/O class), SM low while the link is busy and DRAM quiet; one host thread copies at full speed, since
# pageable memory is staged through a pinned buffer, far below the 50 GB/s that a Gen5 link gives pinned memory.
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
