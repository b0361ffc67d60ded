"""Steps of training, and runs that are in order or starved: the same steps, with and without a wait for input."""

from bench.truth.archetypes import loaders
from bench.truth.archetypes.loaders import Host
from bench.truth.archetypes.phases import blocked, compute, exchange, memory_bound, optimizer, save, start
from bench.truth.draw import GIB, Draw
from bench.truth.kinds import Kind
from bench.truth.tape import Part

# DS-Analyzer: fetch and preparation stalls take up to 65-70% of an epoch; TF Profiler: input-bound from 5%.
STALLS = (0.06, 0.70)
FED = (0.0, 0.015)  # what even a fed run waits


def a_step(draw: Draw, work: Kind, *waits: Part, exchanged: tuple[float, float] = (0.02, 0.10)) -> list[Part]:
    """Return the parts of a step: waits first, then kernels, the optimizer, launch gaps, and exchange between ranks."""
    share = draw.uniform(*exchanged) if draw.cell.ranks > 1 else 0.0
    left = max(0.02, 1 - sum(part.share for part in waits) - share)
    gap = blocked(draw, work).being("productive", "compute").but(power=draw.uniform(0.3, 0.5))
    parts = [*waits, Part(work, 0.91 * left, 0.04), Part(optimizer(draw, work), 0.07 * left, 0.03)]
    parts.append(Part(gap, 0.02 * left, 0.3))
    if share:
        parts.append(Part(exchange(draw, work), share, 0.15))
    return parts


def wait(draw: Draw, work: Kind, cause: str, share: float) -> Part:
    """Return input starvation: in each step, or in every few where the loader works by shards."""
    every = int(draw.rng.choice([1, 1, 1, 2, 8])) if (draw.cell.step or 1) <= 3 else 1
    label = blocked(draw, work).being("starved", cause)
    return Part(label, share, draw.uniform(0.1, 0.6), draw.uniform(0.0, 0.3), every)


def train(draw: Draw, work: Kind, parts: list[Part], *, saves: float = 0.5) -> None:
    """Play steps to the end of the run; in this share of runs with checkpoints every 20 to 60 minutes."""
    start(draw, work)
    saving = draw.chance(saves)
    period, length = draw.uniform(1200, 3600), draw.log_uniform(5, 40)
    size = min(draw.log_uniform(2, 16) * draw.log_uniform(5e8, 5e9), 4e9 * length / draw.ranks_per_node)
    remote = draw.mount_kind is not None and draw.chance(0.6)
    while draw.tape.left > 0:
        draw.tape.steps(parts, draw.step, period if saving else draw.tape.left)
        if saving:
            save(draw, work, size, length, remote=remote)


def _fed(draw: Draw, work: Kind, host: Host, *, saves: float = 0.5) -> None:
    work = work.but(**host)
    train(draw, work, a_step(draw, work, wait(draw, work, "loader_software", draw.uniform(*FED))), saves=saves)


def _starved(draw: Draw, host: Host, cause: str) -> None:
    work = compute(draw).but(**host)
    train(draw, work, a_step(draw, work, wait(draw, work, cause, draw.uniform(*STALLS))))


def healthy(draw: Draw) -> None:
    """Dense training that is fed."""
    _fed(draw, compute(draw), loaders.fed(draw))


def healthy_memory_bound(draw: Draw) -> None:
    """Kernels bound by device memory: tensor cores idle, and nothing wrong."""
    _fed(draw, memory_bound(draw), loaders.fed(draw))


def page_cache(draw: Draw) -> None:
    """A data set in the page cache: no reads, and none needed."""
    _fed(draw, compute(draw), loaders.from_page_cache(draw))


def busy_disk(draw: Draw) -> None:
    """A fed run beside another program that keeps the drive busy."""
    _fed(draw, compute(draw), loaders.beside_a_busy_disk(draw))


def remote_preprocessing(draw: Draw) -> None:
    """Batches that come ready from other hosts, in time."""
    _fed(draw, compute(draw), loaders.from_remote_workers(draw))


def remote_preprocessing_starved(draw: Draw) -> None:
    """Batches that come ready from other hosts, too late: those hosts' cores are the limit.

    From here they are input that comes too slowly over the network, and who says so is right as well.
    """
    draw.same = {("starved", "network_storage"): ("starved", "preprocessing")}
    _starved(draw, loaders.from_remote_workers(draw), "preprocessing")


def storage_local(draw: Draw) -> None:
    """A local drive is the limit."""
    _starved(draw, loaders.slow_disk(draw), "storage")


def storage_network(draw: Draw) -> None:
    """A network file system of the kernel is the limit."""
    _starved(draw, loaders.slow_mount(draw), "network_storage")


def storage_object(draw: Draw) -> None:
    """An object store behind FUSE or a client library is the limit."""
    _starved(draw, loaders.slow_object_store(draw), "network_storage")


def preprocessing(draw: Draw) -> None:
    """Loader workers fill their cores."""
    _starved(draw, loaders.full_workers(draw), "preprocessing")


def cpu_quota(draw: Draw) -> None:
    """A cgroup's quota stops the workers."""
    _starved(draw, loaders.refused_cores(draw), "preprocessing")


def one_hot_process(draw: Draw) -> None:
    """One loader process fills its core."""
    _starved(draw, loaders.one_hot_process(draw), "preprocessing")


def loader_software(draw: Draw) -> None:
    """The loader's own making is the limit; nothing is saturated."""
    _starved(draw, loaders.nothing_saturated(draw), "loader_software")


def host_to_device(draw: Draw) -> None:
    """Copies from pageable memory take part of each step: the link moves, no kernel runs."""
    work = compute(draw).but(**loaders.copying(draw))
    share = draw.uniform(0.08, 0.6)
    copies = blocked(draw, work).being("starved", "host_to_device")
    copies = copies.but(pcie_in=draw.uniform(3e9, 1.2e10), dram=0.01, power=draw.uniform(0.18, 0.26))
    train(draw, work, a_step(draw, work, Part(copies, share, 0.05)))


def cold_first_epoch(draw: Draw) -> None:
    """Storage is the limit until the page cache is full; after that the run is fed."""
    slow, quick = loaders.slow_disk(draw), loaders.from_page_cache(draw)
    work = compute(draw)
    cold, warm = work.but(**slow), work.but(**quick)
    start(draw, cold)
    first = draw.uniform(0.3, 0.7) * draw.tape.left
    draw.tape.steps(a_step(draw, cold, wait(draw, cold, "storage", draw.uniform(0.15, 0.7))), draw.step, first)
    fed = wait(draw, warm, "loader_software", draw.uniform(*FED))
    draw.tape.steps(a_step(draw, warm, fed), draw.step, draw.tape.left)


def checkpoint_heavy(draw: Draw) -> None:
    """Checkpoints every five to ten minutes, half a minute to two each."""
    work = compute(draw).but(**loaders.fed(draw))
    remote = draw.chance(0.5)
    draw.mount_kind = draw.mount_kind or ("nfs" if remote else None)
    parts = a_step(draw, work, wait(draw, work, "loader_software", draw.uniform(*FED)))
    period, length = draw.uniform(300, 600), draw.uniform(30, 120)
    size = min(draw.uniform(12, 16) * draw.log_uniform(1e9, 4e9), 4e9 * length / draw.ranks_per_node)
    start(draw, work)
    while draw.tape.left > 0:
        draw.tape.steps(parts, draw.step, period)
        save(draw, work, size, length, remote=remote)


def evaluation(draw: Draw) -> None:
    """Training that stops every few minutes to evaluate: another level, another mix, no gradients."""
    work = compute(draw).but(**loaders.fed(draw))
    judged = work.but(sm=draw.uniform(0.35, 0.7), tensor=draw.uniform(0.08, 0.3), dram=draw.uniform(0.2, 0.5))
    judged = judged.but(power=draw.uniform(0.4, 0.65), nvlink=0.0).being("productive", "evaluation")
    gap = blocked(draw, judged).being("productive", "evaluation").but(power=0.3)
    trained = a_step(draw, work, wait(draw, work, "loader_software", draw.uniform(*FED)))
    evaluated = [Part(judged, 0.96, 0.05), Part(gap, 0.04, 0.3)]
    every, length = draw.uniform(300, 1200), draw.log_uniform(30, 300)
    start(draw, work)
    while draw.tape.left > 0:
        draw.tape.steps(trained, draw.step, every)
        draw.tape.steps(evaluated, draw.step, length)


def offloaded_optimizer(draw: Draw) -> None:
    """An optimizer on the host (ZeRO-Offload): PCIe busy both ways, cores busy, the chip busy for most of the step."""
    moved = draw.uniform(0.15, 0.5) * draw.machine.pcie_bytes
    host = loaders.fed(draw) | {"host_memory": draw.uniform(150, 600) * GIB}
    host["cores"] = min(0.9 * draw.cores, host["cores"] + draw.uniform(4, 16) * draw.ranks_per_node)
    work = compute(draw).but(**host).but(pcie_in=moved, pcie_out=moved)
    exposed = blocked(draw, work).but(pcie_in=moved, pcie_out=moved).being("unexplained", None)
    train(draw, work, a_step(draw, work, Part(exposed, draw.uniform(0.0, 0.04), 0.1)))


def packed_stages(draw: Draw) -> None:
    """A stage for processors and one for GPUs in one run, by turns: full cores and still GPUs, then the other way.

    GPUs are in use about a fifth of the time (the case that Pinterest gives for taking such stages apart).
    """
    host = loaders.full_workers(draw)
    host |= {"cores": draw.uniform(0.94, 1.0) * min(draw.cores, draw.cores_allotted or draw.cores)}
    work = compute(draw).but(**loaders.nothing(draw, cores=1.2))
    prepared = blocked(draw, work).but(**host).being("starved", "preprocessing")
    share = draw.uniform(0.12, 0.28)
    start(draw, work)
    draw.tape.steps(
        [Part(prepared, 1 - share, 0.15), Part(work, share, 0.15)], draw.log_uniform(5, 600), draw.tape.left
    )


def remote_teacher(draw: Draw) -> None:
    """A run that waits for a far-away service in each step; nothing on this host says why."""
    work = compute(draw).but(**loaders.fed(draw))
    work = work.but(busiest_worker=draw.uniform(0.02, 0.2), io_pressure=0.0, disk_read=0.0, disk_busy=0.0)
    work = work.but(mount_read=0.0, mount_waited=0.0, disk_waited=0.0, ethernet_in=draw.log_uniform(1e5, 5e6))
    work = work.but(cores=draw.uniform(1.1, 1.6) * draw.ranks_per_node)
    waits = Part(blocked(draw, work).being("unexplained", None), draw.uniform(0.1, 0.6), draw.uniform(0.2, 0.8))
    train(draw, work, a_step(draw, work, waits))
