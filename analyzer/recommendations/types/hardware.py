"""Changes around sick hardware: restart without a slow GPU, drain and repair, cool."""

from collections.abc import Iterable

from analyzer.findings.finding import Finding
from analyzer.findings.health.notice import Notice
from analyzer.recommendations.artefacts import kubernetes, slurm
from analyzer.recommendations.artefacts.owner import for_scheduler, scheduler
from analyzer.recommendations.artefacts.quoting import shell_word
from analyzer.recommendations.proposal import Proposal, restart
from analyzer.recommendations.recommendation import Artefact, Constraint, Move, Placement, shell
from analyzer.recommendations.saving import ASSUMED
from analyzer.recommendations.site import Host, Placed, Site
from analyzer.recommendations.types import checks
from analyzer.recommendations.types.amounts import NOTHING
from analyzer.text.wording import counted, some

_EMPTY = "# once nothing runs on the host"
# Notices whose remedy ends what runs there, and what is done once the host is empty.
REMEDIES = {
    "hardware/memory_rows": "nvidia-smi --gpu-reset -i {gpu}    # replaces the row; if it comes again, a new board",
    "hardware/recovery": "nvidia-smi --gpu-reset -i {gpu}    # what the driver asks for, unless it says reboot",
    "fleet/ecc/xid": "nvidia-smi --gpu-reset -i {gpu}; dcgmi diag -r 3    # then have the board tested",
    "fleet/ecc/uncorrected": "nvidia-smi --gpu-reset -i {gpu}",
    "fleet/ecc/remapped": "dcgmi diag -r 3",
    "fleet/ecc/corrected": "dcgmi diag -r 3",
    "fleet/links/pcie": "# reseat the board or change its riser, then: nvidia-smi -q -i {gpu} -d PERFORMANCE,CLOCK",
    "hardware/pcie_width": "# reseat the board, then: "
    "nvidia-smi --query-gpu=pcie.link.width.current --format=csv -i {gpu}",
    "hardware/pcie_generation": "# see slot and BIOS, then under load: "
    "nvidia-smi --query-gpu=pcie.link.gen.current --format=csv -i {gpu}",
    "slow_gpu": "nvidia-smi -q -i {gpu} -d CLOCK,TEMPERATURE,PERFORMANCE",
}


def replace_slow_gpu(finding: Finding, site: Site) -> Proposal | None:
    """Take the host of the slowest GPU out of the run, and those below their clock: any that stays slows all."""
    placed = site.first_run(finding.run_ids)
    if placed is None or finding.caused_by is None:
        return None
    slowest = site.gpu_hosts.get(finding.caused_by, finding.caused_by)
    below = [node for node in site.slow_hosts.get(placed.run_id, ()) if node in placed.hosts and node != slowest]
    out = [slowest, *below]
    slow = ",".join(out)
    on = max(dict(zip(placed.hosts, placed.gpus_on, strict=False)).get(node, placed.gpus_per_host) for node in out)
    instead = _free_instead(site, placed, out, on)
    taken = dict(zip(out, instead, strict=False)) if instead else {}
    hosts = [taken[node].node if node in taken else node for node in placed.hosts]
    cost, moving = restart(placed.gpus)
    return Proposal(
        kind="drain_slow_gpu",
        title=f"restart without {slow}",
        from_=f"a rank on {slowest}, on {finding.caused_by}" + (f"; {some(below)} below their clock" if below else ""),
        to=some([f"{host.node} ({host.rack or 'rack unknown'})" for host in instead])
        if instead
        else f"{'other hosts' if below else 'another host'} of the same kind",
        why="its peers wait for the slowest GPU at every step",
        saves=ASSUMED["taken_out"],
        artefacts=for_scheduler(
            placed,
            lambda: slurm.options(f"exclude={slow}"),
            lambda: kubernetes.patch(placed, kubernetes.on_nodes(out, "NotIn")),
        ),
        losers=f"whoever would take {some([host.node for host in instead])} next"
        if instead
        else "the run itself, while it waits for a host",
        winners="the run itself: all its ranks",
        move=Move(site.place(placed), site.place_on(hosts, placed.gpus, site.sku_of(placed)) if instead else None),
        constraints=_instead(site, placed, instead, on),
        cost_to_move=cost,
        moving_gpu_ms=moving,
        actor="platform",
        slow_hosts=tuple(out),
    )


def _free_instead(site: Site, placed: Placed, out: list[str], gpus: int) -> list[Host]:
    """Return a free host for each that is taken out, those in its rack first; none where they are too few."""
    others = site.free_hosts(site.sku_of(placed), gpus, placed.hosts)
    racks = set(site.racks(out))
    chosen = sorted(others, key=lambda host: host.rack not in racks)[: len(out)]
    return chosen if len(chosen) == len(out) else []


def _instead(site: Site, placed: Placed, hosts: list[Host], gpus: int) -> tuple[Constraint, ...]:
    if not hosts:
        told = f"no host of its kind has {counted(gpus, 'GPU')} free as the period ends: it would wait for one"
        return (Constraint("free GPUs", None, told), checks.UNTOLD)
    return (
        checks.room(gpus, hosts),
        checks.same_kind(site, placed, hosts),
        checks.host_memory(placed, hosts),
        checks.in_service(hosts),
        checks.UNTOLD,
    )


def cool(finding: Finding, site: Site) -> Proposal | None:
    """Drain hosts that run too hot, and look at their cooling."""
    why = "the clock falls with the temperature, and every rank of the run waits for the slowest"
    return _out_of_service(finding, site, "cool", "look at the cooling of {}", "heat", why)


def see_to(finding: Finding, site: Site) -> Proposal | None:
    """Drain hosts whose boards brake for a reason in their hardware: power supply, cable, or the board itself."""
    why = "the board holds its clock down (power brake, hardware slow-down), and every rank waits for the slowest"
    return _out_of_service(finding, site, "drain_sick_gpu", "see to the power supply of {}", "slowed by hardware", why)


def _out_of_service(finding: Finding, site: Site, kind: str, title: str, reason: str, why: str) -> Proposal | None:
    nodes = sorted({node for run in finding.run_ids for node in site.slow_hosts.get(run, ())})
    if not nodes:
        return None
    slow = ",".join(nodes)
    gpus = sum(site.hosts[node].gpus for node in nodes if node in site.hosts)
    return Proposal(
        kind=kind,
        title=title.format(slow),
        from_=f"{slow} below their clock: {reason}",
        to="at their reference clock",
        why=why,
        saves=ASSUMED["repair"],
        artefacts=_drain(nodes, finding.run_ids, reason),
        losers=_holders(site, nodes),
        winners="every run that gets these hosts",
        move=Move(site.place_on(nodes, gpus), None),
        constraints=(_empty(site, nodes),),
        cost_to_move=f"the time of {counted(gpus, 'GPU')} while their hosts are looked at, once their runs have ended",
        actor="platform",
        slow_hosts=tuple(nodes),
    )


def drain_sick(notice: Notice, site: Site) -> Proposal | None:
    """Drain the host of a GPU that needs a hand; None where nobody knows which host it is."""
    remedy = REMEDIES.get(notice.rule)
    node = notice.node or site.gpu_hosts.get(notice.gpu_uuid or "")
    host = site.hosts.get(node or "")
    if remedy is None or node is None or host is None:
        return None
    gpu = notice.gpu_uuid or "0"
    told = notice.rule.rsplit("/", 1)[-1].replace("_", " ")
    return Proposal(
        kind="drain_sick_gpu",
        title=f"drain {node} and see to {gpu}",
        from_=f"{gpu} on {node}, in service: {notice.sentence}",
        to=f"{node} drained, the GPU seen to, and back in service",
        why="what it still does may fail; what a failure throws away is booked as work lost when it comes",
        saves=NOTHING,
        artefacts=(
            *_drain([node], _run_ids(site, node), told),
            shell(f"{_EMPTY}\n{remedy.format(gpu=shell_word(gpu))}"),
        ),
        losers=_holders(site, [node]),
        winners="the next run on it, which keeps its work",
        move=Move(Placement((node,), (host.rack,), host.gpus, host.sku), None),
        constraints=(_empty(site, [node]), checks.in_service([host])),
        cost_to_move=f"the time of {counted(host.gpus, 'GPU')} while the host is out, once its runs have ended",
        actor="platform",
    )


def _drain(nodes: list[str], run_ids: Iterable[str], why: str) -> tuple[Artefact, ...]:
    """Return the drain of hosts by the schedulers whose runs these are."""
    known = {scheduler(run_id) for run_id in run_ids}
    found: list[Artefact] = []
    if "slurm" in known:
        found.append(slurm.drain(nodes, why))
    if "kubernetes" in known:
        found.append(kubernetes.cordon(nodes, why))
    return tuple(found)


def _run_ids(site: Site, node: str) -> list[str]:
    """Return the runs of a host, by whose names its scheduler is known; of a host without any, those of the site."""
    here = [one.run_id for one in site.runs.values() if node in one.hosts]
    return here or list(site.runs)


def _holders(site: Site, nodes: list[str]) -> str:
    runs = sorted({one.called for node in nodes for one in site.beside(node)})
    return f"nobody until they end: {some(runs)}" if runs else "nobody: no run holds them now"


def _empty(site: Site, nodes: list[str]) -> Constraint:
    runs = sorted({one.called for node in nodes for one in site.beside(node)})
    if runs:
        return Constraint("no run is ended", True, f"{some(runs)} may finish; a drain gives the hosts no new ones")
    return Constraint("no run is ended", True, "nobody holds them as the period ends")
