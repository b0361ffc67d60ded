"""Runs whose GPUs wait for one another: exchange within and across racks, a slow rank, a dead one, ranks in turns."""

import numpy as np

from bench.published.boards import ALL, BOARDS, HOPPER, NVLINKED, PCIE_ONLY
from bench.published.lanes import Lane, Phase, Piece, phase, stretch
from bench.published.setting import FED, HOUR, OPEN, Setting, Story, kind

HOSTS = ((2, 4), (2, 8), (4, 4), (4, 8))
LATER = 4 * HOUR  # runs across racks begin when those within one have ended


def _fabric(s: Setting, kind: str, low: float, high: float) -> float:
    """Return what a host sends a second within a rack: of all of the seed's hosts of that fabric alike, of one make.

    So a run across racks, hours after those within one, can be held against what the fabric does.
    """
    rng = np.random.default_rng([s.seed, len(kind)])
    s.fabric, s.board = kind, BOARDS[str(rng.choice(NVLINKED if kind == "infiniband" else ALL))]
    return float(rng.uniform(low, high))


def _exchanging(s: Setting, step: float, within: float, beyond: float, rate: float) -> list[Lane]:
    """Return ranks of which each step ends in an exchange: so long within a rack, so much longer across.

    The exchange's bytes are the same wherever it goes: a longer one is a slower one.
    """
    apart = rate * s.pick(0.93, 1.07) * within / (within + beyond)
    parts = [(s.work(), step, 0.03)]
    for truth, seconds in (("communicating/collective", within), ("communicating/cross_rack", beyond)):
        if seconds:
            spin = phase(truth, s.spinning(2e9), FED, peers=apart / s.gpus_per_host)
            parts.append((spin, seconds, 0.12))
    return s.together(s.loading(), s.steps(s.seconds, *parts))


@kind(shapes=HOSTS[:3])
def exchange_ethernet(s: Setting) -> Story:
    """Data parallel over 25-100 Gb/s Ethernet in one rack: a fifth to a half of a step is exchange: overhead.

    NVIDIA/nccl#757: 7.8 GB/s bus bandwidth; huggingface/accelerate#647: three times the step over two hosts.
    """
    rate, s.racks = _fabric(s, "ethernet", 2.4e9, 9e9), [f"r{s.number}"] * s.hosts
    step = s.pick(0.4, 3)
    return Story(_exchanging(s, step, step * s.pick(0.25, 0.9), 0, rate))


@kind(boards=NVLINKED, shapes=HOSTS[1:])
def exchange_infiniband(s: Setting) -> Story:
    """The same over InfiniBand: 5-15 % of a step is exposed. NVIDIA/nccl#29, #307: 12 GB/s for each 100 Gb/s port."""
    rate, s.racks = _fabric(s, "infiniband", 2e10, 4.5e10), [f"r{s.number}"] * s.hosts
    step = s.pick(0.8, 6)
    return Story(_exchanging(s, step, step * s.pick(0.05, 0.17), 0, rate))


@kind(shapes=((2, 8), (4, 4), (4, 8)))
def across_racks_ethernet(s: Setting) -> Story:
    """Hosts spread over racks with an oversubscribed uplink: the exchange takes 2-3 times as long as within one.

    Philly (ATC'19): 16 GPUs over 8 hosts instead of 2: utilization 29 instead of 44 %; CASSINI (NSDI'24): 1.6 times.
    """
    rate, s.racks = _fabric(s, "ethernet", 2.4e9, 9e9), [f"r{s.number}-{h % 2}" for h in range(s.hosts)]
    s.start += LATER
    step = s.pick(0.5, 3)
    within = step * s.pick(0.15, 0.35)
    return Story(_exchanging(s, step, within, within * s.pick(0.9, 2.2), rate))


@kind(boards=NVLINKED, shapes=((2, 8), (4, 8)))
def across_racks_infiniband(s: Setting) -> Story:
    """The same over InfiniBand with a busy spine: GPT's step goes from 1.53 to 1.70 s (Crux, SIGCOMM'24)."""
    rate, s.racks = _fabric(s, "infiniband", 2e10, 4.5e10), [f"r{s.number}-{h % 2}" for h in range(s.hosts)]
    s.start += LATER
    step = 1.4 * s.pick(0.8, 3)
    within = step * s.pick(0.08, 0.14)
    return Story(_exchanging(s, step, within, step * s.pick(0.1, 0.2), rate))


def _held_up(s: Setting, slow: Phase, works: Phase, span: float, factor: float) -> list[Lane]:
    """Return ranks of which one takes `factor` times as long for its part; the others spin for it."""
    count = int(s.seconds / (span * factor + 0.03)) + 1
    whole = span * factor * np.exp(s.rng.normal(0, 0.03, count))
    exchange = np.full(count, 0.03 * span)
    spin = phase("communicating/straggler", s.spinning(), FED)
    swap = phase("communicating/collective", s.spinning(4e10), FED, s.peers(4e9))
    load = s.loading()
    index = np.tile(np.arange(3), count)
    late = Piece((slow, spin, swap), index, np.stack([whole, 0 * whole, exchange], 1).ravel())
    own = whole / factor * np.exp(s.rng.normal(0, 0.01, count))
    waiting = Piece((works, spin, swap), index, np.stack([own, np.maximum(whole - own, 0), exchange], 1).ravel())
    lanes = [s.lane(load, waiting)] * s.gpus
    lanes[int(s.rng.integers(s.gpus))] = s.lane(load, late)
    return lanes


@kind(shapes=((1, 4), (1, 8), (2, 8)))
def straggler_slow_gpu(s: Setting) -> Story:
    """One GPU takes 15-60 % longer, at a lower clock that no counter explains; the others wait in the exchange.

    OSDI'25 (stragglers slow 42.5 % of jobs by a tenth and more); l4rz's V100 at half its peers' power.
    """
    factor = s.pick(1.15, 1.6)
    work = s.work()
    slow = work.but(mhz=work.channels["mhz"] / factor, watts=work.channels["watts"] / factor**2, capped=0.0)
    lanes = _held_up(s, slow, work, s.pick(0.4, 3), factor)
    return Story(lanes, accepts={"productive/compute": {"throttled/hardware", "throttled/power", "throttled/thermal"}})


@kind(boards=NVLINKED, shapes=((1, 4), (1, 8), (2, 8)))
def straggler_hot_gpu(s: Setting) -> Story:
    """One GPU is hot: its clock falls by a fifth to two fifths, thermal counters run, the others wait.

    Measured of A100 PCIe: 895-955 of 1410 MHz (NVIDIA/cccl#9101); 10-30 % are lost to heat (what-users-ask.md).
    """
    keeps = s.pick(0.62, 0.82)
    work = s.work().but(capped=0.0)
    clock = work.channels["mhz"] * keeps
    warm = work.but(mhz=clock, heated=0.8, hot=24, capped=0.0, watts=work.channels["watts"] * keeps**2.2)
    slow = Phase((("throttled/thermal", 1 - keeps), ("productive/compute", keeps)), warm.channels)
    return Story(_held_up(s, slow, work, s.pick(0.4, 3), 1 / keeps))


def _hanging(s: Setting, long: float, gone: bool) -> list[Lane]:
    """Return ranks that train, then spin in a collective in which one of them is missing."""
    load = s.loading()
    train = s.training(s.seconds - long)
    stuck = phase("communicating/hang", s.spinning(), {"cpu": 1.0, "mem": 12, "runq": 0.001})
    dead = phase("communicating/hang", s.board.unheld() if gone else s.board.waiting(), {"cpu": 0.0, "mem": 12})
    lanes = [s.lane(load, train, stretch(stuck, long))] * s.gpus
    lanes[int(s.rng.integers(s.gpus))] = s.lane(load, train, stretch(dead, long))
    return lanes


@kind(boards=NVLINKED, shapes=((1, 8), (2, 8)))
def hang_dead_rank(s: Setting) -> Story:
    """One rank of 8 or 16 dies or hangs, the others spin at 100 % until somebody ends the job.

    snowflakedb/ArcticTraining#219: the watchdog of NCCL ends it after 1,800 s; marin-community/marin#7344.
    """
    s.racks = [f"r{s.number}"] * s.hosts
    lanes = _hanging(s, s.pick(1500, 3000), gone=s.rng.random() < 0.4)
    return Story(lanes, status="cancelled", accepts={"communicating/hang": {"held_idle/abandoned"}})


@kind(boards=PCIE_ONLY, shapes=((1, 4), (1, 8)))
def hang_pcie(s: Setting) -> Story:
    """The same on boards without NVLink, and so without a link that falls silent: 100 %, a third of the power.

    pytorch/pytorch#118369's kind of thread, on PCIe boards; ultralytics/ultralytics#3057.
    """
    lanes = _hanging(s, s.pick(1500, 3000), gone=s.rng.random() < 0.4)
    return Story(lanes, status="cancelled", accepts={"communicating/hang": {"held_idle/abandoned"}})


@kind(shapes=((1, 2), (1, 4), (1, 8)))
def evaluation_alone(s: Setting) -> Story:
    """After each epoch rank 0 validates alone; the others wait in a barrier at 100 %.

    ultralytics/ultralytics#3057; HRNet#152: 29 minutes of validation after 5.6 of training.
    """
    long, between = s.pick(120, 700), s.pick(500, 1500)
    alone = stretch(s.work(truth="productive/evaluation"), long)
    wait = stretch(phase(OPEN, s.spinning(), FED), long)
    train = s.training(between)
    rounds = int(s.seconds / (long + between)) + 1
    load = s.loading()
    others = s.lane(load, *[train, wait] * rounds)
    lanes = [s.lane(load, *[train, alone] * rounds), *[others] * (s.gpus - 1)]
    return Story(lanes, accepts={OPEN: {"communicating/straggler"}})


@kind(boards=NVLINKED, shapes=((1, 4), (1, 8)))
def pipeline_bubbles(s: Setting) -> Story:
    """Pipeline parallel with few microbatches: a bubble of (p - 1) / (m + p - 1), spent in a receive that spins.

    GPipe and Megatron-LM's formula; no cause of the ledger beside communication.
    """
    stages, micro = s.gpus, int(s.rng.choice([8, 16, 32]))
    bubble = (stages - 1) / (micro + stages - 1)
    step = s.pick(2, 10)
    spin = phase(OPEN, s.spinning(1e10), FED)
    lanes = []
    load = s.loading()
    for rank in range(stages):
        first = bubble * rank / (stages - 1)
        parts = ((spin, step * first, 0.0), (s.work(), step * (1 - bubble), 0.0), (spin, step * (bubble - first), 0.0))
        lanes.append(s.lane(load, s.steps(s.seconds, *[part for part in parts if part[1] > 0])))
    return Story(lanes)


@kind(shapes=((1, 2), (1, 4)))
def in_turns(s: Setting) -> Story:
    """Layers spread over the GPUs of one process: memory on all, one computes at a time.

    huggingface/trl#2256 (the verdicts' c21). No cause of the ledger; no input is waited for.
    """
    step = s.pick(0.3, 2.5)
    rest = phase(OPEN, s.board.waiting(), {"cpu": 1.0 / s.gpus, "mem": 6, "runq": 0.002, "blocked": 0.002})
    load = s.loading()
    works = s.work({"cpu": 1.0 / s.gpus, "workers": 0})
    lanes = []
    for rank in range(s.gpus):
        one = step / s.gpus
        parts = ((rest, one * rank, 0.0), (works, one, 0.0), (rest, one * (s.gpus - 1 - rank), 0.0))
        lanes.append(s.lane(load, s.steps(s.seconds, *[part for part in parts if part[1] > 0])))
    return Story(lanes, suspected=frozenset({"turns"}))


@kind(boards=HOPPER, shapes=((1, 8), (2, 8)), copies=1)
def reinforcement_roles(s: Setting) -> Story:
    """Generators beside trainers: the trainers wait for rollouts for half of a step, the generators for nobody.

    vllm-project/vime#358: 97.2 of 178.3 s of a step are the trainers' wait. It is no loader's input.
    """
    step, share = s.pick(100, 200), s.pick(0.45, 0.6)
    quiet = {"cpu": 1.2, "mem": 12, "runq": 0.002, "blocked": 0.002, "workers": 0}
    decode = phase("productive/decode", s.board.working(0.6, 0.6, 0.07, 0.65), quiet)
    sync = phase("communicating/collective", s.spinning(5e10), quiet)
    wait = phase(OPEN, s.board.waiting(), quiet)
    works = s.work(quiet)
    load = s.loading()
    makes = s.lane(load, s.steps(s.seconds, (decode, step * 0.97, 0.0), (sync, step * 0.03, 0.0)))
    parts = (wait, step * share, 0.0), (works, step * (0.97 - share), 0.0), (sync, step * 0.03, 0.0)
    learns = s.lane(load, s.steps(s.seconds, *parts))
    return Story([makes] * (s.gpus // 2) + [learns] * (s.gpus // 2), name="grpo")


@kind(boards=("H100-80GB", "A100-80GB"), shapes=((2, 4), (2, 8)), copies=1)
def mixed_boards(s: Setting) -> Story:
    """A job over two makes of boards: with equal batches the faster wait for the slower in every step.

    what-users-ask.md: stragglers throttle synchronous steps; Gavel (OSDI'20): A100s and H100s differ 1.5-3 times.
    The placement is at fault and no board: the ledger may tell it as a straggler, or as communication.
    """
    slower = {"H100-80GB": "A100-80GB", "A100-80GB": "L40S-48GB"}[s.board.sku]
    s.fabric = "infiniband"
    step, share, load = s.pick(0.5, 3), s.pick(0.4, 0.65), s.loading()
    works, spin = s.work(), phase(OPEN, s.spinning(), FED)
    swap = phase("communicating/collective", s.spinning(4e10), FED, s.peers(4e9))
    parts = (works, step * share, 0.0), (spin, step * (1 - share), 0.0), (swap, 0.04 * step, 0.0)
    early = s.lane(load, s.steps(s.seconds, *parts))
    faster, s.board = s.board, BOARDS[slower]
    slow = phase("communicating/collective", s.spinning(), FED, s.peers(4e9))
    late = s.lane(load, s.steps(s.seconds, (s.work(), step, 0.0), (slow, 0.04 * step, 0.0)))
    s.board, s.others = faster, {1: BOARDS[slower]}
    lanes = [early] * s.gpus_per_host + [late] * s.gpus_per_host
    return Story(lanes, accepts={OPEN: {"communicating/straggler"}})
