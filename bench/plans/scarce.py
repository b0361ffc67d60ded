"""Task graphs in which GPUs are scarce, by size and seed: the kind on which the reference compared solvers.

Its own instances are not kept. These have the nodes of its example over and over (one GPU, a local SSD, cores alone), a
rack for each three, and tasks of 10 min to 4 h of which a quarter needs a GPU and a quarter an SSD. As there, the
longest path or the GPUs' hours bound them, and HEFT is a tenth above the bound, more or less.
"""

from dataclasses import replace
from random import Random

from agent.wire.units import GB
from analyzer.capacity.planner.problem import Duration, Input, Node, Problem, Task

MINUTE = 60
KINDS = (
    Node("gpu", 16, 128 * GB, gpus=1, hbm_bytes=80 * GB),
    Node("ssd", 32, 128 * GB, ssd_bytes=2000 * GB),
    Node("cpu", 16, 64 * GB),
)


def scarce(seed: int, tasks: int, nodes: int) -> Problem:
    """Return the problem of a seed and a size."""
    random = Random(seed)
    made = [_task(random, number) for number in range(tasks)]
    named = [replace(KINDS[at % len(KINDS)], name=f"n{at}", rack=f"r{at // len(KINDS)}") for at in range(nodes)]
    return Problem(tuple(made), tuple(named))


def _task(random: Random, number: int) -> Task:
    kind = random.choice(("gpu", "ssd", "cpu", "cpu"))
    waits = random.sample(range(number), min(number, random.choice((0, 1, 1, 2))))
    inputs = tuple(Input(f"t{before}", random.choice((0, 1, 5, 10, 20)) * GB) for before in waits)
    return Task(
        f"t{number}",
        cpus=random.choice((2, 4, 8, 16)),
        memory_bytes=random.choice((8, 16, 32, 64)) * GB,
        duration=Duration.of(random.randint(10, 240) * MINUTE),
        gpus=int(kind == "gpu"),
        needs_ssd=kind == "ssd",
        avoids_gpu_nodes=kind == "cpu" and random.random() < 0.5,
        inputs=inputs,
    )
