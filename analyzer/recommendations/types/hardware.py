"""Changes around hardware: restart without a slow GPU, drain and repair, cool; and limits of power.

A limit is raised to that of its kind where it is lower; a board that is held back below its limit is seen to.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import median

from analyzer.findings.finding import Finding
from analyzer.findings.health.notice import Notice
from analyzer.recommendations.artefacts import joined_names, on_nodes, pod_patch, remark, scheduler, shell_word
from analyzer.recommendations.proposal import Proposal, lines, proposal_of, restart
from analyzer.recommendations.recommendation import ASSUMED, Constraint, Move, Placement, shell
from analyzer.recommendations.site import Host, Limited, Placed, Site
from analyzer.recommendations.types import checks
from analyzer.text.words import counted, some

_FAR_BELOW = 2  # ours: times what its peers lost of their clocks; what all of them lose follows them to any host
_EMPTY = "# once nothing runs on the host"
# Notices whose remedy ends what runs there, and what is done once the host is empty.
REMEDIES = {
    "hardware/memory_rows": "nvidia-smi --gpu-reset -i {gpu}    # replaces the row; if it recurs, replace the board",
    "hardware/recovery": "nvidia-smi --gpu-reset -i {gpu}    # what the driver asks for, unless it says reboot",
    "fleet/ecc/xid": "nvidia-smi --gpu-reset -i {gpu}; dcgmi diag -r 3    # then have the board tested",
    "fleet/ecc/uncorrected": "nvidia-smi --gpu-reset -i {gpu}",
    "fleet/ecc/remapped": "dcgmi diag -r 3",
    "fleet/ecc/corrected": "dcgmi diag -r 3",
    "fleet/links/pcie": "# reseat the board or change its riser, then: nvidia-smi -q -i {gpu} -d PERFORMANCE,CLOCK",
    "hardware/pcie_width": "# reseat the board, then: "
    "nvidia-smi --query-gpu=pcie.link.width.current --format=csv -i {gpu}",
    "hardware/pcie_generation": "# check slot and BIOS, then under load: "
    "nvidia-smi --query-gpu=pcie.link.gen.current --format=csv -i {gpu}",
    "slow_gpu": "nvidia-smi -q -i {gpu} -d CLOCK,TEMPERATURE,PERFORMANCE",
}


def replace_slow_gpu(finding: Finding, site: Site) -> Proposal | None:
    """Take the host of the slowest GPU out of the run, and those below their clock: any that stays slows all.

    None where no other host of the run shows that it is the host: a rank may be last because it has the most to do.
    """
    placed = site.first_run(finding.run_ids)
    slowest = site.gpu_hosts.get(finding.caused_by or "", "")
    if placed is None or slowest not in placed.hosts:
        return None
    below = [node for node in site.slow_hosts.get(placed.run_id, ()) if node in placed.hosts and node != slowest]
    out = [slowest, *below]
    if not _is_below_peers(finding.caused_by or "", placed, out, site):
        return None
    on = max(dict(zip(placed.hosts, placed.gpus_on, strict=False)).get(node, placed.gpus_per_host) for node in out)
    instead = _free_instead(site, placed, out, on)
    taken = dict(zip(out, instead, strict=False)) if instead else {}
    hosts = [taken[node].node if node in taken else node for node in placed.hosts]
    cost, moving = restart(placed.gpus)
    facts = {
        "finding": finding,
        "out": out,
        "slowest": slowest,
        "below": f"; {some(below)} below their clock" if below else "",
        "others": "other hosts" if below else "another host",
        "instead": [f"{host.node} ({host.rack or 'rack unknown'})" for host in instead],
        "nodes": [host.node for host in instead],
    }
    return proposal_of(
        *(("drain_slow_gpu",) if instead else ("drain_slow_gpu_later", "drain_slow_gpu")),
        facts=facts,
        saves=ASSUMED["taken_out"],
        artefacts=lines("exclude", placed, nodes=out, patch=pod_patch(placed, on_nodes(out, "NotIn"))),
        move=Move(site.place(placed), site.place_on(hosts, placed.gpus, site.sku_of(placed)) if instead else None),
        constraints=_instead(site, placed, instead, on),
        cost_to_move=cost,
        moving_gpu_ms=moving,
        slow_hosts=tuple(out),
    )


def _is_below_peers(gpu: str, placed: Placed, out: Sequence[str], site: Site) -> bool:
    """Whether a GPU lost far more of its clock than the run's GPUs on the hosts that stay; False without any."""
    lost = site.slowed.get(placed.run_id, {})
    peers = [lost.get(each, 0) for each in placed.gpu_uuids if site.gpu_hosts.get(each, out[0]) not in out]
    return bool(peers) and lost.get(gpu, 0) > _FAR_BELOW * median(peers)


def _free_instead(site: Site, placed: Placed, out: list[str], gpus: int) -> list[Host]:
    """Return a free host for each that is taken out, those in its rack first; none where they are too few."""
    others = site.free_hosts(site.sku_of(placed), gpus, placed.hosts)
    racks = set(site.racks(out))
    chosen = sorted(others, key=lambda host: host.rack not in racks)[: len(out)]
    return chosen if len(chosen) == len(out) else []


def _instead(site: Site, placed: Placed, hosts: list[Host], gpus: int) -> tuple[Constraint, ...]:
    if not hosts:
        told = f"no host of its kind has {counted(gpus, 'GPU')} free at the end of the period: it would wait for one"
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
    return _out_of_service(finding, site, ("cool",), "heat")


def see_to(finding: Finding, site: Site) -> Proposal | None:
    """Drain hosts whose boards brake for a reason in their hardware: power supply, cable, or the board itself."""
    return _out_of_service(finding, site, ("slowed_by_hardware", "cool"), "slowed by hardware")


def _out_of_service(finding: Finding, site: Site, rows: tuple[str, ...], reason: str) -> Proposal | None:
    nodes = sorted({node for run in finding.run_ids for node in site.slow_hosts.get(run, ())})
    return _drained(nodes, finding, site, rows, reason) if nodes else None


def _drained(nodes: list[str], finding: Finding, site: Site, rows: tuple[str, ...], reason: str) -> Proposal:
    gpus = sum(site.hosts[node].gpus for node in nodes if node in site.hosts)
    return proposal_of(
        *rows,
        facts={"nodes": nodes, "gpus": gpus, "holders": _holders(site, nodes)},
        saves=ASSUMED["repair"],
        artefacts=lines("drain", map(scheduler, finding.run_ids), nodes=nodes, why=reason),
        move=Move(site.place_on(nodes, gpus), None),
        constraints=(_empty(site, nodes),),
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
    # by the names of its runs a host's scheduler is known; of a host without any, by those of the site
    runs = [one.run_id for one in site.runs.values() if node in one.hosts] or list(site.runs)
    return proposal_of(
        "drain_sick_gpu",
        facts={"gpu": gpu, "host": host, "notice": notice, "holders": _holders(site, [node])},
        saves=checks.NOTHING,
        artefacts=(
            *lines("drain", map(scheduler, runs), nodes=[node], why=notice.rule.rsplit("/", 1)[-1].replace("_", " ")),
            shell(f"{_EMPTY}\n{remedy.format(gpu=shell_word(gpu))}"),
        ),
        move=Move(Placement((node,), (host.rack,), host.gpus, host.sku), None),
        constraints=(_empty(site, [node]), checks.in_service([host])),
    )


def _holders(site: Site, nodes: list[str]) -> str:
    runs = sorted({one.called for node in nodes for one in site.beside(node)})
    return f"none until they end: {some(runs)}" if runs else "none: no run holds them now"


def _empty(site: Site, nodes: list[str]) -> Constraint:
    runs = sorted({one.called for node in nodes for one in site.beside(node)})
    if runs:
        return Constraint("no run is ended", True, f"{some(runs)} may finish; a drain gives the hosts no new runs")
    return Constraint("no run is ended", True, "nobody holds them at the end of the period")


def limit_power(finding: Finding, site: Site) -> Proposal | None:
    """Raise a limit that is lower than its kind's; see to boards that are held back below theirs: each for itself.

    None where limits are not known: a board at the limit of its kind has nothing to gain. Other boards of its hosts,
    which the runs do not hold, are not touched.
    """
    gpus = {gpu for one in site.placed(finding.run_ids) for gpu in one.gpu_uuids}
    slow = [one for one in site.limited.values() if one.gpu_uuid in gpus and one.limit_watts is not None]
    low = [one for one in slow if (one.usual_watts or 0) > (one.limit_watts or 0)]
    return _raised(low, site) if low else _held_back([one for one in slow if one.is_held_back], finding, site)


def _raised(low: list[Limited], site: Site) -> Proposal:
    nodes = sorted({one.node for one in low})
    place = site.place_on(nodes, len(low))
    usual = sorted({one.usual_watts for one in low if one.usual_watts is not None})
    facts = {
        "gpus": len(low),
        "nodes": nodes,
        "limits": _watts(one.limit_watts for one in low),
        "usual": _watts(one.usual_watts for one in low),
    }
    return proposal_of(
        "raise_power_limit",
        facts=facts,
        saves=ASSUMED["repair"],
        artefacts=(shell("\n".join(_set([one for one in low if one.usual_watts == it], it) for it in usual)),),
        move=Move(place, place),
        constraints=(
            Constraint("limit of the board", True, "others of their model have that limit"),
            Constraint("power of the rack", None, "its power and cooling capacity is unknown"),
        ),
        slow_hosts=tuple(nodes),
    )


def _held_back(boards: list[Limited], finding: Finding, site: Site) -> Proposal | None:
    """Drain the hosts of boards that draw less than they may and are yet held back for power: supply, cable, board."""
    if not boards:
        return None
    return _drained(sorted({one.node for one in boards}), finding, site, ("slowed_by_hardware", "cool"), "held back")


def _set(gpus: Sequence[Limited], watts: float) -> str:
    """Return the commands, a line a host."""
    nodes = sorted({one.node for one in gpus})
    return "\n".join(
        f"# on {remark(node)}\n"
        f"nvidia-smi -i {joined_names(one.gpu_uuid for one in gpus if one.node == node)} -pl {watts:.0f}"
        for node in nodes
    )


def _watts(found: Iterable[float | None]) -> str:
    counts = Counter(round(each) for each in found if each is not None)
    return ", ".join(
        f"{watts} W" + (f" ({count})" if len(counts) > 1 else "") for watts, count in sorted(counts.items())
    )
