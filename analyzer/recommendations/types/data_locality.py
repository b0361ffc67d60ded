"""Changes of where input is read: from a disk with room, from local NVMe, or in the rack of who makes it."""

from collections.abc import Sequence

from analyzer.findings.finding import Finding
from analyzer.recommendations.artefacts import kubernetes, slurm
from analyzer.recommendations.artefacts.owner import for_scheduler
from analyzer.recommendations.proposal import Proposal
from analyzer.recommendations.recommendation import Artefact, Constraint, Move
from analyzer.recommendations.saving import ASSUMED
from analyzer.recommendations.site import Feed, Host, Placed, Site
from analyzer.recommendations.types import checks
from analyzer.recommendations.types.to_hosts import Reason, moved_to
from analyzer.text.wording import gib, some


def other_disk(finding: Finding, site: Site) -> Proposal | None:
    """Move the run to free hosts of its kind, whose local disks nobody reads; one that fills its disks alone stays."""
    placed = site.first_run(finding.run_ids)
    if placed is None:
        return None
    if not any(site.beside(node, *finding.run_ids) for node in placed.hosts):
        return _in_memory(placed, site)
    hosts = site.free_hosts(site.sku_of(placed), placed.gpus_per_host, placed.hosts)[-len(placed.hosts) :]
    beside = sorted({one.called for node in placed.hosts for one in site.beside(node, placed.run_id)})
    why = "its readers wait for the disk, not for the cores"
    why += f"; beside it run {some(beside)}" if beside else ""
    return moved_to(placed, site, hosts, _nearer("read from a disk that has room", why))


def _in_memory(placed: Placed, site: Site) -> Proposal:
    """Keep input in the memory of the run's own hosts: other disks of the same kind would be as full."""
    place = site.place(placed)
    return Proposal(
        kind="cache_input",
        title="keep its input in memory",
        from_=f"local disks of {some(list(placed.hosts))}, which it fills alone",
        to="the memory of its hosts, read from disk once",
        why="its readers wait for the disk, not for the cores; nobody else runs on its hosts, so the same disks"
        " elsewhere would be as full",
        saves=ASSUMED["cached_input"],
        artefacts=_to_memory(placed),
        losers="nobody, while its hosts have memory to spare",
        move=Move(place, place),
        constraints=(_room_in_memory(placed, site.of_run(placed)),),
        cost_to_move="from the next start on: one reading of its input on each host",
        actor="run",
    )


def _room_in_memory(placed: Placed, hosts: Sequence[Host]) -> Constraint:
    known = [host.memory_bytes for host in hosts if host.memory_bytes is not None]
    if not known or len(known) < len(hosts) or placed.host_bytes is None:
        return Constraint("memory", None, "how much its hosts have to spare is not known, nor how large its input is")
    spare = max(0, min(known) - placed.host_bytes)
    return Constraint(
        "memory", None, f"{gib(spare)} and more to spare on each host; how large its input is, is not known"
    )


def _to_memory(placed: Placed) -> tuple[Artefact, ...]:
    return for_scheduler(
        placed,
        lambda: slurm.commands(
            "# in the batch script, before training, with --mem raised by as much. Which directory it reads is not",
            "# known to the store: DATA says so, and without it the script ends here",
            ': "${DATA:?the directory that it reads}"',
            f'srun --nodes={len(placed.hosts)} --ntasks-per-node=1 rsync -a "$DATA/" "/dev/shm/input/"',
        ),
        lambda: kubernetes.text(
            "# a volume in memory, for an init container of the run's image to copy its input to; it counts against",
            "# the pod's memory limit. Image and directory are not known to the store",
            kubernetes.patch(placed, {"volumes": [{"name": "input-in-memory", "emptyDir": {"medium": "Memory"}}]}).text,
        ),
    )


def stage_on_nvme(finding: Finding, site: Site) -> Proposal | None:
    """Bring input that comes over the network nearer: to its producer's rack, else to local NVMe, its own or other."""
    placed = site.first_run(finding.run_ids)
    if placed is None:
        return None
    beside_producer = _to_producer(placed, site)
    if beside_producer is not None:
        return beside_producer
    own = site.of_run(placed)
    if own and not any(host.local_nvme_bytes for host in own):
        others = [
            h for h in site.free_hosts(site.sku_of(placed), placed.gpus_per_host, placed.hosts) if h.local_nvme_bytes
        ]
        if len(others) >= len(placed.hosts):
            why = "it waits for a network mount, and its own hosts have no local NVMe"
            reason = _nearer("run where local NVMe is", why, _copy(placed))
            return moved_to(placed, site, others[: len(placed.hosts)], reason)
        if all(host.local_nvme_bytes == 0 for host in own):
            return None
    place = site.place(placed)
    return Proposal(
        kind="local_nvme",
        title="read its input from local NVMe",
        from_=f"network mount, read by {some(list(placed.hosts))}",
        to="their own NVMe, filled once before the first epoch",
        why="its workers wait for a network mount; what is read again each epoch crosses the network once",
        saves=ASSUMED["nearer_input"],
        artefacts=_copy(placed),
        losers="nobody",
        move=Move(place, place),
        constraints=(_own_nvme(own),),
        cost_to_move="from the next start on: one copy of its input to each host, and room for it there",
    )


def _own_nvme(hosts: Sequence[Host]) -> Constraint:
    silent = [host.node for host in hosts if host.local_nvme_bytes is None]
    if silent or not hosts:
        return Constraint("local NVMe", None, f"nobody told whether {some(silent) or 'its hosts'} have any")
    return checks.nvme(hosts, None)


def _nearer(title: str, why: str, more: tuple[Artefact, ...] = ()) -> Reason:
    return Reason("local_nvme", title, why, ASSUMED["faster_storage"], more, also_costs=", and a copy of its input")


def _copy(placed: Placed) -> tuple[Artefact, ...]:
    return for_scheduler(
        placed,
        lambda: slurm.commands(
            "# in the batch script, before training. Which directory it reads, and where the NVMe is mounted, is not",
            "# known to the store: DATA and LOCAL say so, and without them the script ends here",
            ': "${DATA:?the directory that it reads}" "${LOCAL:?a directory on the local NVMe}"',
            f'srun --nodes={len(placed.hosts)} --ntasks-per-node=1 rsync -a "$DATA/" "$LOCAL/"',
        ),
        lambda: kubernetes.text(
            "# a volume on the node's own disk, for an init container of the run's image to copy its input to;",
            "# image and directory are not known to the store",
            kubernetes.patch(placed, {"volumes": [{"name": "local-input", "emptyDir": {}}]}).text,
        ),
    )


def _to_producer(placed: Placed, site: Site) -> Proposal | None:
    """Move a run to the rack of the run whose output it reads over the network; None where there is none or no room."""
    feed = next((one for one in site.feeds.get(placed.run_id, ()) if _is_elsewhere(site, placed, one)), None)
    if feed is None:
        return None
    rack = site.hosts[feed.node].rack
    free = [
        host for host in site.free_hosts(site.sku_of(placed), placed.gpus_per_host, placed.hosts) if host.rack == rack
    ][: len(placed.hosts)]
    producer = site.runs[feed.producer]
    if len(free) < len(placed.hosts):
        return None
    return moved_to(
        placed,
        site,
        free,
        Reason(
            "co_locate_data",
            f"run beside {producer.called} in {rack}",
            f"it waits for input, and received {gib(feed.bytes)} from {feed.node}, where {producer.called} runs",
            ASSUMED["faster_storage"],
            winners="the run itself, and whoever shares the links between the racks",
        ),
    )


def _is_elsewhere(site: Site, placed: Placed, feed: Feed) -> bool:
    rack = site.hosts[feed.node].rack if feed.node in site.hosts else None
    return rack is not None and feed.producer in site.runs and rack not in site.racks_of(placed.run_id)
