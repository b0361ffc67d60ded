"""What comes before the first step: an image that is pulled or unpacked, a checkpoint that is read.

Published: images of machine learning take 5 to 20 GB, and one of 10 GB takes four to five minutes of `docker pull`
(Union.ai), of 15 GB ten and more (Tensorfuse); unpacked they are about twice as large. A pod's cgroup holds the pause
container alone until then, under a megabyte. A restore reads 2 (weights) to 16 bytes a parameter (with the optimizer's
state), from drives of 0.5 to 7 GB/s or over links of 10 to 100 Gbit/s; Meta tells of starts that take minutes.
"""

from bench.truth.archetypes import loaders
from bench.truth.archetypes.idle import at_rest
from bench.truth.archetypes.phases import compute, start
from bench.truth.archetypes.training import FED, a_step, wait
from bench.truth.draw import GIB, Draw
from bench.truth.kinds import Kind

IMAGE_BYTES = (5e9, 2e10)
PULLED_BYTES_PER_SECOND = (2.5e7, 2.5e8)
UNPACKED = 2.0  # bytes on the disk for each of the registry's
LONGEST_PULL = 600.0
PAUSE_BYTES = (2e5, 7e5)
READ_BYTES_PER_SECOND = (3e8, 5e9)


def _bare(draw: Draw, work: Kind) -> Kind:
    """Return a GPU that nobody has opened yet."""
    floor = draw.machine.idle_watts / draw.machine.limit_watts
    return at_rest(draw, 0.0).but(clock=0.175, power=floor, cores=0.1, host_memory=work.values["host_memory"])


def _pull(draw: Draw, *, by_itself: bool) -> None:
    work = compute(draw).but(**loaders.fed(draw))
    size = draw.log_uniform(*IMAGE_BYTES)
    seconds = min(LONGEST_PULL, size / draw.log_uniform(*PULLED_BYTES_PER_SECOND)) // 10 * 10 + 10
    written = UNPACKED * size / seconds
    still = _bare(draw, work).but(ethernet_in=size / seconds, disk_busy=draw.uniform(0.05, 0.6))
    if by_itself:
        still = still.but(disk_written=written, host_memory=draw.uniform(0.1, 2) * GIB, cores=draw.uniform(1, 8))
    else:
        still = still.but(others_disk_written=written, host_memory=draw.uniform(*PAUSE_BYTES), cores=0.0)
    draw.process_from = seconds
    draw.tape.play(still.being("starting", "image_pull"), seconds)
    start(draw, work)
    parts = a_step(draw, work, wait(draw, work, "loader_software", draw.uniform(*FED)))
    draw.tape.steps(parts, draw.uniform(0.3, 3.0), draw.tape.left)


def pod_pulls_image(draw: Draw) -> None:
    """A pod whose image comes first: its node's runtime writes it, and no process of the run exists."""
    draw.scheduler = "kubernetes"
    _pull(draw, by_itself=False)


def unpacks_image(draw: Draw) -> None:
    """A job that unpacks its image itself before it does anything else (enroot, apptainer)."""
    _pull(draw, by_itself=True)


def restore(draw: Draw, work: Kind) -> None:
    """Play the start of an attempt that goes on from a checkpoint: it is read, then the first steps."""
    seconds = draw.log_uniform(30, 480)
    size = min(draw.log_uniform(2, 16) * draw.log_uniform(5e8, 7e9), seconds * draw.log_uniform(*READ_BYTES_PER_SECOND))
    still = at_rest(draw, 0.6 * work.values["memory"]).but(disk_read=size / seconds, io_pressure=draw.uniform(0, 0.5))
    still = still.but(disk_busy=draw.uniform(0.05, 0.9), disk_waited=draw.uniform(0.1, 2), cores=draw.uniform(0.8, 2.5))
    draw.tape.play(still.being("starting", "restore"), seconds)
    warm = still.but(utilization=0.2, sm=0.08, tensor=0.02, dram=0.05, power=0.3, disk_read=0.0, disk_busy=0.0)
    draw.tape.play(warm.being("starting", "warm_up"), draw.log_uniform(20, 180))


def resumed(draw: Draw) -> None:
    """A job of its own that continues an earlier one, as chains under time limits do: it begins with a restore."""
    draw.restarts_of = f"slurm/truth/{int(draw.rng.integers(10**9, 2 * 10**9))}"
    work = compute(draw).but(**loaders.fed(draw))
    restore(draw, work)
    parts = a_step(draw, work, wait(draw, work, "loader_software", draw.uniform(*FED)))
    draw.tape.steps(parts, draw.uniform(0.3, 3.0), draw.tape.left)
