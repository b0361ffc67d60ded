"""Changes of what feeds the GPUs: workers and cores on the same host before any move, then faster storage."""

from analyzer.findings import Finding
from analyzer.placement.artefact import Artefact, python, slurm
from analyzer.placement.proposal import Proposal, restart
from analyzer.placement.saving import ASSUMED
from analyzer.placement.site import Host, Placed, Site


def _hosts_text(placed: Placed) -> str:
    return ", ".join(placed.hosts) if len(placed.hosts) <= 4 else f"{len(placed.hosts)} hosts"


def more_workers(finding: Finding, site: Site) -> Proposal | None:
    """Give the loaders more workers, and the run the cores for them, on the hosts where it is (Synergy, OSDI'22)."""
    placed = site.first_run(finding.run_ids)
    if placed is None:
        return None
    hosts = [site.hosts[node] for node in placed.hosts if node in site.hosts]
    total = [host.cpu_cores for host in hosts]
    per_gpu = round(placed.cores / placed.gpus) if placed.cores else None
    cores = f"{per_gpu} cores a GPU" if per_gpu else "the cores it has"
    wanted = max(per_gpu + 1, per_gpu * 3 // 2) if per_gpu else None
    room = ""
    if placed.cores is not None and None not in total:
        left = sum(core or 0 for core in total) - placed.cores
        room = f"; {left:.0f} cores of its hosts are not allotted to it"
    is_full = finding.cause == "preprocessing"
    return Proposal(
        kind="more_cpu" if is_full else "loader_settings",
        title="twice the loader workers per rank",
        from_=f"{cores} on {_hosts_text(placed)}",
        to=f"twice the workers, {wanted} cores a GPU, same hosts" if wanted else "twice the workers, same hosts",
        why=("each worker fills its core" if is_full else "disk, network and cores have room; the loader does not ask")
        + room,
        saves=ASSUMED["setting"],
        artefacts=_worker_lines(wanted),
        losers="nobody, while the cores are not allotted to others",
    )


def _worker_lines(cores_per_gpu: int | None) -> tuple[Artefact, ...]:
    loader = python(
        "DataLoader(..., num_workers=2 * num_workers, prefetch_factor=4, persistent_workers=True, pin_memory=True)"
    )
    return (slurm(f"#SBATCH --cpus-per-gpu={cores_per_gpu}"), loader) if cores_per_gpu else (loader,)


def other_disk(finding: Finding, site: Site) -> Proposal | None:
    """Move the run to hosts whose local disk is not shared with another reader; else stripe or cache its input."""
    placed = site.first_run(finding.run_ids)
    if placed is None:
        return None
    target = _free_host(placed, site)
    cost, moving = restart(placed.gpus)
    to = (
        f"{target.node} ({target.rack or 'rack unknown'}), where {_free(target)} stood free on average"
        if target
        else "hosts of the same kind with an idle disk, or the same hosts with the data set cached in memory"
    )
    return Proposal(
        kind="local_nvme",
        title="read from a disk that has room",
        from_=f"local disk of {_hosts_text(placed)}, full",
        to=to,
        why="its readers wait for the disk, not for the cores",
        saves=ASSUMED["faster_storage"],
        artefacts=(
            slurm(f"#SBATCH --nodelist={target.node}" if target else "#SBATCH --exclude=" + ",".join(placed.hosts)),
        ),
        losers="whoever would take that host next",
        cost_to_move=f"{cost}, and a copy of its data set",
        moving_gpu_ms=moving,
    )


def _free(host: Host) -> str:
    gpus = round(host.gpus_free)
    return "1 GPU" if gpus == 1 else f"{gpus} GPUs"


def _free_host(placed: Placed, site: Site) -> Host | None:
    sku = site.sku_of(placed)
    others = [
        host
        for host in site.hosts.values()
        if host.sku == sku and host.node not in placed.hosts and host.gpus_free >= placed.gpus_per_host
    ]
    return max(others, key=lambda host: (host.gpus_free, host.node), default=None)


def stage_on_nvme(finding: Finding, site: Site) -> Proposal | None:
    """Copy the input to the local NVMe of the run's own hosts, or of hosts that have one, before the first epoch."""
    placed = site.first_run(finding.run_ids)
    if placed is None:
        return None
    own = [site.hosts[node] for node in placed.hosts if node in site.hosts]
    has_nvme = all(host.local_nvme_bytes for host in own)
    others = (
        sorted(host.node for host in site.hosts.values() if host.local_nvme_bytes and host.sku == own[0].sku)
        if own
        else []
    )
    where = "their own NVMe" if has_nvme else f"hosts with NVMe: {', '.join(others[:4]) or 'none known'}"
    return Proposal(
        kind="local_nvme",
        title="read its input from local NVMe",
        from_=f"network mount, read by {_hosts_text(placed)}",
        to=f"{where}, filled once before the first epoch",
        why="a copy of 20 GB over network storage takes 20 to 30 minutes each epoch, on local NVMe seconds",
        saves=ASSUMED["faster_storage"],
        artefacts=(slurm("srun --ntasks-per-node=1 rsync -a /data/<set>/ /local/<set>/   # in the job's prologue"),),
        losers="nobody",
        cost_to_move="one copy of the data set to each host, and room for it there",
    )


def pin_memory(finding: Finding, site: Site) -> Proposal | None:
    """Copy from pinned memory, beside the computation, from the NUMA node that the GPU hangs on."""
    placed = site.first_run(finding.run_ids)
    if placed is None:
        return None
    return Proposal(
        kind="loader_settings",
        title="copy from pinned memory",
        from_=f"pageable copies on {_hosts_text(placed)}",
        to="pinned, asynchronous copies from the GPU's own NUMA node, same hosts",
        why="the PCIe link is busy while the chip stands still",
        saves=ASSUMED["setting"],
        artefacts=(
            slurm("#SBATCH --gpu-bind=closest"),
            python("DataLoader(..., pin_memory=True); batch.to(device, non_blocking=True)"),
        ),
        losers="nobody",
    )
