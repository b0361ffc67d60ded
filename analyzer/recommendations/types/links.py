"""Changes of where ranks are: their order, and their rack."""

from collections.abc import Sequence

from analyzer.findings.finding import Finding
from analyzer.recommendations.artefacts import kubernetes, slurm
from analyzer.recommendations.artefacts.owner import for_scheduler
from analyzer.recommendations.artefacts.rank_file import rank_file
from analyzer.recommendations.proposal import Proposal, restart
from analyzer.recommendations.recommendation import Artefact, Constraint, Move
from analyzer.recommendations.saving import Share, reordering
from analyzer.recommendations.site import Host, Placed, Site
from analyzer.recommendations.types import checks
from analyzer.text.wording import counted

_ONE_RACK = Share(500, 750, 900)  # of what crossing costs; an assumption, as those of saving.py


def order_ranks(finding: Finding, site: Site) -> Proposal | None:
    """Order ranks by rack where they alternate; else move the run into one rack that has room."""
    placed = site.first_run(finding.run_ids)
    if placed is None:
        return None
    racks = site.racks_of(placed.run_id)
    crossings = sum(here != there for here, there in zip(racks, racks[1:] + racks[:1], strict=True))
    kinds = len(set(racks))
    return _reorder(site, placed, racks, crossings) if crossings > kinds else _one_rack(placed, racks, site)


def _reorder(site: Site, placed: Placed, racks: list[str | None], crossings: int) -> Proposal:
    on = placed.gpus_on or (placed.gpus_per_host,) * len(placed.hosts)
    ordered = sorted(zip(racks, placed.hosts, on, strict=True), key=lambda one: (one[0] or "", one[1]))
    hosts = tuple(node for _, node, _ in ordered)
    kinds = len(set(racks))
    cost, moving = restart(placed.gpus)
    return Proposal(
        kind="reorder_ranks",
        title="order the ranks by rack",
        from_=f"ranks by host: {_short(racks)}",
        to=f"ranks by host: {_short([rack for rack, _, _ in ordered])}",
        why=f"the ring changes rack {crossings} times; ordered by rack it does so {kinds} times",
        saves=reordering(crossings, kinds),
        artefacts=for_scheduler(
            placed,
            lambda: rank_file(hosts, [gpus for _, _, gpus in ordered]),
            lambda: _by_topology(placed, site.of_run(placed)),
        ),
        losers="nobody: no host changes",
        move=Move(site.place(placed), site.place_on(hosts, placed.gpus, site.sku_of(placed))),
        constraints=(
            Constraint("hosts", True, f"the same {counted(len(hosts), 'host')} before and after"),
            _racks_known(placed, racks),
        ),
        cost_to_move=cost,
        moving_gpu_ms=moving,
    )


def _by_topology(placed: Placed, hosts: Sequence[Host]) -> Artefact:
    """Return what has Kueue order pods by rack: ranks are pods there, and nobody else places them in order."""
    label = next((host.rack_label for host in hosts if host.rack_label), None)
    if label is None:
        return kubernetes.text(
            f"# {kubernetes.owner(placed)}: no label of its nodes tells their racks; nothing can order its pods by",
            "# them. Label the nodes (topology.kubernetes.io/rack), then let Kueue place it by topology.",
        )
    return kubernetes.patch(placed, {}, {kubernetes.PREFERRED_TOPOLOGY: label})


def _one_rack(placed: Placed, racks: list[str | None], site: Site) -> Proposal | None:
    """Move a run into the rack that has the most room for it, its own part of it counted; None where none is known."""
    free = site.free_in_rack(site.sku_of(placed))
    own: dict[str, int] = {}
    for rack in racks:
        if rack is not None:
            own[rack] = own.get(rack, 0) + placed.gpus_per_host
    space = {rack: free.get(rack, 0.0) + own.get(rack, 0) for rack in {*free, *own}}
    best = max(sorted(space), key=lambda rack: (space[rack], own.get(rack, 0)), default=None)
    if best is None:
        return None
    hosts = _hosts_in(site, placed, best)
    fits = space[best] >= placed.gpus
    wait = "" if fits else f"; wait for {placed.gpus} GPUs there (about {space[best]:.0f} could be had on average)"
    cost, moving = restart(placed.gpus)
    return Proposal(
        kind="co_locate",
        title=f"run all ranks in {best}",
        from_=f"{len(placed.hosts)} hosts in {', '.join(sorted({rack or '?' for rack in racks}))}",
        to=f"{len(placed.hosts)} hosts in {best}{wait}",
        why="its exchanges cross the spine, and the same bytes are faster inside a rack",
        saves=_ONE_RACK,
        artefacts=for_scheduler(
            placed,
            lambda: slurm.options(
                "switches=1",
                f"exclude={','.join(_elsewhere(site, placed, best))}",
                note=f"all hosts under one switch, of {best}: hosts of its kind elsewhere are left out",
            ),
            lambda: kubernetes.in_rack(placed, best, [h for h in site.hosts.values() if h.rack == best]),
        ),
        losers="whoever would take those hosts next",
        move=Move(site.place(placed), site.place_on([host.node for host in hosts], placed.gpus, site.sku_of(placed))),
        constraints=_fits(site, placed, hosts, best),
        cost_to_move=cost,
        moving_gpu_ms=moving,
    )


def _hosts_in(site: Site, placed: Placed, rack: str) -> list[Host]:
    """Return the hosts that the run would have in a rack: those that it has there, then those with room, its count."""
    own = [host for host in site.of_run(placed) if host.rack == rack]
    others = site.free_hosts(site.sku_of(placed), placed.gpus_per_host, placed.hosts)
    return (own + [host for host in others if host.rack == rack])[: len(placed.hosts)]


def _elsewhere(site: Site, placed: Placed, rack: str) -> list[str]:
    sku = site.sku_of(placed)
    return sorted(host.node for host in site.hosts.values() if host.sku == sku and host.rack != rack)


def _fits(site: Site, placed: Placed, hosts: list[Host], rack: str) -> tuple[Constraint, ...]:
    new = [host for host in hosts if host.node not in placed.hosts]
    sku = site.sku_of(placed)
    owned = sum(host.gpus for host in site.hosts.values() if host.rack == rack and host.sku == sku)
    told = (
        f"{len(hosts)} of {counted(len(placed.hosts), 'host')} in {rack} are its own or free as the period ends; "
        f"it has {counted(owned, 'GPU')} of this kind, {placed.gpus} are wanted"
    )
    # Not free now is a matter of waiting; a rack that is too small is none.
    holds = False if owned < placed.gpus else True if len(hosts) >= len(placed.hosts) else None
    return (
        Constraint("free GPUs", holds, told),
        checks.same_kind(site, placed, hosts),
        checks.host_memory(placed, new),
        checks.in_service(new),
        checks.UNTOLD,
    )


def _racks_known(placed: Placed, racks: Sequence[str | None]) -> Constraint:
    unknown = [node for node, rack in zip(placed.hosts, racks, strict=True) if rack is None]
    if unknown:
        return Constraint("racks", None, f"of {', '.join(unknown)} none is known")
    return Constraint("racks", True, f"known of all {counted(len(placed.hosts), 'host')}")


def _short(racks: list[str | None]) -> str:
    """Return racks as the run of their names, such as rack-1 rack-2 rack-1, without repeating a common stem."""
    names = [rack or "?" for rack in racks]
    stem = names[0].rstrip("0123456789")
    return stem + " " + " ".join(name.removeprefix(stem) for name in names) if stem else " ".join(names)
