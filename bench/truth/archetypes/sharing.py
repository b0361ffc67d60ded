"""Two runs on the same GPUs, by time slicing or MPS: sensors show the sum, and what is true of one is not of the other.

By the ledger's definition each of them has half of every millisecond. Published: 66.8% of the samples of serving and
notebooks are 0 (Alibaba GenTD26), which is why they are packed. Under time slicing the driver tells each process's
share of SM time (nvmlDeviceGetProcessUtilization), under MPS it does not: one half of these runs each.
"""

from dataclasses import replace

from bench.truth.archetypes import loaders
from bench.truth.archetypes.idle import at_rest, decoding, told
from bench.truth.archetypes.phases import compute, start
from bench.truth.archetypes.training import FED, STALLS, a_step, wait
from bench.truth.draw import GIB, Beside, Draw
from bench.truth.kinds import Kind
from bench.truth.tape import Part

HALF = 0.5


def _beside(part: Part, other: Kind) -> Part:
    assert isinstance(part.seen, Kind), "BUG: a phase of one run"
    return replace(part, seen=(part.seen.but(own_sm=part.seen.values["utilization"]), other))


def _with_a_session(draw: Draw, work: Kind, parts: list[Part], name: str) -> None:
    """Play steps of one run, and beside them a session that holds memory and is used in short bursts."""
    held = draw.uniform(2, 12) * GIB
    draw.beside, draw.tells_sharers = Beside(name, 1, is_interactive=True), draw.chance(HALF)
    quiet = at_rest(draw, held).being("held_idle", "held_memory")
    used = quiet.but(cores=1.1, own_sm=HALF).being("productive", "compute")
    turns = work.but(own_sm=HALF)
    start(draw, work, beside=quiet.being("starting", "model_load"))
    draw.tape.play((turns, used), draw.log_uniform(10, 60))
    while draw.tape.left > 0:
        draw.tape.steps([_beside(part, quiet) for part in parts], draw.step, draw.log_uniform(600, 3600))
        draw.tape.play((turns, used), draw.log_uniform(10, 60))


def shared_trainer(draw: Draw) -> None:
    """Training that is fed, on a GPU that a session holds as well and hardly uses."""
    work = compute(draw).but(**loaders.fed(draw))
    parts = a_step(draw, work, wait(draw, work, "loader_software", draw.uniform(*FED)))
    _with_a_session(draw, work, parts, "shared_trainer: its session")


def shared_starved(draw: Draw) -> None:
    """Training that waits for its disk, on a GPU that a session holds as well and hardly uses."""
    work = compute(draw).but(**loaders.slow_disk(draw))
    parts = a_step(draw, work, wait(draw, work, "storage", draw.uniform(*STALLS)))
    _with_a_session(draw, work, parts, "shared_starved: its session")


def shared_services(draw: Draw) -> None:
    """Two services on one GPU, one busy and one hardly asked: each is in its headroom where it has no request."""
    draw.is_service, draw.workers, draw.slo_seconds = True, 0, draw.uniform(0.2, 3.0)
    draw.beside = Beside("shared_services: the quiet one", 1, is_service=True, slo_seconds=draw.uniform(0.2, 3.0))
    draw.tells_sharers = draw.chance(HALF)
    much, little = draw.uniform(0.4, 0.9), draw.uniform(0.03, 0.25)
    first = decoding(draw).but(**told(draw, draw.log_uniform(1, 20), draw.uniform(4, 64)))
    second = decoding(draw).but(**told(draw, draw.log_uniform(0.3, 3), draw.uniform(1, 6)))
    rests = at_rest(draw, first.values["memory"]).but(power=draw.uniform(0.14, 0.2)).being("headroom", "declared")
    off = dict.fromkeys(("requests", "tokens_in", "tokens_out", "running"), 0.0)
    start(draw, first.but(**off), beside=rests.being("starting", "model_load"))
    alone = first.but(**off).being("headroom", "declared")  # the second one's kernels, as the GPU shows them
    states = [
        Part((first.but(own_sm=1.0), rests), much * (1 - little), 0.5, 0.2),
        Part((first.but(own_sm=HALF), second.but(own_sm=HALF)), much * little, 0.5, 0.2),
        Part((alone, second.but(own_sm=1.0)), (1 - much) * little, 0.5, 0.2),
        Part((rests, rests), (1 - much) * (1 - little), 0.5, 0.2),
    ]
    draw.tape.steps(states, draw.log_uniform(2, 120), draw.tape.left)
