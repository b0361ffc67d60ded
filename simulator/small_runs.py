"""Small runs and services: sweeps, evaluations, notebooks, serving, data preparation, and controls in order."""

import math
from collections.abc import Callable

import numpy as np

from agent.wire.units import DAY_MS, DAY_SECONDS, HOUR_MS
from simulator import labels
from simulator.activity import NVME_BYTES_PER_SECOND, Activity, blend
from simulator.plan import Plan, Run, alike
from simulator.timeline import CONTEXT_ONLY, DENSE, STALLED, gib, pause, save, spread, start_up

# A sweep of small trials on A100s: each trial has its own weakness, and some have none.
#
# Imitates a hyper-parameter search of detectors, one trial on two GPUs. Published numbers: of 706 issues in 400
# Microsoft jobs with low use, 46% lie in data operations and 45% in model code (ICSE'24); most input-limited jobs
# saturate no hardware (Plumber, MLSys'22): their loader is the limit by its parallelism, prefetch or caching; about 40
# % of jobs fail (Acme, NSDI'24); a ResNet-50 with no loader workers kept its V100 busy 54.9% of the time and waited
# 39.6%, with four 69.9% and 1.0% (PyTorch Kineto's sample traces). Small batches keep NVML near 100% at low power.
_BUSY_WITHOUT_WORKERS = 0.549  # Kineto sample, num_workers = 0
_LOADER = Activity(workers=2, busiest_worker=0.45, cores=1.6, host_memory=gib(10))


def _fed(activity: Activity) -> Activity:
    return activity.but(
        workers=_LOADER.workers,
        busiest_worker=_LOADER.busiest_worker,
        cores=_LOADER.cores,
        host_memory=_LOADER.host_memory,
    ).reading_nvme(2.5e7, 0.004)


def _small_kernels(plan: Plan, horizon: int, rng: np.random.Generator) -> Run:
    """Return a trial whose kernels fill a quarter of the chip: busy in NVML's sense, at a third of the power."""
    busy = DENSE.but(utilization=0.96, zero=0.01, low=0.02, high=0.95, sm=0.24, occupancy=0.08, tensor=0.05, dram=0.12)
    busy = _fed(busy.but(power=0.34, memory=gib(9), pcie_in=2e7)).being(labels.SMALL_KERNELS)
    return _epochs(plan, horizon, rng, busy, epoch_seconds=1_500)


def _loader_software(plan: Plan, horizon: int, rng: np.random.Generator) -> Run:
    """Return a trial that alternates within a second between a batch and the wait for the next, as Kineto's sample."""
    dense = DENSE.but(sm=0.82, tensor=0.3, power=0.78, memory=gib(24), pcie_in=6e7)
    waiting = STALLED.but(memory=gib(24)).being(labels.LOADER_SOFTWARE)
    busy = blend((dense, _BUSY_WITHOUT_WORKERS), (waiting, 1 - _BUSY_WITHOUT_WORKERS))
    return _epochs(plan, horizon, rng, _fed(busy), epoch_seconds=700, between=_fed(waiting))


def _healthy(plan: Plan, horizon: int, rng: np.random.Generator) -> Run:
    """Return a trial in order."""
    dense = DENSE.but(sm=0.86, tensor=0.34, power=0.86, memory=gib(41), pcie_in=1.6e8)
    return _epochs(plan, horizon, rng, _fed(dense), epoch_seconds=2_400)


def _second_gpu_unused(plan: Plan, horizon: int, rng: np.random.Generator) -> Run:
    """Return a trial that asked for two GPUs and uses one."""
    used = _healthy(plan, horizon, rng)
    idle = plan.tape(horizon).play(Activity().being(labels.NEVER_USED), 14 * DAY_SECONDS)
    return Run(plan, (used.timelines[0], idle.timeline(plan.lost_by)), (0, 1)[: len(plan.seats)])


def out_of_memory(plan: Plan, horizon: int, rng: np.random.Generator) -> Run:
    """Return a trial whose memory grows until it fails, before its first checkpoint."""
    tape = plan.tape(horizon)
    start_up(tape, rng, memory=gib(30), weights=1e9, again=False)
    while tape.running:
        grown = 40 + 39 * (tape.now - plan.started) / (tape.end - plan.started)
        tape.play(_fed(DENSE.but(sm=0.84, tensor=0.33, power=0.84, memory=gib(grown), pcie_in=1.5e8)), 300)
    return alike(plan, tape)


def _epochs(
    plan: Plan,
    horizon: int,
    rng: np.random.Generator,
    busy: Activity,
    *,
    epoch_seconds: float,
    between: Activity | None = None,
) -> Run:
    """Return epochs of `busy`; a new epoch starts the workers anew, which takes `between`."""
    tape = plan.tape(horizon)
    start_up(tape, rng, memory=busy.memory, weights=1e9, again=plan.attempt > 0)
    saved = tape.now
    while tape.running:
        tape.play(busy, spread(rng, epoch_seconds))
        if between is not None:
            tape.play(between, spread(rng, 75))
        if tape.now - saved >= 3 * HOUR_MS:
            save(tape, busy, 8e8, 20, remote=False)
            saved = tape.now
    return alike(plan, tape)


def held_by_context(plan: Plan, horizon: int, rng: np.random.Generator) -> Run:
    """Return a trial that ended inside but kept its process: memory held, nothing done."""
    tape = plan.tape(horizon)
    start_up(tape, rng, memory=gib(20), weights=1e9, again=False)
    tape.play(_fed(DENSE.but(sm=0.8, tensor=0.3, power=0.8, memory=gib(24))), spread(rng, 4 * 3_600))
    tape.play(CONTEXT_ONLY.but(memory=gib(24), host_memory=gib(10)).being(labels.ABANDONED), 14 * DAY_SECONDS)
    return alike(plan, tape)


# What the trials of the sweep are, in turn: a share each of the kinds above.
SWEEP_KINDS: tuple[Callable[[Plan, int, np.random.Generator], Run], ...] = (
    _small_kernels,
    _loader_software,
    _healthy,
    out_of_memory,
    _small_kernels,
    _healthy,
    _second_gpu_unused,
    _loader_software,
)


# Short evaluation runs: load a model, answer benchmarks, end.
#
# Published numbers: evaluation is many short jobs whose GPUs idle while models load and metrics are computed (Acme,
# NSDI'24, where use is polarised at 0 and 100%); its SM activity sits at another level than training, with no
# gradients on the links. Between benchmarks a single process tokenises: neither CPU nor disk is saturated (Plumber's
# software-limited case).
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


# Runs that look suspicious and are in order, and one that is slow by its own launches.
#
# False positives named in the literature: data that comes from the page cache (no reads, fully fed); a host whose disk
# another run keeps busy; optimizers offloaded to the host (PCIe busy both ways, DeepSpeed's ZeRO-Offload). And the
# launch-bound case: NVML 80-100%, SM activity 0.1-0.4 without any bimodality, exactly one host thread at 100%, little
# on PCIe, power 0.2-0.4 (host wait in HTA's sense).
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


# Notebooks on whole GPUs, and four small runs that share one.
#
# Published numbers: of serving and notebook pods, 66.8% of samples are 0 and 75.3% of time is idle while held
# (Alibaba GenTD26); jobstats advises a MIG slice under 15% use and 10 GB; sites exempt short interactive sessions and
# flag those over eight hours.
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


# Data preparation on GPU nodes: processors and disks busy, GPUs held and never touched.
#
# Published numbers: preprocessing is worth its own hosts (Meta's DSI, ISCA'22); a run that never used its GPU is
# cancelled after 120 minutes at Princeton (job_defense_shield).
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


# Services: a ranker with room between requests, and a language model that decodes.
#
# Published numbers: serving pods read 0 in 66.8% of samples (Alibaba GenTD26), which is headroom, not waste, as long
# as a latency promise is kept; decoding keeps DRAM over half of its bandwidth and tensor cores nearly idle, which is no
# starvation (DRAM's practical peak is about 0.8; KempnerPulse calls it memory-bound from 0.5 up). Batches of one leave
# most of the chip idle while a kernel is resident.
RANKER_SLO_SECONDS = 0.25
LLM_SLO_SECONDS = 2.0
_UNBATCHED_HOURS = (1.0, 4.0)  # at night, requests come one by one and are not waited for


def _load(milliseconds: int) -> float:
    """Return how busy people keep a service at this time: the share of its best hour, from 0.25 to 1."""
    hours = milliseconds % DAY_MS / HOUR_MS
    weekend = 0.75 if milliseconds // DAY_MS % 7 >= 5 else 1.0
    return weekend * (0.62 + 0.38 * math.sin((hours - 9.5) / 24 * 2 * math.pi))


def ranker_service(plan: Plan, horizon: int, rng: np.random.Generator) -> Run:
    """Return a service busy about half of the time, with headroom between requests, and unbatched at night."""
    tape = plan.tape(horizon)
    batch = DENSE.but(sm=0.74, tensor=0.28, dram=0.42, power=0.72, memory=gib(22), cores=2.4, host_memory=gib(12))
    batch = batch.but(running=6.0, ethernet_in=3e6, ethernet_out=1e6, pcie_in=5e7)
    single = batch.but(sm=0.15, tensor=0.03, dram=0.09, power=0.31, running=1.0, pcie_in=1e7)
    ready = CONTEXT_ONLY.but(memory=gib(22), cores=0.3, host_memory=gib(12)).being(labels.HEADROOM)
    start_up(tape, rng, memory=gib(22), weights=3e9, again=False)
    while tape.running:
        share = min(0.93, max(0.08, _load(tape.now) * 0.80 * spread(rng, 1.0, 0.12)))
        tape.play(_minutes(batch, single, ready, share, tape.now), spread(rng, 150))
    return alike(plan, tape)


def _minutes(batch: Activity, single: Activity, ready: Activity, share: float, now: int) -> Activity:
    """Return some minutes of the ranker: busy for a share of them, by batches or one by one."""
    first, last = _UNBATCHED_HOURS
    if first <= now % DAY_MS / HOUR_MS < last:
        mixed = blend((single.being(labels.UNBATCHED), 0.62), (ready, 0.38))
        return mixed.but(requests=9.0, tokens_in=1_100.0, first_token_seconds=0.03)
    rate = 190.0 * share
    told = {"requests": rate, "tokens_in": rate * 120, "first_token_seconds": 0.035 + 0.03 * share}
    return blend((batch, share), (ready, 1 - share)).but(**told)


def llm_service(plan: Plan, horizon: int, rng: np.random.Generator) -> Run:
    """Return a service that decodes: memory bandwidth busy, tensor cores quiet, tokens flowing."""
    tape = plan.tape(horizon)
    decode = DENSE.but(sm=0.52, occupancy=0.2, tensor=0.07, dram=0.66, power=0.58, memory=gib(72), nvlink=6e9)
    decode = decode.but(cores=1.6, host_memory=gib(20), running=14.0)
    decode = decode.but(ethernet_in=2e5, ethernet_out=6e5).being(labels.DECODE)
    ready = CONTEXT_ONLY.but(memory=gib(72), cores=0.4, host_memory=gib(20)).being(labels.HEADROOM)
    start_up(tape, rng, memory=gib(72), weights=1.8e10, again=False)
    while tape.running:
        share = min(0.99, max(0.3, _load(tape.now) * 1.1 * spread(rng, 1.0, 0.08)))
        minutes = blend((decode, share), (ready, 1 - share))
        rate = 2.1 * share
        told = {"requests": rate, "tokens_in": rate * 900, "tokens_out": rate * 310, "kv_cache": 0.2 + 0.5 * share}
        queued = max(0.0, share - 0.9) * 20
        tape.play(minutes.but(**told, waiting=queued, first_token_seconds=0.25 + 0.3 * share), spread(rng, 200))
    return alike(plan, tape)
