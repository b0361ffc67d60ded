"""Free GPUs in pieces: which small runs to move where, so that a run that waits fits as it asked."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from analyzer.findings.health.notice import Notice
from analyzer.findings.health.queues import Wait
from analyzer.recommendations.artefacts import kubernetes, slurm
from analyzer.recommendations.artefacts.owner import for_scheduler
from analyzer.recommendations.proposal import Proposal, Saved, restart
from analyzer.recommendations.recommendation import Artefact, Constraint, Move
from analyzer.recommendations.saving import Share, recovered
from analyzer.recommendations.site import Host, Placed, Site
from analyzer.recommendations.types import checks
from analyzer.recommendations.types.idle import whole_place
from analyzer.text.wording import counted, length_of_time, some

_STANDING = ("serving", "interactive")  # who answers somebody is not moved for who waits
# Of what stood free beside a run that waited: as much again may come free by itself, or wait again. Ours.
_AGAIN = Share(300, 500, 800)


@dataclass(slots=True)
class _Plan:
    """Which runs move to which host; `free` is what each host has left, and would have."""

    free: dict[str, int]
    moves: list[tuple[Placed, Host]] = field(default_factory=list)
    cleared: list[Host] = field(default_factory=list)


def consolidate(notice: Notice, site: Site) -> Proposal | None:
    """Move the fewest GPUs' worth of small runs together; None where none waits now, or none fits by it."""
    for wait in site.waiting:
        if wait.run_id in notice.run_ids and (plan := _plan(wait, site)) is not None and plan.moves:
            return _proposal(wait, plan, site)
    return None


def _plan(wait: Wait, site: Site) -> _Plan | None:
    """Return how a run that waits comes to fit: hosts with the most free first, each run to the fullest host."""
    hosts = _hosts(wait, site)
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


def _hosts(wait: Wait, site: Site) -> list[Host]:
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


def _proposal(wait: Wait, plan: _Plan, site: Site) -> Proposal:
    count, each = wait.shape(max(host.gpus for host in site.hosts.values()))
    runs = [one for one, _ in plan.moves]
    gpus = sum(one.gpus for one in runs)
    called = wait.name or wait.run_id
    targets = list(dict.fromkeys(host for _, host in plan.moves))
    cost, moving = restart(gpus)
    return Proposal(
        kind="consolidate",
        title=f"move {counted(len(runs), 'small run')} together, so that {called} fits",
        from_="; ".join(f"{one.called} ({counted(one.gpus, 'GPU')}) on {one.hosts[0]}" for one in runs),
        to="; ".join(f"{one.called} to {host.node}" for one, host in plan.moves)
        + f"; then {called} on {some([host.node for host in plan.cleared])}",
        why=f"{called} has waited {length_of_time((wait.until_us - wait.from_us) // 1000)} for "
        f"{counted(count, 'host')} "
        f"with {counted(each, 'free GPU')} each, and as many are free, in pieces",
        saves=_saved(wait, plan, site),
        artefacts=tuple(line for one, host in plan.moves for line in _lines(one, host)),
        losers=f"{some([one.called for one in runs])}: a restart each",
        winners=called,
        move=Move(whole_place(site, runs), site.place_on([h.node for h in targets], gpus, site.sku_of(runs[0]))),
        constraints=(
            *(_fits(one, host, plan) for one, host in plan.moves[:4]),
            Constraint("it fits then", True, f"{some([f'{h.node}: {plan.free[h.node]} free' for h in plan.cleared])}"),
            checks.in_service([*targets, *plan.cleared]),
            Constraint("more than GPUs", None, f"what {called} asks for beside GPUs is not known here"),
            checks.UNTOLD,
        ),
        cost_to_move=cost,
        moving_gpu_ms=moving,
        actor="platform",
    )


def _fits(one: Placed, host: Host, plan: _Plan) -> Constraint:
    told = f"{one.called}: {one.gpus} wanted, {host.gpus_free_now} free as the period ends"
    return Constraint(f"room on {host.node}", plan.free[host.node] >= 0, told)


def _saved(wait: Wait, plan: _Plan, site: Site) -> Saved:
    """Return what stood free for it while it waited, on the hosts that it would get, once more in such a week."""
    free = min(wait.gpus, sum(host.gpus_free_now for host in plan.cleared))
    lost_ms = free * (wait.until_us - wait.from_us) // 1000
    period = site.end_us - site.start_us
    rate = site.rate(plan.cleared[0].sku)
    money = None if rate is None else recovered(lost_ms * rate // 3_600_000, period, _AGAIN)
    return Saved(recovered(lost_ms, period, _AGAIN), money)


def _lines(one: Placed, host: Host) -> tuple[Artefact, ...]:
    """Return what sends a run there when it begins anew; that it ends before it is done is its owner's to say."""
    return for_scheduler(
        one,
        lambda: slurm.options(f"nodelist={host.node}", note=f"of {one.called}, for when it begins anew"),
        lambda: kubernetes.patch(one, kubernetes.on_nodes([host.node])),
    )
