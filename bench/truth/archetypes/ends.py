"""Attempts that end before their work is done: what came after the last checkpoint is lost, and stays so labelled.

Published: four in ten jobs of Acme's cluster fail (NSDI'24); on Meta's research clusters jobs may be preempted once
they are two hours old (HPCA'25); checkpoints come every 5 to 60 minutes. What stood still or started is not lost a
second time: that is the ledger's definition of lost work.
"""

from collections.abc import Sequence

from bench.truth.archetypes import loaders
from bench.truth.archetypes.phases import compute, save, start
from bench.truth.archetypes.starts import restore
from bench.truth.archetypes.training import FED, a_step, wait
from bench.truth.draw import Draw
from bench.truth.kinds import Kind
from bench.truth.tape import Part

# How a scheduler says it, and what the ledger calls it.
FAILURES = {"failed": "failed", "out_of_memory": "failed", "timeout": "failed", "node_failed": "node_failed"}
TEN = 10  # seconds: what counters of hosts are read by


def _work(draw: Draw) -> tuple[Kind, list[Part]]:
    work = compute(draw).but(**loaders.fed(draw))
    return work, a_step(draw, work, wait(draw, work, "loader_software", draw.uniform(*FED)))


def _lost(parts: Sequence[Part], cause: str) -> list[Part]:
    found = []
    for part in parts:
        assert isinstance(part.seen, Kind)
        found.append(Part(part.seen.lost(cause), part.share, part.sigma, part.drift, part.every))
    return found


def _until_the_end(draw: Draw, work: Kind, parts: Sequence[Part], seconds: float, cause: str, *, saves: bool) -> None:
    """Play steps and checkpoints until `seconds` of the run: those since the last whole checkpoint are lost."""
    period, length = draw.uniform(300, 3600), draw.log_uniform(5, 60)
    size = min(draw.log_uniform(2, 16) * draw.log_uniform(5e8, 5e9), 4e9 * length / draw.ranks_per_node)
    remote = draw.mount_kind is not None and draw.chance(0.6)
    while saves and draw.tape.now + period + length < seconds:
        draw.tape.steps(parts, draw.step, period)
        save(draw, work, size, length, remote=remote)
    draw.tape.steps(_lost(parts, cause), draw.step, seconds - draw.tape.now)


def _fail(draw: Draw, *, saves: bool) -> None:
    draw.exit_status = str(draw.rng.choice(list(FAILURES)))
    work, parts = _work(draw)
    start(draw, work)
    _until_the_end(draw, work, parts, draw.tape.seconds, FAILURES[draw.exit_status], saves=saves)


def broke_off(draw: Draw) -> None:
    """A run that fails some time after its last checkpoint."""
    _fail(draw, saves=True)


def broke_off_unsaved(draw: Draw) -> None:
    """A run that fails and never wrote a checkpoint: all that it did is lost."""
    _fail(draw, saves=False)


def displaced(draw: Draw) -> None:
    """A run that has to make room, and goes on in a second attempt from its last checkpoint."""
    work, parts = _work(draw)
    first = draw.uniform(0.35, 0.8) * draw.tape.seconds // TEN * TEN
    draw.attempts = [(first, "preempted"), (draw.tape.seconds, "completed")]
    start(draw, work)
    _until_the_end(draw, work, parts, first, "preempted", saves=True)
    restore(draw, work)
    draw.tape.steps(parts, draw.step, draw.tape.left)
