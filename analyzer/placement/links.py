"""Changes of where ranks are: their order, their rack, and the GPU that makes the others wait."""

from analyzer.findings import Finding
from analyzer.placement.artefact import Artefact, slurm
from analyzer.placement.proposal import Proposal, restart
from analyzer.placement.saving import ASSUMED, Share, reordering
from analyzer.placement.site import Placed, Site


def order_ranks(finding: Finding, site: Site) -> Proposal | None:
    """Order ranks by rack where they alternate; else move the run into one rack that has room."""
    placed = site.first_run(finding.run_ids)
    if placed is None:
        return None
    racks = site.racks_of(placed.run_id)
    crossings = sum(here != there for here, there in zip(racks, racks[1:] + racks[:1], strict=True))
    kinds = len(set(racks))
    return _reorder(placed, racks, crossings, kinds) if crossings > kinds else _one_rack(placed, racks, site)


def _reorder(placed: Placed, racks: list[str | None], crossings: int, kinds: int) -> Proposal:
    by_rack = sorted(zip(racks, placed.hosts, strict=True), key=lambda pair: (pair[0] or "", pair[1]))
    cost, moving = restart(placed.gpus)
    return Proposal(
        kind="reorder_ranks",
        title="order the ranks by rack",
        from_=f"ranks by host: {_short(racks)}",
        to=f"ranks by host: {_short([rack for rack, _ in by_rack])}",
        why=f"the ring changes rack {crossings} times; ordered by rack it does so {kinds} times",
        saves=reordering(crossings, kinds),
        artefacts=(Artefact("rankfile", _rank_file([host for _, host in by_rack], placed.gpus_per_host)),),
        losers="nobody: no host changes",
        cost_to_move=cost,
        moving_gpu_ms=moving,
    )


def _rank_file(hosts: list[str], ranks: int) -> str:
    """Return the lines that write the order of ranks to a file for Slurm, which wants a host's name once a task.

    Source: srun(1), --distribution=arbitrary and SLURM_HOSTFILE.
    """
    return (
        "export SLURM_HOSTFILE=$PWD/ranks.txt\n"
        f"for host in {' '.join(hosts)}; do\n"
        f'  yes "$host" | head -n {ranks}\n'
        'done > "$SLURM_HOSTFILE"\n'
        "srun --distribution=arbitrary ..."
    )


def _short(racks: list[str | None]) -> str:
    """Return racks as the run of their names, such as rack-1 rack-2 rack-1, without repeating a common stem."""
    names = [rack or "?" for rack in racks]
    stem = names[0].rstrip("0123456789")
    return stem + " " + " ".join(name.removeprefix(stem) for name in names) if stem else " ".join(names)


def _one_rack(placed: Placed, racks: list[str | None], site: Site) -> Proposal | None:
    free = site.free_in_rack(site.sku_of(placed))
    own = {rack: racks.count(rack) * placed.gpus_per_host for rack in racks if rack is not None}
    room = {rack: free.get(rack, 0.0) + own.get(rack, 0) for rack in {*free, *own}}
    best = max(sorted(room), key=lambda rack: (room[rack], own.get(rack, 0)), default=None)
    if best is None:
        return None
    cost, moving = restart(placed.gpus)
    fits = room[best] >= placed.gpus
    wait = "" if fits else f"; wait for {placed.gpus} GPUs there (about {room[best]:.0f} could be had on average)"
    return Proposal(
        kind="co_locate",
        title=f"run all ranks in {best}",
        from_=f"{len(placed.hosts)} hosts in {', '.join(sorted({rack or '?' for rack in racks}))}",
        to=f"{len(placed.hosts)} hosts in {best}{wait}",
        why="its exchanges cross the spine, and the same bytes are faster inside a rack",
        saves=Share(500, 750, 900),
        artefacts=(slurm(f"#SBATCH --switches=1        # all hosts under one switch\n# candidates: {best}"),),
        losers="whoever would take those hosts next",
        cost_to_move=cost,
        moving_gpu_ms=moving,
    )


def replace_slow_gpu(finding: Finding, site: Site) -> Proposal | None:
    """Take the host of the slowest GPU out of the run."""
    placed = site.first_run(finding.run_ids)
    if placed is None or finding.caused_by is None:
        return None
    slow = site.gpu_hosts.get(finding.caused_by, finding.caused_by)
    cost, moving = restart(placed.gpus)
    return Proposal(
        kind="drain_slow_gpu",
        title=f"restart without {slow}",
        from_=f"a rank on {slow}, on {finding.caused_by}",
        to="another host of the same kind",
        why="its peers wait for the slowest GPU at every step",
        saves=ASSUMED["repair"],
        artefacts=(slurm(f"#SBATCH --exclude={slow}"),),
        losers="nobody",
        cost_to_move=cost,
        moving_gpu_ms=moving,
        actor="platform",
    )


def cool(finding: Finding, site: Site) -> Proposal | None:
    """Drain hosts that run too hot, and look at their cooling."""
    slow = _slow(finding, site)
    if not slow:
        return None
    return Proposal(
        kind="cool",
        title=f"look at the cooling of {slow}",
        from_=f"{slow} below their clock for heat",
        to="at their reference clock",
        why="the clock falls with the temperature, and every rank of the run waits for the slowest",
        saves=ASSUMED["repair"],
        artefacts=(slurm(f'scontrol update nodename={slow} state=drain reason="heat"'),),
        losers="the runs that hold these hosts now",
        cost_to_move="the hosts' time while they are looked at",
        actor="platform",
    )


def _slow(finding: Finding, site: Site) -> str:
    """Return the slow hosts of the finding's runs, as Slurm lists them; empty where none is known."""
    return ",".join(sorted({node for run in finding.run_ids for node in site.slow_hosts.get(run, ())}))
