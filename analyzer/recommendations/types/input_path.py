"""Changes of what feeds the GPUs: workers, cores, memory, disks; on its host before any move (Synergy, OSDI'22)."""

from collections.abc import Sequence

from analyzer.findings.finding import Finding
from analyzer.recommendations.artefacts import pod_patch, pod_resources
from analyzer.recommendations.proposal import Proposal, lines, proposal_of
from analyzer.recommendations.recommendation import ASSUMED, Artefact, Constraint, Move
from analyzer.recommendations.site import Feed, Host, Placed, Site
from analyzer.recommendations.types import checks
from analyzer.recommendations.types.moves import moved_to
from analyzer.text.words import counted, gib, some

_FIRST_WORKERS = 4  # ours, of a rank that loads in its own process: each takes a core and memory
_UNKNOWN_CORES = Constraint("cores", None, "how many the run may use is not known")
_COPIED = ", and a copy of its input"


def more_workers(finding: Finding, site: Site) -> Proposal | None:
    """Give the loaders twice the workers, and the run the cores for them, on the hosts where it is.

    None where the memory of its hosts is full: each worker keeps batches of its own there.
    """
    placed = site.first_run(finding.run_ids)
    if placed is None:
        return None
    is_full = finding.cause == "preprocessing"
    now = placed.cores_per_gpu
    wanted = _wanted(site, placed, now) if is_full else now
    if is_full and now is not None and wanted is not None and wanted <= now:
        return _full_hosts(placed, site, now)
    if placed.memory_is_full:
        return None
    gains = wanted is not None and now is not None and wanted > now
    more = _more_workers(placed)
    place = site.place(placed)
    facts = {
        "placed": placed,
        "title": _title(placed.workers, more),
        "now_workers": _workers(placed.workers),
        "then_workers": _workers(more),
        "now_cores": _cores(now),
        "then_cores": _cores(wanted) if gains else _cores(now),
        "why": _why(site, placed, is_full=is_full),
        "losers": "none: the cores are not allocated to anyone else" if gains else "none",
    }
    return proposal_of(
        "more_cpu",
        facts=facts,
        kind="more_cpu" if is_full else "loader_settings",
        saves=ASSUMED["loader_software" if finding.cause == "loader_software" else "setting"],
        artefacts=(*(_core_lines("cores", placed, wanted, now) if gains and wanted else ()), *_loader_lines(placed)),
        move=Move(place, place),
        constraints=(
            checks.cores(site, placed, wanted) if wanted is not None else _UNKNOWN_CORES,
            checks.memory_for_workers(site, placed),
            checks.UNTOLD,
        ),
    )


def _title(now: int | None, then: int | None) -> str:
    if then is None:
        return "twice the loader workers per rank"
    return f"{counted(then, 'loader worker')} per rank, {f'not {now}' if now else 'where it has none'}"


def _more_workers(placed: Placed) -> int | None:
    """Return twice the workers that were seen; of a rank without any, as many as its cores leave beside itself."""
    if placed.workers != 0:
        return None if placed.workers is None else 2 * placed.workers
    cores = placed.cores_per_gpu
    return _FIRST_WORKERS if cores is None else max(1, min(_FIRST_WORKERS, cores - 1))


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
    return moved_to("to_free_cores", placed, site, free, ASSUMED["setting"], cores=more, first=free[0].node)


def _why(site: Site, placed: Placed, *, is_full: bool) -> str:
    why = (
        "each worker saturates its core"
        if is_full
        else "disk, network and cores have headroom; the loader does not use it"
    )
    left = [site.cores_left(node, placed.run_id) for node in placed.hosts]
    if placed.cores is None or None in left:
        return why
    return f"{why}; {sum(each or 0 for each in left) - placed.cores:.0f} cores of its hosts are not allocated to it"


def _workers(count: int | None) -> str:
    if count == 0:
        return "no loader worker: each rank loads in its own process"
    return f"{counted(count, 'loader worker')} per rank" if count is not None else "its loader workers"


def _cores(per_gpu: int | None) -> str:
    return f"{per_gpu} cores per GPU" if per_gpu else "the cores it has"


def _core_lines(row: str, placed: Placed, wanted: int, now: int | None) -> tuple[Artefact, ...]:
    """Return what gives a run so many cores for each GPU; of a pod they are for all of its GPUs."""
    pods = placed.members or len(placed.hosts)
    resources = pod_resources(placed, {"cpu": str(wanted * -(-placed.gpus // pods))})
    return lines(row, placed, wanted=wanted, now=now, resources=resources)


def _loader_lines(placed: Placed) -> tuple[Artefact, ...]:
    """Return the loader's own line; how many workers it has is seen where the agent may look at processes."""
    wanted = _more_workers(placed)
    if wanted is None:
        return lines("loader_unknown", placed)
    return lines("loader", placed, wanted=wanted, now=placed.workers)


def service_cores(placed: Placed, wanted: int, now: int) -> tuple[Artefact, ...]:
    """Return what gives a service so many cores for each GPU."""
    return _core_lines("service_cores", placed, wanted, now)


def pin_memory(finding: Finding, site: Site) -> Proposal | None:
    """Copy from pinned memory, beside the computation, from the NUMA node that the GPU hangs on.

    None where the memory of its hosts is full: what is pinned cannot be swapped.
    """
    placed = site.first_run(finding.run_ids)
    if placed is None or placed.memory_is_full:
        return None
    place = site.place(placed)
    return proposal_of(
        "pin_memory",
        facts={"placed": placed},
        saves=ASSUMED["pinned"],
        artefacts=lines("pin_memory", placed),
        move=Move(place, place),
        constraints=(Constraint("hosts", True, "the same before and after"),),
    )


def other_disk(finding: Finding, site: Site) -> Proposal | None:
    """Move the run to free hosts of its kind, whose local disks nobody reads; one that fills its disks alone stays."""
    placed = site.first_run(finding.run_ids)
    if placed is None:
        return None
    if not any(site.beside(node, *finding.run_ids) for node in placed.hosts):
        return _in_memory(placed, site)
    hosts = site.free_hosts(site.sku_of(placed), placed.gpus_per_host, placed.hosts)[-len(placed.hosts) :]
    others = sorted({one.called for node in placed.hosts for one in site.beside(node, placed.run_id)})
    beside = f"; beside it run {some(others)}" if others else ""
    saves = ASSUMED["faster_storage"]
    return moved_to("to_free_disk", placed, site, hosts, saves, also_costs=_COPIED, beside=beside)


def _in_memory(placed: Placed, site: Site) -> Proposal | None:
    """Keep input in the memory of the run's own hosts, unless it is full: other disks of the kind would be as full."""
    if placed.memory_is_full:
        return None
    place = site.place(placed)
    patch = pod_patch(placed, {"volumes": [{"name": "input-in-memory", "emptyDir": {"medium": "Memory"}}]})
    return proposal_of(
        "cache_input",
        facts={"placed": placed},
        saves=ASSUMED["cached_input"],
        artefacts=lines("to_memory", placed, hosts=len(placed.hosts), patch=patch),
        move=Move(place, place),
        constraints=(_room_in_memory(placed, site.of_run(placed)),),
    )


def _room_in_memory(placed: Placed, hosts: Sequence[Host]) -> Constraint:
    known = [host.memory_bytes for host in hosts if host.memory_bytes is not None]
    if not known or len(known) < len(hosts) or placed.host_bytes is None:
        return Constraint(
            "memory", None, "how much its hosts have to spare is unknown, and so is the size of its input"
        )
    spare = max(0, min(known) - placed.host_bytes)
    return Constraint("memory", None, f"{gib(spare)} and more to spare on each host; the size of its input is unknown")


def stage_on_nvme(finding: Finding, site: Site) -> Proposal | None:
    """Bring input that comes over the network nearer: to its producer's rack, else to local NVMe, its own or other."""
    placed = site.first_run(finding.run_ids)
    if placed is None:
        return None
    beside_producer = _to_producer(placed, site)
    if beside_producer is not None:
        return beside_producer
    own = site.of_run(placed)
    patch = pod_patch(placed, {"volumes": [{"name": "local-input", "emptyDir": {}}]})
    copy = lines("to_nvme", placed, hosts=len(placed.hosts), patch=patch)
    if own and not any(host.local_nvme_bytes for host in own):
        free = site.free_hosts(site.sku_of(placed), placed.gpus_per_host, placed.hosts)
        others = [host for host in free if host.local_nvme_bytes][: len(placed.hosts)]
        if len(others) >= len(placed.hosts):
            saves = ASSUMED["faster_storage"]
            return moved_to("to_nvme", placed, site, others, saves, more=copy, also_costs=_COPIED)
        if all(host.local_nvme_bytes == 0 for host in own):
            return None
    place = site.place(placed)
    return proposal_of(
        "local_nvme",
        facts={"placed": placed},
        saves=ASSUMED["nearer_input"],
        artefacts=copy,
        move=Move(place, place),
        constraints=(checks.known_nvme(own),),
    )


def _to_producer(placed: Placed, site: Site) -> Proposal | None:
    """Move a run to the rack of the run whose output it reads over the network; None where there is none or no room."""
    feed = next((one for one in site.feeds.get(placed.run_id, ()) if _is_elsewhere(site, placed, one)), None)
    if feed is None:
        return None
    rack = site.hosts[feed.node].rack
    hosts = site.free_hosts(site.sku_of(placed), placed.gpus_per_host, placed.hosts)
    free = [host for host in hosts if host.rack == rack][: len(placed.hosts)]
    if len(free) < len(placed.hosts):
        return None
    producer, saves = site.runs[feed.producer], ASSUMED["faster_storage"]
    return moved_to("co_locate_data", placed, site, free, saves, rack=rack, feed=feed, producer=producer)


def _is_elsewhere(site: Site, placed: Placed, feed: Feed) -> bool:
    rack = site.hosts[feed.node].rack if feed.node in site.hosts else None
    return rack is not None and feed.producer in site.runs and rack not in site.racks_of(placed.run_id)
