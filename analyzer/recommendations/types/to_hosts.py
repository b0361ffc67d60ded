"""The move of a run to other hosts of its kind, whatever the reason: place, checks, cost and lines are the same."""

from collections.abc import Sequence
from dataclasses import dataclass

from analyzer.recommendations.artefacts import kubernetes, slurm
from analyzer.recommendations.artefacts.owner import for_scheduler
from analyzer.recommendations.proposal import Proposal, Saved, restart
from analyzer.recommendations.recommendation import Artefact, Constraint, Latency, Move
from analyzer.recommendations.saving import Share
from analyzer.recommendations.site import Host, Placed, Site
from analyzer.recommendations.types import checks
from analyzer.text.wording import counted, some


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a run moves, and what that saves; `cores` are wanted for each GPU, `also_costs` is beside the restart."""

    kind: str
    title: str
    why: str
    saves: Share | Saved
    more: tuple[Artefact, ...] = ()
    cores: int | None = None
    winners: str = "the run itself"
    also_costs: str = ""
    actor: str | None = None
    latency: Latency | None = None


def moved_to(placed: Placed, site: Site, hosts: Sequence[Host], reason: Reason) -> Proposal:
    """Return the move to these hosts; away from its own where they are too few, to whichever become free."""
    cost, moving = restart(placed.gpus)
    has = len(hosts) >= len(placed.hosts)
    nodes = [host.node for host in hosts] if has else []
    return Proposal(
        kind=reason.kind,
        title=reason.title,
        from_=", ".join(f"{node} ({rack or 'rack unknown'})" for node, rack in _racks(site, placed)),
        to=", ".join(map(_free, hosts)) if has else "other hosts of its kind, once some are free",
        why=reason.why,
        saves=reason.saves,
        artefacts=(*_to_nodes(placed, nodes, reason.cores), *reason.more),
        losers=f"whoever would take {some(nodes)} next" if has else "the run itself, while it waits for hosts",
        winners=reason.winners,
        move=Move(site.place(placed), site.place_on(nodes, placed.gpus, site.sku_of(placed)) if has else None),
        constraints=_checks(placed, site, hosts, reason, has=has),
        latency=reason.latency,
        cost_to_move=cost + reason.also_costs,
        moving_gpu_ms=moving,
        actor=reason.actor,
    )


def _to_nodes(placed: Placed, nodes: Sequence[str], cores: int | None = None) -> tuple[Artefact, ...]:
    """Return the lines that send a run to these hosts at its next start; without any, away from its own."""
    also = [f"cpus-per-gpu={cores}"] if cores else []
    named, hosts, operator = ("nodelist", nodes, "In") if nodes else ("exclude", placed.hosts, "NotIn")
    return for_scheduler(
        placed,
        lambda: slurm.options(f"{named}={','.join(hosts)}", *also),
        lambda: kubernetes.patch(placed, kubernetes.on_nodes(hosts, operator)),
    )


def _racks(site: Site, placed: Placed) -> list[tuple[str, str | None]]:
    return list(zip(placed.hosts, site.racks_of(placed.run_id), strict=True))[:4]


def _free(host: Host) -> str:
    return f"{host.node} ({host.rack or 'rack unknown'}), {counted(host.gpus_free_now, 'GPU')} free"


def _checks(placed: Placed, site: Site, hosts: Sequence[Host], reason: Reason, *, has: bool) -> tuple[Constraint, ...]:
    if not has:
        told = f"{counted(len(hosts), 'host')} of its kind free as the period ends, {len(placed.hosts)} wanted"
        return (Constraint("free GPUs", None, told), checks.UNTOLD)
    found = [checks.room(placed.gpus, hosts), checks.same_kind(site, placed, hosts), checks.host_memory(placed, hosts)]
    if reason.cores is not None:
        left = [f"{h.node}: {site.cores_left(h.node) or 0:.0f} free" for h in hosts]
        found.append(Constraint("cores", True, f"{reason.cores} a GPU wanted; {some(left)}"))
    if reason.kind == "local_nvme":
        found.append(_nvme(hosts))
    return (*found, checks.in_service(hosts), checks.UNTOLD)


def _nvme(hosts: Sequence[Host]) -> Constraint:
    silent = [host.node for host in hosts if host.local_nvme_bytes is None]
    if silent:
        return Constraint("local NVMe", None, f"nobody told whether {some(silent)} have any")
    return checks.nvme(hosts, None)
