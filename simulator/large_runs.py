"""Runs over several hosts whose ranks go in lockstep: pre-training, a hang, learning from feedback."""

from dataclasses import dataclass

import numpy as np

from agent.wire.units import DAY_MS, DAY_SECONDS, GIB, HOUR_MS, MINUTE_MS
from simulator import labels
from simulator.activity import Activity
from simulator.plan import Plan, Run, alike
from simulator.timeline import DENSE, GIGABYTE, SPINNING, Lockstep, Tape, Timeline, gib, pause, save, spread, start_up

# Pre-training over several hosts: the ranks of one run interleaved by rack, those of another within one rack.
#
# Imitates synchronous data-parallel training of a 26 B mixture of experts (7 B active) with long accumulated steps,
# whose fp32 gradients are summed in one ring per step. Published numbers: a ring all-reduce moves 2(n-1)/n of the
# volume over every link (nccl-tests); hosts in R racks cross the spine R times when ranks are contiguous and up to n
# times when interleaved; Crux (SIGCOMM'24) finds 36% of jobs and 51% of GPUs slowed by communication contention; one
# throttled GPU holds up every synchronous peer. The spine here is oversubscribed 2:1, so that eight crossings halve the
# rate that a rack's own switch gives. Four hours between checkpoints is what the documents' week loses by.
#
# Memory: the GPUs of a host are the stages of a pipeline, and hosts are the replicas among which gradients travel. In
# 1F1B the first stage holds the activations of as many micro-batches as there are stages, the last those of one
# (Narayanan et al., SC'21), so that ranks of one run hold from a third to three quarters of an H100, as Seren's GPUs do
# (Acme, NSDI'24: of those that hold anything, quartiles at 33, 50 and 70%). All ranks at 61 GiB, as it was at first,
# is a run that nobody has recorded.
_FABRIC_BYTES_PER_SECOND = 8.0 * GIGABYTE  # of one host within a rack, each way
SPINE_SHARE = 0.5  # of it, for every host at once across racks
_FP32_BYTES = 4
_CHECKPOINT_BYTES = 14  # a parameter

_PARAMETERS = 26e9
STAGES = 8  # of the pipeline: one a GPU of a host
_HELD_BYTES = 2 + 4  # a parameter, of the stage's own: bf16 weights, fp32 gradients (Rajbhandari et al., SC'20)
_SHARED_BYTES = 4 + 4 + 4  # a parameter: weights and both moments in fp32, divided among replicas (ZeRO 1, the same)
_ACTIVATION_BYTES = 34  # a token, width and layer, nothing computed twice (Korthikanti et al., MLSys'23, equation 1)
_LAYERS, _WIDTH, _TOKENS = 32, 4_096, 2 * 4_096  # ours, for a model of this size; tokens of one micro-batch
_RUNTIME_BYTES = 1.5 * GIB  # ours: CUDA's context, NCCL's buffers
_COMPUTE_SECONDS = 312.0
NODE_NOTICED = 5 * MINUTE_MS  # Slurm's SlurmdTimeout: until then a dead node's run is still allocated

HOT_NODES = frozenset({"n11", "n12"})
_HOT_HOURS = ((1, 10.0, 16.5), (2, 8.5, 12.5), (3, 10.5, 16.5), (4, 10.0, 17.0))  # day of the span, from, until


@dataclass(frozen=True, slots=True)
class Ring:
    """The gradient exchange of one step: how long, and what each GPU's links carry meanwhile (bytes a second)."""

    seconds: float
    fabric: float
    nvlink: float


def stage_bytes(stage: int, replicas: int) -> float:
    """Return the bytes that a GPU of this stage (from 0) holds: the earlier, the more micro-batches under way."""
    held = _PARAMETERS / STAGES * (_HELD_BYTES + _SHARED_BYTES / replicas)
    activations = _ACTIVATION_BYTES * _TOKENS * _WIDTH * _LAYERS / STAGES
    return held + _RUNTIME_BYTES + (STAGES - stage) * activations


def ring(parameters: float, hosts: int, gpus: int, crossing: bool) -> Ring:
    """Return the exchange of fp32 gradients in one ring through all GPUs, host by host."""
    rate = _FABRIC_BYTES_PER_SECOND * (SPINE_SHARE if crossing else 1.0)
    volume = 2 * (hosts - 1) / hosts * parameters * _FP32_BYTES
    local = 2 * (gpus - 1) / gpus * parameters * _FP32_BYTES * 7 / 8
    seconds = volume / rate
    return Ring(seconds, rate / (gpus / hosts), local / seconds)


def exchange(like: Activity, links: Ring) -> Activity:
    """Return the phase in which gradients travel."""
    return SPINNING.but(
        memory=like.memory, host_memory=like.host_memory, workers=like.workers, fabric=links.fabric, nvlink=links.nvlink
    )


@dataclass(frozen=True, slots=True)
class Steps:
    """The phases of a training step: compute, compute on a hot GPU, wait for the hot ones, exchange."""

    dense: Activity
    warm: tuple[Activity, ...]
    waiting: Activity
    gradients: Activity
    exchange_seconds: float


def pretrain(plan: Plan, horizon: int, rng: np.random.Generator) -> Run:
    """Return a run over two racks with interleaved replicas, slowed by heat on HOT_NODES at HOT_HOURS."""
    cool, hot = _until_death(plan, plan.tape(horizon)), _until_death(plan, plan.tape(horizon))
    ranks = Lockstep(cool, hot)
    replicas = len({seat.node for seat in plan.seats})
    memory = stage_bytes(0, replicas)
    steps = _steps(plan, memory)
    start_up(ranks, rng, memory=memory, weights=4e10, image_seconds=80, again=plan.attempt > 0)
    saved = paused = ranks.now
    while ranks.running:
        _step(cool, hot, steps, rng)
        if ranks.now - saved >= 4 * HOUR_MS:
            save(ranks, steps.dense, _PARAMETERS * _CHECKPOINT_BYTES / len(plan.seats), 190, remote=True)
            saved = ranks.now
        if ranks.now - paused >= 1.3 * HOUR_MS:
            pause(ranks, steps.dense, spread(rng, 115))
            paused = ranks.now
    first = tuple(_ended(tape, plan, steps.waiting) for tape in (cool, hot))
    shares = [stage_bytes(stage, replicas) / memory for stage in range(STAGES)]
    timelines = tuple(timeline.with_memory(share) for share in shares for timeline in first)
    return Run(plan, timelines, tuple(2 * seat.gpu + (seat.node in HOT_NODES) for seat in plan.seats))


def in_rack(plan: Plan, horizon: int, rng: np.random.Generator) -> Run:
    """Return a healthy run over hosts of one rack: a 34 B vision-language model that evaluates every eight hours."""
    tape = plan.tape(horizon)
    links = ring(34e9, len({seat.node for seat in plan.seats}), len(plan.seats), crossing=False)
    dense = DENSE.but(memory=gib(68), host_memory=gib(40), workers=4, busiest_worker=0.55, cores=3.6, pcie_in=3e8)
    dense = dense.reading_nvme(1.5e8, 0.008)
    gradients = exchange(dense, links)
    judged = dense.but(sm=0.72, tensor=0.30, power=0.70, nvlink=0.0).being(labels.EVALUATION)
    start_up(tape, rng, memory=gib(68), weights=3e10, again=plan.attempt > 0)
    saved = paused = judged_at = tape.now
    while tape.running:
        tape.play(dense, spread(rng, 230, 0.03)).play(gradients, links.seconds)
        if tape.now - saved >= 2 * HOUR_MS:
            save(tape, dense, 34e9 * _CHECKPOINT_BYTES / len(plan.seats), 110, remote=False)
            saved = tape.now
        if tape.now - paused >= 2.1 * HOUR_MS:
            pause(tape, dense, spread(rng, 120))
            paused = tape.now
        if tape.now - judged_at >= 8 * HOUR_MS:
            tape.play(judged, spread(rng, 540))
            judged_at = tape.now
    return alike(plan, tape)


def _is_hot(milliseconds: int) -> bool:
    """Whether the hot nodes are hot at this time."""
    day, rest = divmod(milliseconds, DAY_MS)
    return any(day == hot_day and first <= rest / HOUR_MS < last for hot_day, first, last in _HOT_HOURS)


def _steps(plan: Plan, memory: float) -> Steps:
    links = ring(_PARAMETERS, len({seat.node for seat in plan.seats}), len(plan.seats), crossing=True)
    dense = DENSE.but(memory=memory, host_memory=gib(22), workers=2, busiest_worker=0.35, cores=2.2, pcie_in=4e7)
    dense = dense.reading_nvme(3e6, 0.001)
    return Steps(
        dense,
        tuple(_slowed(dense, ratio) for ratio in (0.85, 0.87, 0.89)),
        exchange(dense, Ring(0, 0, 0)).being(labels.STRAGGLER),
        exchange(dense, links).being(labels.COLLECTIVE, labels.CROSS_RACK),
        links.seconds,
    )


def _slowed(dense: Activity, ratio: float) -> Activity:
    truth = ((labels.COMPUTE, ratio), (labels.THERMAL, 1 - ratio))
    return dense.but(clock=ratio, power=dense.power * ratio**2, limited_by_heat=0.9).truly(truth)


def _step(cool: Tape, hot: Tape, steps: Steps, rng: np.random.Generator) -> None:
    seconds = round(spread(rng, _COMPUTE_SECONDS, 0.04), 3)
    if _is_hot(cool.now):
        warm = steps.warm[int(rng.integers(len(steps.warm)))]
        longer = round(seconds / warm.clock, 3)
        hot.play(warm, longer)
        cool.play(steps.dense, seconds).play(steps.waiting, round(longer - seconds, 3))
    else:
        Lockstep(cool, hot).play(steps.dense, seconds)
    Lockstep(cool, hot).play(steps.gradients, steps.exchange_seconds)


def _until_death(plan: Plan, tape: Tape) -> Tape:
    """Return the tape cut where its node dies, so that no checkpoint completes after that."""
    tape.end -= NODE_NOTICED if plan.exit_status == "node_failed" else 0
    return tape


def _ended(tape: Tape, plan: Plan, waiting: Activity) -> Timeline:
    """Return what was played; peers of a dead node hang until the scheduler notices."""
    if plan.exit_status == "node_failed":
        tape.end += NODE_NOTICED
        tape.play(waiting.being(labels.HANG), NODE_NOTICED / 1_000)
    return tape.timeline(plan.lost_by)


# A collective that never ends: every rank spins, nothing moves.
#
# Published numbers: while NCCL waits, NVML reads 100%, SM activity is its resident blocks' (24 of 132 on an H100),
# tensor cores are quiet, power is 0.2-0.4 of the limit, and NIC and NVLink carry nothing; over ten minutes is a hang.
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
    tape.play(SPINNING.but(memory=gib(58), host_memory=gib(20)).being(labels.HANG), DAY_SECONDS)
    return alike(plan, tape)


# Reinforcement learning from feedback: rollouts and updates in turn. Healthy, and easily mistaken.
#
# Published numbers: phases alternate between DRAM-heavy generation and tensor-heavy updates (algorithms of RLHF
# systems); alternation of rollout and training is a known false positive of starvation rules, as are pipeline bubbles.
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
