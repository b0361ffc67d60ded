"""Controls: runs that lose nothing that anybody could give back, though one sensor or another looks as if they did."""

from bench.published.boards import HOPPER, NVLINKED
from bench.published.lanes import phase, stretch
from bench.published.setting import FED, GANG, OPEN, Setting, Story, kind


@kind(fed=True)
def fed_compute(s: Setting) -> Story:
    """A training that is bound by its tensor cores: SM .8 and more (DCGM's guidance, algorithms.md 1.1)."""
    return Story(s.together(s.loading(), s.training(s.seconds)))


@kind(fed=True)
def fed_bandwidth(s: Setting) -> Story:
    """Bound by memory bandwidth: embeddings, graph networks. Tensor cores rest; DRAM peaks at .8 (DCGM)."""
    gpu = s.board.working(s.pick(0.5, 0.68), s.pick(0.7, 0.9), s.pick(0.01, 0.05), s.pick(0.6, 0.8))
    work = phase("productive/memory_bandwidth", gpu, FED)
    return Story(s.together(s.loading(), s.steps(s.seconds, (work, s.pick(0.2, 2), 0.05))))


@kind(fed=True, shapes=((1, 1), (1, 2), (1, 4)))
def fed_decode(s: Setting) -> Story:
    """A batch of prompts decoded offline: D > .5, tensor cores low (algorithms.md 1.2). Not starvation."""
    gpu = s.board.working(s.pick(0.5, 0.7), s.pick(0.45, 0.75), s.pick(0.03, 0.09), s.pick(0.55, 0.8))
    work = phase(
        "productive/decode", gpu, {"cpu": 1.3, "runq": 0.002, "blocked": 0.001, "mem": 8}, hbm=0.9 * s.board.memory_gib
    )
    return Story(s.together(s.loading(), s.steps(s.seconds, (work, 5.0, 0.1))), name="batch-generate")


@kind(fed=True)
def fed_pauses(s: Setting) -> Story:
    """Every ten minutes some 15 s of validation and logging at lower load: 2 % of the time, nothing to give back."""
    lower = s.work(truth="productive/evaluation").but(s.board.running(0.45), sm=0.6, util=0.9)
    part = s.steps(s.pick(400, 700), (s.work(), s.pick(0.3, 2.0), 0.04))
    pause = stretch(lower, s.pick(8, 18))
    rounds = int(s.seconds / (part.length + pause.length)) + 1
    return Story(s.together(s.loading(), *[part, pause] * rounds))


@kind(fed=True, shapes=GANG)
def fed_reading(s: Setting) -> Story:
    """Four to eight ranks with eight workers each that read steadily, well below the disk, and are fed.

    Of n tasks that each wait 1-4 % some waits 20-90 % of the time (kernel, psi.rst): no pressure of a starved run.
    """
    host = {"blocked": s.pick(0.006, 0.035), "workers": 8, "waiting": 0.02, "read": s.pick(4e7, 1.2e8), "rwait": 0.2}
    return Story(
        s.together(s.loading(), s.training(s.seconds, host, {"busy": s.pick(0.15, 0.45), "busiest": 0.45, "cpu": 3.0}))
    )


@kind(fed=True, shapes=((1, 1), (1, 2), (1, 4)))
def fed_full_cores(s: Setting) -> Story:
    """Every core full of threads that spin; step times are the same without them.

    shootthesound/Fizgig#18 (the verdicts' c23).
    """
    full = 0.98 * s.cores / s.gpus_per_host
    return Story(
        s.together(
            s.loading(), s.training(s.seconds, {"cpu": full, "runq": s.pick(0.1, 0.4), "workers": 0, "busiest": 0.0})
        )
    )


@kind(fed=True)
def fed_full_disk(s: Setting) -> Story:
    """A disk that somebody else keeps busy: 100 %, long waits, and a run that reads from the page cache."""
    host = {"busy": s.pick(0.9, 1.0), "read": s.pick(1e8, 3e8) / s.gpus_per_host, "rwait": 2.0, "blocked": 0.02}
    return Story(s.together(s.loading(), s.training(s.seconds, host)))


@kind(boards=HOPPER, fed=True, shapes=((2, 8), (4, 8)), copies=1)
def fed_pretraining(s: Setting) -> Story:
    """A pretraining over hosts of one rack on InfiniBand: exchange hidden but for 3-6 %, SM .85, short saves.

    Acme (NSDI'24): medians of 97-99 % utilization; nccl#29: 12.2 GB/s of a 100 Gb/s port, as good as can be.
    """
    s.fabric, s.racks = "infiniband", ["r-one"] * s.hosts
    exchange = phase("communicating/collective", s.spinning(6e10), FED, peers=5e9)
    step, share = s.pick(2, 9), s.pick(0.03, 0.06)
    part = s.steps(
        s.pick(1500, 2400), (s.work({"peers": 2e9}), step * (1 - share), 0.02), (exchange, step * share, 0.1)
    )
    save = stretch(phase("checkpointing/storage", s.board.waiting(), FED, write=1e9, d2h=5e9), s.pick(6, 15))
    rounds = int(s.seconds / (part.length + save.length)) + 1
    return Story(s.together(s.loading(), *[part, save] * rounds))


@kind(boards=NVLINKED, fed=True, shapes=((1, 8),), copies=1)
def reinforcement_in_turns(s: Setting) -> Story:
    """Generation and update take turns on the same GPUs: decode, then training, both at work.

    algorithms.md 1.6: D-high and T-high phases alternate; verl's colocated mode.
    """
    decode = phase("productive/decode", s.board.working(0.6, 0.55, 0.06, 0.65), FED)
    swap = phase("unexplained/", s.board.waiting(), FED, h2d=5e9, d2h=5e9)
    parts = (decode, s.pick(60, 140), 0.1), (swap, 2.0, 0.2), (s.work(), s.pick(40, 90), 0.1)
    return Story(s.together(s.loading(), s.steps(s.seconds, *parts)), accepts={"unexplained/": {OPEN}})
