"""Runs that hold GPUs and do nothing with them for part of the time, and services.

Published: 66.8% of serving and notebook samples are 0 (Alibaba GenTD26); a run that has not yet worked is starting for
15 minutes at most, then its GPU was never used (DESIGN's table of states); decoding keeps DRAM over half its bandwidth.
"""

from bench.truth.archetypes import loaders
from bench.truth.archetypes.phases import blocked, compute, start
from bench.truth.archetypes.training import FED, a_step, wait
from bench.truth.draw import GIB, Draw
from bench.truth.kinds import Kind
from bench.truth.tape import Part

STARTING_SECONDS = 900


def at_rest(draw: Draw, memory: float) -> Kind:
    """Return a process that sits: a context, its memory, power a little over the idle floor."""
    floor = draw.machine.idle_watts / draw.machine.limit_watts
    still = blocked(draw, compute(draw)).but(memory=memory, power=floor * draw.uniform(1.0, 1.6))
    return still.but(**loaders.nothing(draw, cores=0.02))


def never_used(draw: Draw) -> None:
    """A GPU that its run never touches, with a context or without."""
    memory = draw.uniform(0.3, 60) * GIB if draw.chance(0.5) else 0.0
    draw.workers = 0 if memory else None
    still = at_rest(draw, memory).but(clock=1.0 if memory else 0.175)
    draw.tape.play(still.being("starting", "model_load"), STARTING_SECONDS)
    draw.tape.play(still.being("held_idle", "never_used"), draw.tape.left)


def abandoned(draw: Draw) -> None:
    """Training that ended, and an allocation that did not."""
    work = compute(draw).but(**loaders.fed(draw))
    start(draw, work)
    parts = a_step(draw, work, wait(draw, work, "loader_software", draw.uniform(*FED)))
    draw.tape.steps(parts, draw.uniform(0.3, 3.0), draw.uniform(900, 3600))
    memory = draw.memory_gib * GIB if draw.chance(0.6) else 0.0
    draw.tape.play(at_rest(draw, memory).being("held_idle", "abandoned"), draw.tape.left)


def notebook(draw: Draw) -> None:
    """A session used in bursts, its memory held between them."""
    draw.is_interactive, draw.workers = True, 0
    memory = draw.uniform(4, 60) * GIB
    cell = compute(draw).but(sm=draw.uniform(0.3, 0.85), power=draw.uniform(0.4, 0.8), memory=memory)
    cell = cell.but(**loaders.nothing(draw, cores=1.1))
    held = at_rest(draw, memory).being("held_idle", "held_memory")
    start(draw, cell)
    while draw.tape.left > 0:
        draw.tape.play(cell, draw.log_uniform(10, 600))
        draw.tape.play(held, draw.log_uniform(60, 1800))


def _service(draw: Draw, busy: Kind, share: float, length: float) -> None:
    """Play requests and the pauses between them, busy for this share of the time."""
    draw.is_service, draw.workers, draw.slo_seconds = True, 0, draw.uniform(0.2, 3.0)
    ready = at_rest(draw, busy.values["memory"]).but(power=draw.uniform(0.14, 0.2)).being("headroom", "declared")
    start(draw, busy.but(requests=0.0, tokens_in=0.0, tokens_out=0.0, running=0.0))
    parts = [Part(busy, share, 0.5, 0.2), Part(ready, 1 - share, 0.7, 0.1)]
    draw.tape.steps(parts, length, draw.tape.left)


def told(draw: Draw, rate: float, running: float) -> dict[str, float]:
    """Return what a busy service counts, at this rate of requests, so many at a time."""
    out = draw.log_uniform(60, 600)
    counts = {"requests": rate, "tokens_in": rate * draw.log_uniform(100, 2000), "tokens_out": rate * out}
    counts |= {"running": running, "kv_cache": draw.uniform(0.05, 0.8), "first_token_seconds": draw.uniform(0.05, 0.6)}
    return counts | {"ethernet_in": rate * 4e3, "ethernet_out": rate * 4e3}


def decoding(draw: Draw) -> Kind:
    """Return a language model's decoding of a batch."""
    kind = compute(draw).but(sm=draw.uniform(0.3, 0.65), tensor=draw.uniform(0.02, 0.1), dram=draw.uniform(0.5, 0.8))
    kind = kind.but(occupancy=draw.uniform(0.1, 0.25), power=draw.uniform(0.45, 0.68), pcie_in=1e7, pcie_out=1e7)
    if draw.cell.ranks > 1:
        kind = kind.but(nvlink=draw.log_uniform(1e9, 4e10))
    return kind.but(**loaders.nothing(draw, cores=1.4)).being("productive", "decode")


def serving_batched(draw: Draw) -> None:
    """A language model that decodes batches most of the time: memory bandwidth busy, tensor cores quiet."""
    busy = decoding(draw).but(**told(draw, draw.log_uniform(0.5, 20), draw.uniform(8, 128)))
    _service(draw, busy, draw.uniform(0.6, 0.99), draw.log_uniform(5, 120))


def serving_mostly_idle(draw: Draw) -> None:
    """A service whose GPU stands still for most of the time between requests, with its memory held."""
    busy = decoding(draw).but(**told(draw, draw.log_uniform(0.3, 4), draw.uniform(3, 12)))
    _service(draw, busy, draw.uniform(0.08, 0.4), draw.log_uniform(1, 60))


def serving_unbatched(draw: Draw) -> None:
    """Requests one by one: a kernel is always resident while one is worked on, and most of the chip idle."""
    busy = decoding(draw).but(sm=draw.uniform(0.05, 0.2), dram=draw.uniform(0.05, 0.3), power=draw.uniform(0.22, 0.4))
    busy = busy.but(**told(draw, draw.log_uniform(0.5, 10), 1.0)).being("underused", "unbatched")
    _service(draw, busy, draw.uniform(0.5, 0.98), draw.log_uniform(0.3, 5))


def serving_dead(draw: Draw) -> None:
    """A service that nobody asks: its counter stands still, and so does the GPU."""
    busy = decoding(draw)
    draw.is_service, draw.workers, draw.slo_seconds = True, 0, draw.uniform(0.2, 3.0)
    still = at_rest(draw, busy.values["memory"])
    start(draw, busy)
    draw.tape.play(still.being("held_idle", "held_memory"), draw.tape.left)
