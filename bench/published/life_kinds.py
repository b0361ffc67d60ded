"""What happens around the work: GPUs held and not used, long starts, saves, failures, and services."""

from bench.published.boards import HOPPER, NVLINKED
from bench.published.lanes import Piece, phase, stretch
from bench.published.setting import FED, Disk, Setting, Story, kind

_ANY_IDLE = {"held_idle/never_used", "held_idle/held_memory", "held_idle/abandoned"}


def _idle(s: Setting, cause: str, seconds: float, hbm: float = 0.3) -> Piece:
    return stretch(phase(f"held_idle/{cause}", s.board.waiting(hbm), {"cpu": 0.03, "mem": 5}), seconds)


@kind(shapes=((1, 1), (1, 2)))
def notebook(s: Setting) -> Story:
    """A notebook: cells of minutes between pauses of quarter and half hours, memory kept all along.

    jobstats' interactive jobs (util <= 15 %); Acme (NSDI'24): utilization is polarised at 0 and 100 %.
    """
    pieces: list[Piece] = [s.loading(40)]
    while sum(piece.length for piece in pieces) < s.seconds:
        pieces += [s.steps(s.pick(90, 600), (s.work(), 0.5, 0.1)), _idle(s, "held_memory", s.pick(1000, 2600))]
    accepts = {"held_idle/held_memory": _ANY_IDLE}
    return Story(s.together(*pieces), status="cancelled", name="jupyter", queue="interactive", accepts=accepts)


@kind(shapes=((1, 2), (1, 4), (1, 8)))
def never_used(s: Setting) -> Story:
    """A job holds several GPUs, its process uses the first: the others stay at 0 %.

    microsoft/nni#3369 (the verdicts' c14); slurm-job-exporter#65.
    """
    used = s.lane(s.loading(60), s.training(s.seconds))
    idle = phase("held_idle/never_used", s.board.unheld(), hbm=0.004)
    first = stretch(phase("starting/model_load", s.board.unheld(), hbm=0.004), 60)
    unused = s.lane(first, stretch(idle, used.end - used.ends[0] - 60))
    accepts = {"held_idle/never_used": _ANY_IDLE | {"starting/warm_up", "starting/model_load"}}
    return Story([used, *[unused] * (s.gpus - 1)], accepts=accepts)


@kind()
def abandoned(s: Setting) -> Story:
    """The work ends, the pod sleeps on with its memory: job_defense_shield cancels after two hours of 0 %."""
    train = s.training(s.pick(1500, 3000))
    rest = _idle(s, "abandoned", s.pick(4000, 6500))
    lanes = s.together(s.loading(), train, rest)
    return Story(lanes, status="cancelled", scheduler="kubernetes", accepts={"held_idle/abandoned": _ANY_IDLE})


@kind(shapes=((1, 1), (1, 2), (1, 4)))
def long_compile(s: Setting) -> Story:
    """Twenty to forty minutes of compiling before the first step: processors work, the GPU is tried in short bursts.

    vllm-project/vllm#34399: torch.compile takes 2,222 s in total. A start is overhead: nobody idles.
    """
    compiling = phase("starting/warm_up", s.board.waiting(0.2), {"cpu": s.pick(4, 10), "mem": 14, "runq": 0.01})
    trial = phase("starting/warm_up", s.board.working(0.3, 0.3, 0.1, 0.2), {"cpu": 2.0, "mem": 14})
    start = s.steps(s.pick(1200, 2300), (compiling, 40, 0.3), (trial, 0.6, 0.5))
    lanes = s.together(s.loading(), start, s.training(s.seconds))
    accepts = {"starting/warm_up": {"starting/model_load", "unexplained/"}}
    return Story(lanes, accepts=accepts, suspected=frozenset({"own_process"}))


@kind(shapes=((1, 2), (1, 4), (1, 8)))
def long_load(s: Setting) -> Story:
    """Weights read from a network mount for 20 to 43 minutes before the first step.

    modelplaneai/modelplane#204 (the verdicts' c13): 2,580 s. Starting, or waiting for network storage; nobody idles.
    """
    rate = s.pick(2e8, 5e8)
    memory = s.board.waiting(0.5)
    host = {"cpu": 0.6, "read": rate / s.gpus, "blocked": 0.6, "rwait": 4.0, "mem": 30}
    start = stretch(phase("starting/model_load", memory, host), s.pick(1200, 2580))
    accepts = {
        "starting/model_load": {"starting/warm_up", "starting/restore", "starved/network_storage", "unexplained/"}
    }
    return Story(s.together(start, s.training(s.seconds)), Disk("/models", "nfs", 1e6), accepts=accepts)


def _saving(s: Setting, cause: str, seconds: float, every: float, rate: float) -> list[Piece]:
    """Return rounds of training and saving: copies off the GPU, then a burst to where the state is kept."""
    host = {"cpu": 1.1, "write": rate / s.gpus, "busy": 0.9, "blocked": 0.25, "mem": 30, "workers": 4, "waiting": 0.05}
    save = phase(f"checkpointing/{cause}", s.board.waiting(), host, d2h=3e9)
    pieces: list[Piece] = [s.loading()]
    while sum(piece.length for piece in pieces) < s.seconds:
        pieces += [s.training(every * s.pick(0.9, 1.1)), stretch(save, seconds * s.pick(0.85, 1.15))]
    return pieces


@kind(shapes=((1, 4), (1, 8)))
def saves_short(s: Setting) -> Story:
    """A sharded save to local NVMe of 8-20 s every ten to twenty minutes (gcs-connector-for-pytorch#174: 6.4, 18.6)."""
    return Story(s.together(*_saving(s, "storage", s.pick(8, 20), s.pick(600, 1200), s.pick(1.5e9, 4e9))))


@kind(boards=NVLINKED, shapes=((1, 4), (1, 8), (2, 8)))
def saves_long(s: Setting) -> Story:
    """The whole state to a network mount for 2-7 minutes every half hour.

    epfLLM/Megatron-LLM#69: 5 and 15 minutes of 13 B parameters; OpenMOSS/MOVA#68: over 400 s.
    """
    pieces = _saving(s, "network", s.pick(120, 420), s.pick(1500, 2200), s.pick(3e8, 1e9))
    accepts = {"checkpointing/network": {"checkpointing/storage"}}
    return Story(s.together(*pieces), Disk("/ckpt", "nfs", 1e6), accepts=accepts)


def _failing(s: Setting, status: str, why: str, *, torn: bool) -> Story:
    """Return a run that ends in a failure; where `torn`, in the middle of a save, and only the one before is whole."""
    pieces = _saving(s, "storage", s.pick(15, 40), s.pick(700, 1300), s.pick(1.5e9, 4e9))
    if torn:
        pieces[-1] = stretch(pieces[-1].phases[0], pieces[-1].length * s.pick(0.3, 0.7))
        whole = pieces[:-2]
    else:
        whole = list(pieces)
        pieces.append(s.training(s.pick(300, 1100)))
    moments, t = [], s.start
    for piece in whole:
        t += piece.length
        moments += [t] if piece.phases[0].truth[0][0].startswith("checkpointing") else []
    told = tuple(moments) if s.rng.random() < 0.4 else ()
    return Story(s.together(*pieces), status=status, lost=(moments[-1], why), checkpoints=told)


@kind(shapes=((1, 4), (1, 8)))
def failed(s: Setting) -> Story:
    """A run fails; what it did since its last save is lost. Acme (NSDI'24): 40 % of jobs fail."""
    return _failing(s, "failed", "failed", torn=False)


@kind(boards=NVLINKED, shapes=((1, 4), (1, 8)))
def failed_saving(s: Setting) -> Story:
    """A run fails in the middle of a save: the state before is what counts.

    PyTorch's advice to write beside and rename; OpenMOSS/MOVA#68: saves that time out.
    """
    return _failing(s, "failed", "failed", torn=True)


@kind(shapes=((1, 4), (1, 8)), copies=1)
def preempted(s: Setting) -> Story:
    """The scheduler takes the GPUs back between two saves (spot, what-users-ask.md)."""
    return _failing(s, "preempted", "preempted", torn=False)


_SERVER = {"cpu": 1.2, "mem": 10, "runq": 0.002, "blocked": 0.001, "workers": 1, "busiest": 0.5}


@kind(fed=True, shapes=((1, 1), (1, 2), (1, 4)))
def service_busy(s: Setting) -> Story:
    """A service that decodes all the time, with requests in every second: D > .5 (algorithms.md 1.2)."""
    gpu = s.board.working(s.pick(0.5, 0.7), s.pick(0.5, 0.75), s.pick(0.04, 0.09), s.pick(0.55, 0.75))
    asked = {"requests": s.pick(2, 9), "tokens": s.pick(800, 2500), "running": s.pick(8, 40), "kv": s.pick(0.3, 0.7)}
    busy = phase("productive/decode", gpu, _SERVER, asked, hbm=0.9 * s.board.memory_gib)
    body = s.steps(s.seconds, (busy, 5, 0.2))
    return Story(s.together(s.loading(), body), service=True, name="vllm", scheduler="kubernetes")


@kind(fed=True, boards=HOPPER, shapes=((1, 1), (1, 2)))
def service_overloaded(s: Setting) -> Story:
    """Requests queue, the cache is full, the GPU at its work: too few replicas, and no second of these is wasted."""
    gpu = s.board.working(s.pick(0.6, 0.75), s.pick(0.6, 0.8), s.pick(0.05, 0.09), s.pick(0.65, 0.8))
    asked = {"requests": 6, "tokens": 3000, "running": 64, "queued": s.pick(20, 150), "kv": 0.99, "late": s.pick(4, 20)}
    busy = phase("productive/decode", gpu, _SERVER, asked, hbm=0.92 * s.board.memory_gib)
    body = s.steps(s.seconds, (busy, 5, 0.2))
    return Story(s.together(s.loading(), body), service=True, name="vllm", scheduler="kubernetes")


@kind(shapes=((1, 1), (1, 2)))
def service_sparse(s: Setting) -> Story:
    """A service with a request a minute or so: between them a reserve, which no policy limits (docs/serving.md)."""
    asked = {"requests": 0.5, "tokens": 60, "running": 1, "kv": 0.02}
    gpu = s.board.working(0.45, 0.45, 0.04, 0.5)
    answer = phase("productive/decode", gpu, _SERVER, asked, hbm=0.9 * s.board.memory_gib)
    ready = phase("headroom/declared", s.board.waiting(0.9), _SERVER)
    body = s.steps(s.seconds, (ready, s.pick(25, 90), 0.8), (answer, s.pick(4, 12), 0.5))
    accepts = {"productive/decode": {"underused/unbatched", "headroom/declared"}}
    return Story(s.together(s.loading(), body), service=True, name="vllm", scheduler="kubernetes", accepts=accepts)


@kind(shapes=((1, 1), (1, 2), (1, 4)))
def service_unasked(s: Setting) -> Story:
    """A service that nobody asks for hours: abandoned (docs/serving.md), or a reserve where a policy is wanting."""
    some = s.board.working(0.45, 0.45, 0.04, 0.5)
    tried = phase("productive/decode", some, _SERVER, {"requests": 0.5, "tokens": 60, "running": 1, "kv": 0.02})
    left = phase("held_idle/abandoned", s.board.waiting(0.9), _SERVER, cpu=0.1)
    lanes = s.together(s.loading(), s.steps(120, (tried, 5, 0.2)), stretch(left, s.seconds))
    accepts = {"held_idle/abandoned": _ANY_IDLE | {"headroom/declared"}}
    return Story(lanes, service=True, name="vllm", scheduler="kubernetes", accepts=accepts)


@kind(shapes=((1, 1),))
def unbatched(s: Setting) -> Story:
    """A service that answers one request at a time while others wait: busy, with little of the chip.

    what-users-ask.md ("fixed batch at low traffic"); a server without continuous batching.
    """
    gpu = s.board.working(s.pick(0.12, 0.25), s.pick(0.12, 0.25), 0.02, s.pick(0.1, 0.25))
    asked = {"requests": s.pick(0.3, 1), "tokens": s.pick(25, 60), "running": 1, "queued": s.pick(2, 9), "kv": 0.02}
    one = phase(
        "underused/unbatched", gpu, _SERVER, FED | {"workers": 0, "read": 0}, asked, hbm=0.7 * s.board.memory_gib
    )
    accepts = {"underused/unbatched": {"underused/small_kernels", "underused/launch_bound"}}
    body = s.steps(s.seconds, (one, 5, 0.1))
    return Story(s.together(s.loading(), body), service=True, name="serve", scheduler="kubernetes", accepts=accepts)
