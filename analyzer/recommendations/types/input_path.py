"""Changes of what feeds the GPUs: workers, cores and memory on the same host before any move (Synergy, OSDI'22)."""

from analyzer.findings.finding import Finding
from analyzer.recommendations.artefacts import kubernetes, slurm
from analyzer.recommendations.artefacts.owner import for_scheduler
from analyzer.recommendations.proposal import Proposal
from analyzer.recommendations.recommendation import Artefact, Constraint, Move, python
from analyzer.recommendations.saving import ASSUMED
from analyzer.recommendations.site import Placed, Site
from analyzer.recommendations.types import checks
from analyzer.recommendations.types.to_hosts import Reason, moved_to
from analyzer.text.wording import counted, some


def more_workers(finding: Finding, site: Site) -> Proposal | None:
    """Give the loaders twice the workers, and the run the cores for them, on the hosts where it is."""
    placed = site.first_run(finding.run_ids)
    if placed is None:
        return None
    is_full = finding.cause == "preprocessing"
    now = placed.cores_per_gpu
    wanted = _wanted(site, placed, now) if is_full else now
    if is_full and now is not None and wanted is not None and wanted <= now:
        return _full_hosts(placed, site, now)
    gains = wanted is not None and now is not None and wanted > now
    place = site.place(placed)
    return Proposal(
        kind="more_cpu" if is_full else "loader_settings",
        title=_title(placed),
        from_=f"{_workers(placed.workers)}, {_cores(now)} on {some(list(placed.hosts))}",
        to=f"{_workers(_twice(placed))}, {f'{wanted} cores a GPU' if gains else _cores(now)}, same hosts",
        why=_why(site, placed, is_full=is_full),
        saves=ASSUMED["loader_software" if finding.cause == "loader_software" else "setting"],
        artefacts=(*(_core_lines(placed, wanted, now) if gains and wanted else ()), _loader_line(placed)),
        losers="nobody: the cores are allotted to nobody else" if gains else "nobody",
        move=Move(place, place),
        constraints=(
            *((checks.cores(site, placed, wanted),) if wanted is not None else (_UNKNOWN_CORES,)),
            checks.memory_for_workers(site, placed),
            checks.UNTOLD,
        ),
    )


_UNKNOWN_CORES = Constraint("cores", None, "how many the run may use is not known")


def _title(placed: Placed) -> str:
    if placed.workers is None:
        return "twice the loader workers per rank"
    return f"{counted(2 * placed.workers, 'loader worker')} per rank, not {placed.workers}"


def _wanted(site: Site, placed: Placed, now: int | None) -> int | None:
    """Return half as many cores again for each GPU, as far as no other run of its hosts has them."""
    if now is None:
        return None
    wanted = max(now + 1, now * 3 // 2)
    for node, gpus in zip(placed.hosts, placed.gpus_on, strict=False):
        left = site.cores_left(node, placed.run_id)
        if left is not None:
            wanted = min(wanted, int(left // gpus))
    return wanted


def _full_hosts(placed: Placed, site: Site, now: int) -> Proposal | None:
    """Move a run whose hosts have no core left to free ones of its kind that have; None where there are none."""
    more = max(now + 1, now * 3 // 2)
    free = [
        host
        for host in site.free_hosts(site.sku_of(placed), placed.gpus_per_host, placed.hosts)
        if (site.cores_left(host.node) or 0) >= more * placed.gpus_per_host
    ][: len(placed.hosts)]
    if len(free) < len(placed.hosts):
        return None
    why = f"each worker fills its core, and its hosts have none left; {free[0].node} has"
    return moved_to(
        placed, site, free, Reason("more_cpu", "run where cores are free", why, ASSUMED["setting"], cores=more)
    )


def _why(site: Site, placed: Placed, *, is_full: bool) -> str:
    why = "each worker fills its core" if is_full else "disk, network and cores have room; the loader does not ask"
    left = [site.cores_left(node, placed.run_id) for node in placed.hosts]
    if placed.cores is None or None in left:
        return why
    return f"{why}; {sum(each or 0 for each in left) - placed.cores:.0f} cores of its hosts are not allotted to it"


def _twice(placed: Placed) -> int | None:
    return None if placed.workers is None else 2 * placed.workers


def _workers(count: int | None) -> str:
    return f"{counted(count, 'loader worker')} a rank" if count is not None else "its loader workers"


def _cores(per_gpu: int | None) -> str:
    return f"{per_gpu} cores a GPU" if per_gpu else "the cores it has"


def _core_lines(placed: Placed, wanted: int, now: int | None) -> tuple[Artefact, ...]:
    pods = placed.members or len(placed.hosts)
    return for_scheduler(
        placed,
        lambda: slurm.options(f"cpus-per-gpu={wanted}", note=f"was {now}; in place of --cpus-per-task"),
        lambda: kubernetes.resources(placed, {"cpu": str(wanted * -(-placed.gpus // pods))}),
    )


def _loader_line(placed: Placed) -> Artefact:
    if placed.workers is None:
        # How many it has, nobody told: a loader's workers are seen where the agent may look at processes.
        return python(
            "# how many workers it has is not known to the store: twice as many, and\n"
            "DataLoader(..., prefetch_factor=4, persistent_workers=True, pin_memory=True)"
        )
    return python(
        f"DataLoader(..., num_workers={_twice(placed)}, prefetch_factor=4, persistent_workers=True, pin_memory=True)"
        f"  # num_workers was {placed.workers}"
    )


def pin_memory(finding: Finding, site: Site) -> Proposal | None:
    """Copy from pinned memory, beside the computation, from the NUMA node that the GPU hangs on."""
    placed = site.first_run(finding.run_ids)
    if placed is None:
        return None
    place = site.place(placed)
    bound = for_scheduler(
        placed,
        lambda: slurm.options("gpu-bind=closest"),
        lambda: kubernetes.text(
            "# its nodes' kubelet gives cores beside the GPU, to pods whose cpu requests equal their limits:",
            "#   cpuManagerPolicy: static, topologyManagerPolicy: single-numa-node",
        ),
    )
    lines = python("DataLoader(..., pin_memory=True)\nbatch = batch.to(device, non_blocking=True)")
    return Proposal(
        kind="loader_settings",
        title="copy from pinned memory",
        from_=f"copies to the GPU on {some(list(placed.hosts))} that it waits for",
        to="pinned, asynchronous copies from the GPU's own NUMA node, same hosts",
        why="the PCIe link is busy while the chip stands still",
        saves=ASSUMED["pinned"],
        artefacts=(*bound, lines),
        losers="nobody",
        move=Move(place, place),
        constraints=(Constraint("hosts", True, "the same before and after"),),
    )
