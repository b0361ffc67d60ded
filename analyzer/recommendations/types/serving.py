"""Changes of services: batch, fewer replicas, cores, room in the cache, hosts of their own."""

from collections.abc import Sequence

from analyzer.findings.finding import Finding
from analyzer.findings.health.notice import Notice
from analyzer.recommendations.artefacts import kubernetes, slurm
from analyzer.recommendations.artefacts.owner import for_scheduler, native, scheduler
from analyzer.recommendations.artefacts.quoting import remark
from analyzer.recommendations.proposal import Proposal
from analyzer.recommendations.recommendation import Artefact, Constraint, Move
from analyzer.recommendations.saving import ASSUMED
from analyzer.recommendations.site import Placed, Site
from analyzer.recommendations.types import checks
from analyzer.recommendations.types.amounts import NOTHING
from analyzer.recommendations.types.idle import idle_words, idling, whole_place
from analyzer.recommendations.types.latencies import latency
from analyzer.recommendations.types.to_hosts import Reason, moved_to
from analyzer.text.wording import counted, some

# A batch may wait for a tenth of what the promise leaves; ours, as are its bounds in microseconds.
_SLACK_PART, _DELAY_LEAST, _DELAY_MOST = 10, 100, 50_000
_ASKED = "# once its owner agrees: a replica that ends loses the requests that it answers"


def batch(finding: Finding, site: Site) -> Proposal | None:
    """Serve requests together, as long as the promise leaves room for a batch to fill."""
    runs = site.placed(finding.run_ids)
    if not runs:
        return None
    gpus = sum(one.gpus for one in runs)
    delay = _delay(runs[0], site)
    place = whole_place(site, runs)
    told = "a batch takes longer than one request: by how much, only a load test says"
    if delay is not None:
        told += f"; waiting for it to fill adds {delay / 1000:g} ms at most"
    return Proposal(
        kind="batch",
        title="batch its requests",
        from_=f"small batches on {counted(gpus, 'GPU')}",
        to="dynamic batches within the latency it promises",
        why="the GPU is busy and the chip is not",
        saves=ASSUMED["share"],
        artefacts=_batching(runs[0], site, delay),
        losers="the latency of single requests, within the promise",
        winners="requests that wait behind others",
        move=Move(place, place),
        constraints=(_promise(runs[0], site, is_late=None),),
        latency=latency(site, runs, None, told),
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
    if engine in ("vllm", "tgi"):
        # Both batch continuously: one request at a time is then a limit that somebody set.
        flag = "--max-num-seqs" if engine == "vllm" else "--max-concurrent-requests"
        return (Artefact("config", f"# {engine} batches by itself: look for {flag}, and leave it at its default"),)
    if delay is None:
        untold = "the service tells no latency, or no promise (slo_seconds)"
        because = untold if site.looks_at("services") else "its latency was not looked at here"
        why = f"how long a batch may wait is not known: {because}"
        return (
            Artefact(
                "config", f"# {why}\ndynamic_batching {{ }}    # Triton, config.pbtxt: batches what waits already"
            ),
        )
    return (
        Artefact("config", f"# Triton, config.pbtxt\ndynamic_batching {{ max_queue_delay_microseconds: {delay} }}"),
    )


def _promise(placed: Placed, site: Site, is_late: bool | None) -> Constraint:
    """Say whether the promise is kept now; where it is not, the check is `is_late`: a batch may shorten the queue."""
    said = site.services.get(placed.run_id)
    if said is None or said.slo_seconds is None or said.worst_seconds is None:
        unlooked = "" if site.looks_at("services") else ": what its stack tells was not looked at here"
        return Constraint("promise", None, f"its latency, or what it promises (slo_seconds), is not known{unlooked}")
    told = f"first tokens after {said.worst_seconds:.3g} s in its worst twentieth, {said.slo_seconds:.3g} s promised"
    return Constraint("promise", True if said.worst_seconds <= said.slo_seconds else is_late, told)


def fewer_replicas(finding: Finding, site: Site) -> Proposal | None:
    """Keep as many replicas as the service's policy needed at its busiest; None where its policy was not evaluated."""
    runs = site.placed(finding.run_ids)
    said = next((site.services[one.run_id] for one in runs if one.run_id in site.services), None)
    if said is None or said.replicas is None or said.needed is None or not runs:
        return None
    surplus = said.replicas - said.needed
    steady = surplus > 0
    gpus = sum(one.gpus for one in runs)
    kept = max(1, gpus * said.needed // said.replicas) if steady else gpus
    nodes = whole_place(site, runs).nodes
    told = "its policy says that so many answer the busiest ten minutes of its look-back within the promise"
    return Proposal(
        kind="fewer_replicas",
        title=f"keep {counted(said.needed, 'replica')}, not {said.replicas}"
        if steady
        else "follow the hours of its traffic",
        from_=f"{counted(said.replicas, 'replica')} of {finding.subject} on {counted(gpus, 'GPU')}",
        to=f"{counted(said.needed, 'replica')}"
        if steady
        else f"up to {counted(said.needed, 'replica')}, fewer in hours that need fewer",
        why="those beyond stood by, and its policy asks for no more",
        saves=ASSUMED["release"],
        artefacts=_scaled(runs, said.needed, surplus),
        losers="its requests, if more of them come than in the look-back of its policy",
        winners="whoever waits for GPUs" if site.waiting else "the fleet: free GPUs",
        move=Move(whole_place(site, runs), site.place_on(nodes, kept, site.sku_of(runs[0]))),
        constraints=(
            Constraint("policy", True, f"{counted(said.needed, 'replica')} needed at the most in this period"),
            _promise(runs[0], site, is_late=False),
        ),
        latency=latency(site, runs, said.slo_seconds, told if said.slo_seconds else f"{told}; no promise is declared"),
        cost_to_move="requests that a replica is answering when it ends",
        ends_work=any(one.is_open for one in runs),
    )


def _scaled(runs: Sequence[Placed], needed: int, surplus: int) -> tuple[Artefact, ...]:
    """Return what leaves so many replicas; of jobs of Slurm by the clock: those end that answer nothing until now."""
    first = runs[0]
    if scheduler(first.run_id) == "kubernetes":
        if surplus > 0 and len(runs) == 1:
            return (kubernetes.text(_ASKED, kubernetes.scale(first, needed)),)
        said = kubernetes.command(first, "autoscale", f"--min=1 --max={needed} --cpu-percent=60")
        note = "# by the load of its processors; by its requests, where an adapter tells the cluster of them"
        return (kubernetes.text(_ASKED, note, said),)
    still = [one for one in idling(runs) if scheduler(one.run_id) == "slurm"]
    quiet = sorted(still, key=lambda one: (-(one.idle_seconds or 0), one.run_id))[: max(0, surplus)]
    if quiet:
        idle = ", ".join(f"{remark(native(one.run_id))} idles for {idle_words([one])}" for one in quiet)
        return (slurm.commands(f"{_ASKED}: {idle}", slurm.cancel(quiet)),)
    return (slurm.commands(f"# start no more than {counted(needed, 'replica')} of it at once"),)


def more_cores(notice: Notice, site: Site) -> Proposal | None:
    """Give a service whose requests run while the GPU has no kernel more cores on the same hosts."""
    placed = site.first_run(notice.run_ids)
    now = placed.cores_per_gpu if placed else None
    if placed is None or now is None:
        return None
    wanted = max(now + 1, now * 3 // 2)
    pods = placed.members or len(placed.hosts)
    place = site.place(placed)
    return Proposal(
        kind="more_cpu",
        title=f"{wanted} cores a GPU, not {now}",
        from_=f"{now} cores a GPU on {some(list(placed.hosts))}",
        to=f"{wanted} cores a GPU, same hosts, and another server process for them",
        why=notice.sentence,
        saves=NOTHING,
        artefacts=for_scheduler(
            placed,
            lambda: slurm.options(f"cpus-per-gpu={wanted}", note=f"was {now}"),
            lambda: kubernetes.resources(placed, {"cpu": str(wanted * -(-placed.gpus // pods))}),
        ),
        losers="nobody, while the cores are not allotted to others",
        winners="its requests, and the replicas that more of them would have needed",
        move=Move(place, place),
        constraints=(checks.cores(site, placed, wanted), checks.UNTOLD),
        latency=latency(site, [placed], None, "what of it is the host's, nobody measures: a trial says"),
        cost_to_move="a restart of its replicas, one after another",
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
    nodes = [*placed.hosts, *(() if free[0].node in placed.hosts else (free[0].node,))]
    return Proposal(
        kind="one_replica_more",
        title="one replica more, for its KV cache",
        from_=f"{counted(replicas, 'replica')} on {counted(placed.gpus, 'GPU')}",
        to=f"{counted(replicas + 1, 'replica')}, the new one on {free[0].node}",
        why=notice.sentence,
        saves=NOTHING,
        artefacts=for_scheduler(
            placed,
            lambda: slurm.options(
                f"nodelist={free[0].node}", f"gpus={each}", note="one more of the same script, behind the same address"
            ),
            lambda: kubernetes.text(kubernetes.scale(placed, replicas + 1)),
        ),
        losers=f"whoever would take {counted(each, 'GPU')} of {free[0].node} next: this costs GPU time, and saves none",
        winners="requests that wait for room in the cache",
        move=Move(site.place(placed), site.place_on(nodes, placed.gpus + each, site.sku_of(placed))),
        constraints=(checks.room(each, free[:1]), checks.in_service(free[:1]), checks.UNTOLD),
        latency=latency(site, [placed], None, "the queue falls to its share of one replica more; a load test says"),
        cost_to_move="none: the others stay",
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
    told = "; ".join(f"{line.what}: {line.seen}" for line in notice.evidence)
    why = f"{notice.sentence}"
    reason = Reason(
        "split_serving",
        "serve on hosts without training",
        why,
        NOTHING,
        winners=f"its requests, and {some(trainings)}" if trainings else "its requests, and training",
        actor="platform",
        latency=latency(site, [placed], None, f"as it is apart from training ({told})"),
    )
    return moved_to(placed, site, quiet, reason)
