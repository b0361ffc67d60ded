"""Changes of GPUs that are held and not used: give them back, or do not ask for them."""

from collections.abc import Sequence

from analyzer.findings.finding import Finding
from analyzer.findings.health.notice import Notice
from analyzer.recommendations.artefacts import kubernetes, slurm
from analyzer.recommendations.artefacts.owner import for_scheduler, native, scheduler
from analyzer.recommendations.artefacts.quoting import remark
from analyzer.recommendations.proposal import Proposal
from analyzer.recommendations.recommendation import Artefact, Constraint, Move, Placement
from analyzer.recommendations.saving import ASSUMED, share_of_loss
from analyzer.recommendations.site import Placed, Site, distinct
from analyzer.recommendations.types import checks
from analyzer.recommendations.types.amounts import NOTHING
from analyzer.recommendations.types.latencies import latency
from analyzer.sizing.memory import need_of
from analyzer.text.wording import counted, length_of_time, some

_LEAST_OF_LOSS = 10  # a change must touch a tenth of the loss that it answers to be worth a word: ours
_MARGIN = 5, 4  # a time limit leaves a quarter above what was worked
_IDLING_SECONDS = 1800  # by the clock, before anybody is asked: as the ledger calls a GPU abandoned
_UNSAVED = "what it has in memory and has not saved"


def release(finding: Finding, site: Site) -> Proposal:
    """Ask for GPUs back of runs that idle by the clock now; of others a limit from the next start on."""
    runs = site.placed(finding.run_ids)
    still = idling(runs)
    of = still or runs
    gpus = distinct(of)
    lines = _ending(still) if still else _limits(runs)
    if still:
        title = f"ask its owner to release {counted(gpus, 'GPU')}, idle for {idle_words(still)}"
        to, cost = "free, if its owner agrees", _UNSAVED
    else:
        title = "end runs once they fall quiet"
        ended = "" if any(one.is_open for one in runs) else ": they have ended by now, the next ones may not"
        to = f"given back when its work is done{ended}"
        limited = "what a run that takes longer has not saved, when the limit ends it"
        cost = limited if lines else _UNSAVED
    return Proposal(
        kind="release",
        title=title,
        from_=f"{counted(gpus, 'GPU')} held by {finding.subject}: {some(_nodes(of))}",
        to=to,
        why="nothing ran on them any more"
        if finding.cause == "abandoned"
        else "memory is held, and next to nothing runs",
        saves=ASSUMED["release"],
        artefacts=lines,
        losers="the run's owner, where it was about to go on or has not saved",
        winners="whoever waits for GPUs" if site.waiting else "the fleet: free GPUs",
        move=Move(whole_place(site, of), None),
        constraints=(_owner_said(still),),
        latency=latency(site, of, None, "nobody asked it meanwhile; the next request waits until it has started"),
        cost_to_move=cost,
        ends_work=True,
    )


def end_hung(finding: Finding, site: Site) -> Proposal | None:
    """Ask to end a run in which no rank moves, by the clock and until now; None where none of them hangs still."""
    still = idling(site.placed(finding.run_ids))
    if not still:
        return None
    gpus = distinct(still)
    return Proposal(
        kind="release",
        title=f"ask its owner to end what hangs for {idle_words(still)}",
        from_=f"{counted(gpus, 'GPU')} held by {finding.subject}, in which no rank moves",
        to="begun anew from its last checkpoint, or free",
        why="ranks wait for each other and none works",
        saves=ASSUMED["release"],
        artefacts=_ending(still),
        losers="nobody, if it hangs; whoever looks into why, until the stacks of its ranks are written down",
        winners="the run itself",
        move=Move(whole_place(site, still), None),
        constraints=(_owner_said(still),),
        cost_to_move="what it computed since its last checkpoint, and the state of its ranks",
        ends_work=True,
    )


def idling(runs: Sequence[Placed]) -> list[Placed]:
    """Return those that still run and on whose GPUs nothing runs now: of which that is not known are left alone."""
    return [one for one in runs if one.is_open and (one.idle_seconds or 0) >= _IDLING_SECONDS]


def idle_words(runs: Sequence[Placed]) -> str:
    """Return for how long the one that idles least does, by the clock."""
    least = length_of_time(1000 * min(one.idle_seconds or 0 for one in runs))
    return least if len(runs) == 1 else f"{least} or more"


def ask_for_fewer(finding: Finding, site: Site) -> Proposal | None:
    """Do not ask for GPUs on which no kernel ever ran: by how many, the ledger knows.

    None where those that waited worked later on: a session that begins in the afternoon needs its GPU.
    """
    runs = site.placed(finding.run_ids)
    lost_ms = _never_used(finding, runs)
    if lost_ms * _LEAST_OF_LOSS < finding.milliseconds:
        return None
    held = sum(one.gpus for one in runs)
    unused = min(held, _gpus_of(lost_ms, runs))
    left = held - unused
    each = "" if len(runs) == 1 else f" by {counted(len(runs), 'run')}"
    return Proposal(
        kind="right_size",
        title="do not hold GPUs that are never used",
        from_=f"{counted(held, 'GPU')} asked for by {finding.subject}; never used: {unused}",
        to=f"{counted(left, 'GPU')} asked for{each}" if left else "hosts without GPUs",
        why="no kernel ran on them",
        saves=share_of_loss(ASSUMED["never_used"], lost_ms, finding.milliseconds),
        artefacts=_fewer_of(runs, left) if runs else (),
        losers="nobody",
        winners="whoever waits for GPUs" if site.waiting else "the fleet: free GPUs",
        move=Move(whole_place(site, runs), _smaller(site, runs, left)),
        constraints=(
            Constraint("GPUs that worked", True, f"{left} of {held} ran a kernel in this period"),
            Constraint("host without GPUs", None, "whether the site has any is not known here")
            if left == 0
            else Constraint("ranks", None, "whether the run can work with fewer ranks, its owner knows"),
            *_model_on_fewer(site, runs, left),
        ),
    )


def _model_on_fewer(site: Site, runs: Sequence[Placed], left: int) -> list[Constraint]:
    """Say whether a run's model fits the GPUs that are left to it; nothing where model or memory is not known."""
    need = need_of(runs[0].model, runs[0].stage, left) if len(runs) == 1 and left else None
    memory = [host.gpu_memory_bytes for host in site.of_run(runs[0]) if host.gpu_memory_bytes] if need else []
    if need is None or not memory:
        return []
    return [checks.model_memory(need, site.sku_of(runs[0]) or "its GPUs", min(memory), site)]


def _fewer_of(runs: Sequence[Placed], left: int) -> tuple[Artefact, ...]:
    """Return the lines for these runs: fewer for each where that is even, else none for those that never worked."""
    first, is_even = runs[0], left % len(runs) == 0 and len({one.gpus for one in runs}) == 1
    if is_even:
        return _fewer(first, left // len(runs))
    quiet = [native(one.run_id) for one in runs if one.productive_ms == 0] or [native(one.run_id) for one in runs]
    return _fewer(first, 0, f", as of {some(quiet, 8)}")


def without_gpus(notice: Notice, site: Site) -> Proposal | None:
    """Give work for processors that holds no GPU to hosts without any; what holds some has a finding of its own."""
    node = notice.node
    if node is None or any(run_id in site.runs for run_id in notice.run_ids) or not notice.run_ids:
        return None
    run = Placed(notice.run_ids[0], (node,), 0, None, name=notice.subject)
    beside = sorted({one.called for one in site.beside(node)})
    return Proposal(
        kind="right_size",
        title="run it on hosts without GPUs",
        from_=f"{node}: {notice.sentence}",
        to="a host without GPUs",
        why="it computes on processors alone",
        saves=NOTHING,
        artefacts=for_scheduler(
            run,
            lambda: slurm.options(f"exclude={','.join(sorted(site.hosts))}", note="all hosts with GPUs"),
            lambda: kubernetes.patch(run, kubernetes.without_label("nvidia.com/gpu.present")),
        ),
        losers="nobody",
        winners=f"the cores of {node}, for {some(beside)}" if beside else f"the cores of {node}, for runs with GPUs",
        move=Move(site.place_on([node], 0), None),
        constraints=(Constraint("host without GPUs", None, "whether the site has any is not known here"),),
    )


def whole_place(site: Site, runs: Sequence[Placed]) -> Placement:
    """Return all that these runs hold as one place."""
    skus = {site.sku_of(one) for one in runs}
    return site.place_on(_nodes(runs), distinct(runs), skus.pop() if len(skus) == 1 else None)


def _nodes(runs: Sequence[Placed]) -> list[str]:
    return sorted({node for one in runs for node in one.hosts})


def _never_used(finding: Finding, runs: Sequence[Placed]) -> int:
    """Return how much of the finding's time is of GPUs that never worked: all of it where that is not known."""
    known = [one.never_used_ms for one in runs]
    return finding.milliseconds if None in known else min(finding.milliseconds, sum(each or 0 for each in known))


def _gpus_of(lost_ms: int, runs: Sequence[Placed]) -> int:
    """Return how many GPUs' time this is, of what these runs held: all of them where that is not known."""
    held_ms = sum(one.held_ms or 0 for one in runs)
    gpus = sum(one.gpus for one in runs)
    return max(1, round(gpus * lost_ms / held_ms)) if held_ms else gpus


def _smaller(site: Site, runs: Sequence[Placed], left: int) -> Placement | None:
    return site.place_on(_nodes(runs), left, site.sku_of(runs[0])) if left and runs else None


def _owner_said(still: Sequence[Placed]) -> Constraint:
    if not still:
        return Constraint("state is saved", None, "each run's own matter")
    held = ", ".join(f"{one.called} on {some(list(one.hosts))}" for one in still[:3])
    return Constraint("state is saved", None, f"still held: {held}; whether its state is saved, only its owner knows")


def _ending(runs: Sequence[Placed]) -> tuple[Artefact, ...]:
    """Return what ends these runs, under what it ends and what may be lost."""
    of_slurm = [one for one in runs if scheduler(one.run_id) == "slurm"]
    of_kubernetes = [one for one in runs if scheduler(one.run_id) == "kubernetes"]
    found: list[Artefact] = []
    if of_slurm:
        found.append(slurm.commands(*map(_warning, of_slurm), slurm.cancel(of_slurm)))
    if of_kubernetes:
        found.append(kubernetes.text(*(line for one in of_kubernetes for line in (_warning(one), _end(one)))))
    return tuple(found)


def _warning(one: Placed) -> str:
    idle = length_of_time(1000 * (one.idle_seconds or 0))
    return f"# once its owner agrees: {remark(one.called)} idles for {idle}, and loses {_UNSAVED}"


def _end(placed: Placed) -> str:
    """Return what ends a run of Kubernetes; who is kept alive there is scaled to nothing, and can come back."""
    return kubernetes.scale(placed, 0) if placed.kind in kubernetes.SCALABLE else kubernetes.delete(placed)


def _limits(runs: Sequence[Placed]) -> tuple[Artefact, ...]:
    """Return a limit above the longest that any of these runs worked, by the clock; none where that is not known.

    None also where it is longer than every run was.
    """
    worked = [one.active_seconds for one in runs if one.active_seconds is not None]
    if not worked or len(worked) < len(runs):
        return ()
    seconds = max(worked) * _MARGIN[0] // _MARGIN[1]
    lengths = [
        one.active_seconds + one.idle_seconds
        for one in runs
        if one.active_seconds is not None and one.idle_seconds is not None
    ]
    if len(lengths) == len(runs) and seconds >= max(lengths):  # it would end none of them sooner
        return ()
    of = "it" if len(runs) == 1 else f"the longest of {len(runs)} runs"
    note = f"a quarter above what {of} worked by the clock; a run that takes longer loses what it has not saved"
    return for_scheduler(
        runs[0],
        lambda: slurm.options(f"time={slurm.duration(seconds)}", note=note),
        lambda: kubernetes.text(f"# {note}; of a Job:", "spec:", f"  activeDeadlineSeconds: {seconds}"),
    )


def _fewer(placed: Placed, gpus: int, which: str = "") -> tuple[Artefact, ...]:
    if gpus == 0:
        return for_scheduler(
            placed,
            lambda: slurm.commands(
                f"# leave --gres and all that begins with --gpu out of its script{remark(which)}, and give it the",
                "# partition of hosts without GPUs, whose name is not known to the store",
            ),
            lambda: kubernetes.text(
                f"# {kubernetes.owner(placed)}: leave nvidia.com/gpu out of its limits, and keep it off GPU hosts",
                kubernetes.patch(placed, kubernetes.without_label("nvidia.com/gpu.present")).text,
            ),
        )
    hosts = len(placed.hosts)
    asked = f"gpus-per-node={gpus // hosts}" if gpus % hosts == 0 else f"gpus={gpus}"
    return for_scheduler(
        placed,
        lambda: slurm.options(asked, note=f"was {counted(placed.gpus, 'GPU')}; in place of its other options for GPUs"),
        lambda: kubernetes.resources(placed, {"nvidia.com/gpu": str(gpus)}, {"nvidia.com/gpu": str(gpus)}),
    )
