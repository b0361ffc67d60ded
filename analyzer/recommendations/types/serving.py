"""Changes of services: batch, fewer replicas, cores, room in the cache, hosts of their own."""

from collections.abc import Sequence

from analyzer.findings.finding import Finding
from analyzer.findings.health.notice import Notice
from analyzer.recommendations.artefacts import kubectl, kubectl_scale, native, remark, scancel, scheduler
from analyzer.recommendations.proposal import Proposal, lines, proposal_of
from analyzer.recommendations.recommendation import ASSUMED, Artefact, Constraint, Move
from analyzer.recommendations.site import Placed, Site
from analyzer.recommendations.types import checks
from analyzer.recommendations.types.idle import idle_words, idling
from analyzer.recommendations.types.input_path import service_cores
from analyzer.recommendations.types.moves import moved_to
from analyzer.text.words import counted, some

# A batch may wait for a tenth of what the promise leaves; ours, as are its bounds in microseconds.
_SLACK_PART, _DELAY_LEAST, _DELAY_MOST = 10, 100, 50_000
# Both batch continuously: one request at a time is then a limit that somebody set.
_BEYOND_SECONDS = 1e6  # as which the ledger books what is later than a histogram can tell
_FLAGS = {"vllm": "--max-num-seqs", "tgi": "--max-concurrent-requests"}


def batch(finding: Finding, site: Site) -> Proposal | None:
    """Serve requests together, as long as the promise leaves room for a batch to fill."""
    runs = site.placed(finding.run_ids)
    if not runs:
        return None
    delay = _delay(runs[0], site)
    place = site.whole_place(runs)
    filling = "" if delay is None else f"; waiting for it to fill adds no more than {delay / 1000:g} ms"
    return proposal_of(
        "batch",
        facts={"gpus": sum(one.gpus for one in runs), "filling": filling},
        served=(site, runs),
        saves=ASSUMED["share"],
        artefacts=_batching(runs[0], site, delay),
        move=Move(place, place),
        constraints=(_promise(runs[0], site, is_late=None),),
    )


def _delay(placed: Placed, site: Site) -> int | None:
    """Return how long a batch may wait to fill, in microseconds; None where promise or latency is not known."""
    said = site.services.get(placed.run_id)
    if said is None or said.slo_seconds is None or said.worst_seconds is None:
        return None
    slack = round((said.slo_seconds - said.worst_seconds) * 1_000_000)
    return max(_DELAY_LEAST, min(_DELAY_MOST, slack // _SLACK_PART)) if slack > 0 else None


def _batching(placed: Placed, site: Site, delay: int | None) -> tuple[Artefact, ...]:
    said = site.services.get(placed.run_id)
    engine = said.engine if said else None
    if engine in _FLAGS:
        return lines("batches_by_itself", placed, engine=engine, flag=_FLAGS[engine])
    if delay is None:
        untold = "the service reports no latency or has no SLO (slo_seconds)"
        because = untold if site.looks_at("services") else "its latency was not checked"
        return lines("batch_what_waits", placed, because=because)
    return lines("batch", placed, delay=delay)


def _promise(placed: Placed, site: Site, is_late: bool | None) -> Constraint:
    """Say whether the promise is kept now; where it is not, the check is `is_late`: a batch may shorten the queue."""
    said = site.services.get(placed.run_id)
    if said is None or said.slo_seconds is None or said.worst_seconds is None:
        unlooked = "" if site.looks_at("services") else ": its stack's metrics were not checked"
        return Constraint("promise", None, f"its latency or its SLO (slo_seconds) is unknown{unlooked}")
    after = (
        f"after {said.worst_seconds:.3g} s"
        if said.worst_seconds < _BEYOND_SECONDS
        else "beyond its engine's last bucket"
    )
    told = f"first tokens {after} in its worst 5% of intervals, {said.slo_seconds:.3g} s SLO"
    return Constraint("promise", True if said.worst_seconds <= said.slo_seconds else is_late, told)


def fewer_replicas(finding: Finding, site: Site) -> Proposal | None:
    """Keep as many replicas as the service's policy needed at its busiest; None where its policy was not evaluated."""
    runs = site.placed(finding.run_ids)
    said = next((site.services[one.run_id] for one in runs if one.run_id in site.services), None)
    if said is None or said.replicas is None or said.needed is None or not runs:
        return None
    surplus = said.replicas - said.needed
    gpus = sum(one.gpus for one in runs)
    kept = max(1, gpus * said.needed // said.replicas) if surplus > 0 else gpus
    place = site.whole_place(runs)
    promise = "" if said.slo_seconds else "; no SLO is declared"
    return proposal_of(
        *(("fewer_replicas",) if surplus > 0 else ("replicas_by_hours", "fewer_replicas")),
        facts={"finding": finding, "takers": site.takers, "said": said, "gpus": gpus, "promise": promise},
        served=(site, runs),
        after_seconds=said.slo_seconds,
        saves=ASSUMED["release"],
        artefacts=_scaled(runs, said.needed, surplus),
        move=Move(place, site.place_on(place.nodes, kept, site.sku_of(runs[0]))),
        constraints=(
            Constraint("policy", True, f"{counted(said.needed, 'replica')} needed at the peak of this period"),
            _promise(runs[0], site, is_late=False),
        ),
        ends_work=any(one.is_open for one in runs),
    )


def _scaled(runs: Sequence[Placed], needed: int, surplus: int) -> tuple[Artefact, ...]:
    """Return what leaves so many replicas; of jobs of Slurm by the clock: those end that answer nothing until now."""
    first = runs[0]
    still = [one for one in idling(runs) if scheduler(one.run_id) == "slurm"]
    quiet = sorted(still, key=lambda one: (-(one.idle_seconds or 0), one.run_id))[: max(0, surplus)]
    idle = ", ".join(f"{remark(native(one.run_id))} idles for {idle_words([one])}" for one in quiet)
    return lines(
        "replicas" if surplus > 0 and len(runs) == 1 else "replicas_by_load",
        {"kubernetes" if scheduler(first.run_id) == "kubernetes" else "slurm"},
        scale=kubectl_scale(first, needed),
        autoscale=kubectl(first, "autoscale", f"--min=1 --max={needed} --cpu-percent=60"),
        asked="# once its owner agrees: a replica that ends loses the requests that it answers"
        f": {idle}\n{scancel(quiet)}"
        if quiet
        else f"# start no more than {counted(needed, 'replica')} of it at once",
    )


def more_cores(notice: Notice, site: Site) -> Proposal | None:
    """Give a service whose requests run while the GPU has no kernel more cores on the same hosts."""
    placed = site.first_run(notice.run_ids)
    now = placed.cores_per_gpu if placed else None
    if placed is None or now is None:
        return None
    wanted = max(now + 1, now * 3 // 2)
    place = site.place(placed)
    return proposal_of(
        "service_cores",
        facts={"placed": placed, "notice": notice, "now": now, "wanted": wanted},
        served=(site, [placed]),
        saves=checks.NOTHING,
        artefacts=service_cores(placed, wanted, now),
        move=Move(place, place),
        constraints=(checks.cores(site, placed, wanted), checks.UNTOLD),
    )


def kv_cache(notice: Notice, site: Site) -> Proposal | None:
    """Let the KV cache hold more: one replica more, where GPUs are free for it."""
    placed = site.first_run(notice.run_ids)
    if placed is None:
        return None
    replicas = placed.members or 1
    each = -(-placed.gpus // replicas)
    free = site.free_hosts(site.sku_of(placed), each)
    if not free:
        return None
    node = free[0].node
    nodes = [*placed.hosts, *(() if node in placed.hosts else (node,))]
    facts = {
        "placed": placed,
        "notice": notice,
        "replicas": replicas,
        "more": replicas + 1,
        "each": each,
        "node": node,
    }
    return proposal_of(
        "one_replica_more",
        facts=facts,
        served=(site, [placed]),
        saves=checks.NOTHING,
        artefacts=lines("one_replica_more", placed, node=node, each=each, scale=kubectl_scale(placed, replicas + 1)),
        move=Move(site.place(placed), site.place_on(nodes, placed.gpus + each, site.sku_of(placed))),
        constraints=(checks.room(each, free[:1]), checks.in_service(free[:1]), checks.UNTOLD),
    )


def hosts_of_their_own(notice: Notice, site: Site) -> Proposal | None:
    """Move a service away from training that it, or that, is seen to do worse beside; None where neither is."""
    placed = site.first_run(notice.run_ids)
    if placed is None or notice.confidence == "low":
        return None
    trainings = sorted({one.called for node in placed.hosts for one in site.beside(node, placed.run_id)})
    quiet = [
        host
        for host in site.free_hosts(site.sku_of(placed), placed.gpus_per_host, placed.hosts)
        if all(one.stage == "serving" for one in site.beside(host.node))
    ][: len(placed.hosts)]
    return moved_to(
        "split_serving",
        placed,
        site,
        quiet,
        checks.NOTHING,
        served=(site, [placed]),
        notice=notice,
        trainings=some(trainings) or "training",
        told="; ".join(f"{line.what}: {line.seen}" for line in notice.evidence),
    )
