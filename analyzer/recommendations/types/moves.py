"""Changes of where ranks are: in another order, in one rack, on other hosts, or together so that another run fits."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from analyzer.findings.finding import Finding
from analyzer.findings.health.notice import Notice
from analyzer.findings.health.queues import Wait
from analyzer.recommendations.artefacts import (
    PREFERRED_TOPOLOGY,
    in_rack,
    on_nodes,
    owner,
    pod_patch,
    rank_file,
    scheduler,
)
from analyzer.recommendations.proposal import Proposal, lines, proposal_of, restart
from analyzer.recommendations.recommendation import Artefact, Constraint, Move, Saved, Share, recovered, reordering
from analyzer.recommendations.site import Host, Placed, Site
from analyzer.recommendations.types import checks
from analyzer.text.words import counted, some

_ONE_RACK = Share(500, 750, 900)  # of what crossing costs; an assumption, as those of saving.py
_STANDING = ("serving", "interactive")  # who answers somebody is not moved for who waits
# Of what stood free beside a run that waited: as much again may come free by itself, or wait again. Ours.
_AGAIN = Share(300, 500, 800)


def moved_to(
    row: str,
    placed: Placed,
    site: Site,
    hosts: Sequence[Host],
    saves: Share | Saved,
    *,
    more: tuple[Artefact, ...] = (),
    cores: int | None = None,
    also_costs: str = "",
    served: tuple[Site, Sequence[Placed]] | None = None,
    **facts: object,
) -> Proposal | None:
    """Return the move to these hosts; away from its own where they are too few, to whichever become free.

    None where the site has too few of its kind beside its own: it would wait for hosts that there are not. `row` says
    why, `cores` are wanted for each GPU, `also_costs` is beside the restart.
    """
    cost, moving = restart(placed.gpus)
    has = len(hosts) >= len(placed.hosts)
    others = [host for host in site.hosts.values() if host.sku == site.sku_of(placed) and host.node not in placed.hosts]
    if not has and len(others) < len(placed.hosts):
        return None
    nodes = [host.node for host in hosts] if has else []
    places = list(zip(placed.hosts, site.racks_of(placed.run_id), strict=True))[:4]
    facts |= {
        "places": ", ".join(f"{node} ({rack or 'rack unknown'})" for node, rack in places),
        "free": ", ".join(f"{_in_rack(host)}, {counted(host.gpus_free_now, 'GPU')} free" for host in hosts),
        "nodes": nodes,
        "restart": cost,
        "also_costs": also_costs,
    }
    return proposal_of(
        *([row, "moved"] if has else [row, "moved_away"]),
        facts=facts,
        served=served,
        saves=saves,
        artefacts=(*_to_nodes(placed, nodes, cores), *more),
        move=Move(site.place(placed), site.place_on(nodes, placed.gpus, site.sku_of(placed)) if has else None),
        constraints=_fits_there(placed, site, hosts, cores, has=has, on_nvme=row in ("to_free_disk", "to_nvme")),
        moving_gpu_ms=moving,
    )


def _in_rack(host: Host) -> str:
    return f"{host.node} ({host.rack or 'rack unknown'})"


def _to_nodes(placed: Placed, nodes: Sequence[str], cores: int | None) -> tuple[Artefact, ...]:
    """Return the lines that send a run to these hosts at its next start; without any, away from its own."""
    name, hosts, operator = ("nodelist", nodes, "In") if nodes else ("exclude", placed.hosts, "NotIn")
    patch = pod_patch(placed, on_nodes(hosts, operator))
    return lines(f"{name}_and_cores" if cores else name, placed, nodes=hosts, cores=cores, patch=patch)


def _fits_there(
    placed: Placed, site: Site, hosts: Sequence[Host], cores: int | None, *, has: bool, on_nvme: bool
) -> tuple[Constraint, ...]:
    if not has:
        told = f"{counted(len(hosts), 'host')} of its kind free at the end of the period, {len(placed.hosts)} needed"
        return (Constraint("free GPUs", None, told), checks.UNTOLD)
    found = [checks.room(placed.gpus, hosts), checks.same_kind(site, placed, hosts), checks.host_memory(placed, hosts)]
    if cores is not None:
        left = [f"{h.node}: {site.cores_left(h.node) or 0:.0f} free" for h in hosts]
        found.append(Constraint("cores", True, f"{cores} per GPU needed; {some(left)}"))
    if on_nvme:
        found.append(checks.known_nvme(hosts))
    return (*found, checks.in_service(hosts), checks.UNTOLD)


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
    then = _short([rack for rack, _, _ in ordered])
    return proposal_of(
        "reorder_ranks",
        facts={"now": _short(racks), "then": then, "crossings": crossings, "kinds": kinds},
        saves=reordering(crossings, kinds),
        artefacts=_in_order(placed, hosts, [gpus for _, _, gpus in ordered], site.of_run(placed)),
        move=Move(site.place(placed), site.place_on(hosts, placed.gpus, site.sku_of(placed))),
        constraints=(
            Constraint("hosts", True, f"the same {counted(len(hosts), 'host')} before and after"),
            _racks_known(placed, racks),
        ),
        cost_to_move=cost,
        moving_gpu_ms=moving,
    )


def _in_order(
    placed: Placed, nodes: Sequence[str], ranks_on: Sequence[int], hosts: Sequence[Host]
) -> tuple[Artefact, ...]:
    """Return a rank file, or what has Kueue order pods by rack: ranks are pods there, and nobody else orders them."""
    label = next((host.rack_label for host in hosts if host.rack_label), None)
    if label is None and scheduler(placed.run_id) == "kubernetes":
        return lines("no_label", placed, owner=owner(placed))
    patch = pod_patch(placed, {}, {PREFERRED_TOPOLOGY: label or ""})
    return lines("rank_order", placed, ranks=rank_file(nodes, ranks_on), patch=patch)


def _one_rack(placed: Placed, racks: list[str | None], site: Site) -> Proposal | None:
    """Move a run into the rack that has the most room for it, its own part of it counted; None where none is known."""
    sku = site.sku_of(placed)
    free = site.free_in_rack(sku)
    own: dict[str, int] = {}
    for rack in racks:
        if rack is not None:
            own[rack] = own.get(rack, 0) + placed.gpus_per_host
    space = {rack: free.get(rack, 0.0) + own.get(rack, 0) for rack in {*free, *own}}
    best = max(sorted(space), key=lambda rack: (space[rack], own.get(rack, 0)), default=None)
    if best is None:
        return None
    hosts = _hosts_in(site, placed, best)
    wait = f"; wait for {placed.gpus} GPUs there (about {space[best]:.0f} could be had on average)"
    cost, moving = restart(placed.gpus)
    return proposal_of(
        "one_rack",
        facts={
            "best": best,
            "hosts": len(placed.hosts),
            "racks": ", ".join(sorted({rack or "?" for rack in racks})),
            "wait": "" if space[best] >= placed.gpus else wait,
        },
        saves=_ONE_RACK,
        artefacts=lines(
            "one_rack",
            placed,
            rack=best,
            elsewhere=sorted(host.node for host in site.hosts.values() if host.sku == sku and host.rack != best),
            patch=in_rack(placed, best, [host for host in site.hosts.values() if host.rack == best]),
        ),
        move=Move(site.place(placed), site.place_on([host.node for host in hosts], placed.gpus, sku)),
        constraints=_fits_rack(site, placed, hosts, best),
        cost_to_move=cost,
        moving_gpu_ms=moving,
    )


def _hosts_in(site: Site, placed: Placed, rack: str) -> list[Host]:
    """Return the hosts that the run would have in a rack: those that it has there, then those with room, its count."""
    own = [host for host in site.of_run(placed) if host.rack == rack]
    others = site.free_hosts(site.sku_of(placed), placed.gpus_per_host, placed.hosts)
    return (own + [host for host in others if host.rack == rack])[: len(placed.hosts)]


def _fits_rack(site: Site, placed: Placed, hosts: list[Host], rack: str) -> tuple[Constraint, ...]:
    new = [host for host in hosts if host.node not in placed.hosts]
    sku = site.sku_of(placed)
    owned = sum(host.gpus for host in site.hosts.values() if host.rack == rack and host.sku == sku)
    told = (
        f"{len(hosts)} of {counted(len(placed.hosts), 'host')} in {rack} are its own or free at the end of the period; "
        f"it has {counted(owned, 'GPU')} of this kind, {placed.gpus} are needed"
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


@dataclass(slots=True)
class _Plan:
    """Which runs move to which host, so that one that waits fits; `free` is what each host has left, and would have."""

    free: dict[str, int]
    moves: list[tuple[Placed, Host]] = field(default_factory=list)
    cleared: list[Host] = field(default_factory=list)


def consolidate(notice: Notice, site: Site) -> Proposal | None:
    """Move the fewest GPUs' worth of small runs together; None where none waits now, or none fits by it."""
    for wait in site.waiting:
        if wait.run_id in notice.run_ids and (plan := _plan(wait, site)) is not None and plan.moves:
            return _fitting(wait, plan, site)
    return None


def _plan(wait: Wait, site: Site) -> _Plan | None:
    """Return how a run that waits comes to fit: hosts with the most free first, each run to the fullest host."""
    hosts = _hosts_of_queue(wait, site)
    if not hosts:
        return None
    count, each = wait.shape(max(host.gpus for host in hosts))
    plan = _Plan({host.node: host.gpus_free_now for host in hosts})
    for host in sorted(hosts, key=lambda host: (-host.gpus_free_now, host.node)):
        if len(plan.cleared) == count:
            break
        if host.gpus >= each and _clear(host, each, plan, hosts, site):
            plan.cleared.append(host)
    return plan if len(plan.cleared) == count else None


def _hosts_of_queue(wait: Wait, site: Site) -> list[Host]:
    """Return the hosts in service that its queue is known to use, of its kind where that is known."""
    queued = {node for one in site.runs.values() if one.queue == wait.queue for node in one.hosts}
    return [
        host
        for host in site.hosts.values()
        if host.state in (None, "up")
        and wait.sku in (None, host.sku)
        and (not wait.queue or not queued or host.node in queued or host.gpus_free_now == host.gpus)
    ]


def _clear(host: Host, each: int, plan: _Plan, hosts: Sequence[Host], site: Site) -> bool:
    """Move runs off a host until so many of its GPUs are free; leave the plan as it was where that cannot be."""
    moves: list[tuple[Placed, Host]] = []
    free = dict(plan.free)
    small = [one for one in site.beside(host.node) if one.hosts == (host.node,) and one.stage not in _STANDING]
    for one in sorted(small, key=lambda one: (one.gpus, one.run_id)):
        if free[host.node] >= each:
            break
        to = _room_for(one, host, free, plan, hosts)
        if to is not None:
            moves.append((one, to))
            free[to.node] -= one.gpus
            free[host.node] += one.gpus
    if free[host.node] < each:
        return False
    plan.free, plan.moves = free, plan.moves + moves
    return True


def _room_for(one: Placed, host: Host, free: dict[str, int], plan: _Plan, hosts: Sequence[Host]) -> Host | None:
    """Return the fullest host of its kind that has room for a run, and is not to be cleared itself."""
    taken = {host.node, *(cleared.node for cleared in plan.cleared)}
    fitting = [
        other
        for other in hosts
        if other.node not in taken
        and other.sku == host.sku
        and free[other.node] >= one.gpus
        and (one.host_bytes is None or other.memory_bytes is None or one.host_bytes <= other.memory_bytes)
    ]
    return min(fitting, key=lambda other: (free[other.node], other.node), default=None)


def _fitting(wait: Wait, plan: _Plan, site: Site) -> Proposal:
    count, each = wait.shape(max(host.gpus for host in site.hosts.values()))
    runs = [one for one, _ in plan.moves]
    gpus = sum(one.gpus for one in runs)
    targets = list(dict.fromkeys(host for _, host in plan.moves))
    cost, moving = restart(gpus)
    facts: dict[str, Any] = {
        "runs": len(runs),
        "called": wait.name or wait.run_id,
        "places": "; ".join(f"{one.called} ({counted(one.gpus, 'GPU')}) on {one.hosts[0]}" for one in runs),
        "targets": "; ".join(f"{one.called} to {host.node}" for one, host in plan.moves),
        "cleared": [host.node for host in plan.cleared],
        "waited": (wait.until_us - wait.from_us) // 1000,
        "count": count,
        "each": each,
        "names": [one.called for one in runs],
    }
    return proposal_of(
        "fit_waiting",
        facts=facts,
        saves=_saved(wait, plan, site),
        # that a run ends before it is done is its owner's to say: the lines are of its next start
        artefacts=tuple(
            line
            for one, host in plan.moves
            for line in lines(
                "nodelist_of",
                one,
                note=f"of {one.called}, for its next start",
                nodes=[host.node],
                patch=pod_patch(one, on_nodes([host.node])),
            )
        ),
        move=Move(site.whole_place(runs), site.place_on([h.node for h in targets], gpus, site.sku_of(runs[0]))),
        constraints=(
            *(_room_on(one, host, plan) for one, host in plan.moves[:4]),
            Constraint("it fits then", True, f"{some([f'{h.node}: {plan.free[h.node]} free' for h in plan.cleared])}"),
            checks.in_service([*targets, *plan.cleared]),
            Constraint("more than GPUs", None, f"what {facts['called']} requests beside GPUs is unknown"),
            checks.UNTOLD,
        ),
        cost_to_move=cost,
        moving_gpu_ms=moving,
    )


def _room_on(one: Placed, host: Host, plan: _Plan) -> Constraint:
    told = f"{one.called}: {one.gpus} needed, {host.gpus_free_now} free at the end of the period"
    return Constraint(f"room on {host.node}", plan.free[host.node] >= 0, told)


def _saved(wait: Wait, plan: _Plan, site: Site) -> Saved:
    """Return what stood free for it while it waited, on the hosts that it would get, once more in such a week."""
    free = min(wait.gpus, sum(host.gpus_free_now for host in plan.cleared))
    lost_ms = free * (wait.until_us - wait.from_us) // 1000
    period = site.end_us - site.start_us
    rate = site.rate(plan.cleared[0].sku)
    money = None if rate is None else recovered(lost_ms * rate // 3_600_000, period, _AGAIN)
    return Saved(recovered(lost_ms, period, _AGAIN), money)
