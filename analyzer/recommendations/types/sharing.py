"""Changes by which several share a GPU: MIG slices, MPS, time slices."""

from collections.abc import Sequence
from dataclasses import replace

from analyzer.findings.finding import Finding
from analyzer.recommendations.artefacts import kubernetes, mig, slurm
from analyzer.recommendations.artefacts.owner import for_scheduler
from analyzer.recommendations.artefacts.quoting import remark
from analyzer.recommendations.proposal import Proposal
from analyzer.recommendations.recommendation import Artefact, Constraint, Move, shell
from analyzer.recommendations.saving import ASSUMED
from analyzer.recommendations.site import Placed, Site, distinct
from analyzer.recommendations.types import checks
from analyzer.recommendations.types.idle import release, whole_place
from analyzer.recommendations.types.latencies import latency
from analyzer.text.wording import counted, gib

_ANEW = "each session starts anew, without what it has in memory and has not saved"


def share_slices(finding: Finding, site: Site) -> Proposal | None:
    """Put sessions that mostly wait on slices of few GPUs; where a GPU has no slices, on turns of one."""
    runs = site.placed(finding.run_ids)
    if not runs:
        return None
    if any(one.gpus > 1 for one in runs):  # ranks on slices do not reach one another: NCCL needs whole GPUs
        return release(finding, site)
    sku = site.sku_of(runs[0])
    most = max((one.gpu_bytes or 0 for one in runs), default=0)
    slice_ = mig.profile(sku, most) or mig.profile(sku, 0)
    return _turns(finding, runs, site) if slice_ is None else _slices(finding, runs, site, slice_)


def _slices(finding: Finding, runs: Sequence[Placed], site: Site, slice_: mig.Profile) -> Proposal:
    gpus = distinct(runs)
    shared = max(1, -(-gpus // slice_.count))
    cut = list(dict.fromkeys(gpu for one in runs for gpu in one.gpu_uuids))[:shared]
    nodes = list(dict.fromkeys(site.gpu_hosts[gpu] for gpu in cut if gpu in site.gpu_hosts))
    to = replace(site.place_on(nodes, shared, site.sku_of(runs[0])), slice_=slice_.name)
    return Proposal(
        kind="share_mig",
        title=f"share {counted(shared, 'GPU')} as MIG slices",
        from_=f"{counted(gpus, 'whole GPU')} held by {finding.subject}",
        to=f"{counted(gpus, 'slice')} {slice_.name} of {counted(shared, 'GPU')} on {', '.join(nodes) or 'their hosts'}",
        why="they keep memory and compute little",
        saves=ASSUMED["share"],
        artefacts=(
            mig.layout(slice_, cut),
            *for_scheduler(
                runs[0],
                lambda: slurm.options(
                    f"gres=gpu:{slice_.name}:1",
                    note="the type as the site's gres.conf calls the slice; its own name here",
                ),
                lambda: kubernetes.resources(runs[0], *[kubernetes.one_slice(slice_.name)] * 2),
            ),
        ),
        losers="sessions that need a whole GPU for a while",
        winners=_winners(gpus - shared, f"the other {slice_.count * shared - gpus} slices"),
        move=Move(whole_place(site, runs), to),
        constraints=(
            checks.slice_memory(runs, slice_.name, slice_.memory_bytes),
            Constraint("kind of GPU", True, f"{site.sku_of(runs[0])} has up to {slice_.count} slices {slice_.name}"),
            Constraint("nothing runs on the GPU", None, "a GPU is cut once its sessions have ended"),
        ),
        latency=latency(site, runs, None, "a slice computes slower than a GPU; by how much, only a load test says"),
        cost_to_move=_ANEW,
        actor="platform",
        ends_work=True,
    )


def _turns(finding: Finding, runs: Sequence[Placed], site: Site) -> Proposal | None:
    """Return the sharing of a GPU by turns; None where the memory of two does not fit, or nobody knows."""
    known = [one.gpu_bytes for one in runs]
    sizes = [host.gpu_memory_bytes for one in runs for host in site.of_run(one)]
    if None in known or None in sizes or not sizes:
        return None
    memory, most = min(size or 0 for size in sizes), max(each or 0 for each in known)
    sharers = min(memory // max(1, most), 8)  # ours: more wait for one another too long
    gpus = distinct(runs)
    if sharers < 2:
        return None
    shared = -(-gpus // sharers)
    nodes = list(dict.fromkeys(node for one in runs for node in one.hosts))[:shared]
    return Proposal(
        kind="share_time",
        title=f"share {counted(shared, 'GPU')} by turns",
        from_=f"{counted(gpus, 'whole GPU')} held by {finding.subject}",
        to=f"up to {sharers} sessions on each of {counted(shared, 'GPU')}",
        why="they keep memory and compute little, and this kind of GPU has no slices",
        saves=ASSUMED["share"],
        artefacts=for_scheduler(
            runs[0],
            lambda: slurm.options("gres=shard:1", note="where gres.conf offers shards (Slurm 22.05 and newer)"),
            lambda: kubernetes.text(
                "# configuration of the device plugin for these nodes: " + remark(", ".join(nodes)),
                "version: v1",
                "sharing:",
                "  timeSlicing:",
                "    resources:",
                "    - name: nvidia.com/gpu",
                f"      replicas: {sharers}",
            ),
        ),
        losers="sessions that compute at the same time: each then has a part of the GPU, and no memory of its own",
        winners=f"whoever needs the {counted(gpus - shared, 'GPU')} that come free",
        move=Move(whole_place(site, runs), site.place_on(nodes, shared, site.sku_of(runs[0]))),
        constraints=(
            Constraint(
                "memory", True, f"at most {gib(most)} in use by each, {gib(memory)} on a GPU, {sharers} of them"
            ),
        ),
        latency=latency(site, runs, None, "sharers wait for one another; by how much, only a load test says"),
        cost_to_move=_ANEW,
        actor="platform",
        ends_work=True,
    )


def pack(finding: Finding, site: Site) -> Proposal | None:
    """Run two small trials side by side on one GPU."""
    runs = site.placed(finding.run_ids)
    if not runs:
        return None
    gpus = distinct(runs)
    half = -(-gpus // 2)
    nodes = list(dict.fromkeys(node for one in runs for node in one.hosts))[:half]
    return Proposal(
        kind="pack",
        title="two trials on one GPU",
        from_=f"{counted(gpus, 'GPU')}, one trial each",
        to=f"{counted(half, 'GPU')}, two trials each under MPS"
        if gpus > 1
        else "half of one, beside another under MPS",
        why="each uses little of the chip",
        saves=ASSUMED["packed"],
        artefacts=_mps(runs[0]),
        losers="each trial, a little",
        winners=_winners(gpus - half, "the other half"),
        move=Move(whole_place(site, runs), site.place_on(nodes, half, site.sku_of(runs[0]))),
        constraints=(_two_fit(runs, site),),
        latency=latency(site, runs, None, "two share the chip; by how much each slows, only a load test says"),
    )


def _winners(whole_gpus: int, rest: str) -> str:
    return (
        f"whoever needs the {counted(whole_gpus, 'GPU')} that come free" if whole_gpus > 0 else f"whoever takes {rest}"
    )


def _mps(placed: Placed) -> tuple[Artefact, ...]:
    own = for_scheduler(
        placed,
        lambda: slurm.options("gres=mps:50", note="half of a GPU's threads, where gres.conf offers MPS; else as below"),
        lambda: kubernetes.text(
            "# configuration of the device plugin (0.15 and newer) for the nodes of these trials",
            "version: v1",
            "sharing:",
            "  mps:",
            "    resources:",
            "    - name: nvidia.com/gpu",
            "      replicas: 2",
        ),
    )
    by_hand = shell("nvidia-cuda-mps-control -d\nexport CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=50")
    return (*own, by_hand)


def _two_fit(runs: Sequence[Placed], site: Site) -> Constraint:
    known = [one.gpu_bytes for one in runs]
    sizes = [host.gpu_memory_bytes for one in runs for host in site.of_run(one)]
    if None in known or None in sizes or not sizes:
        return Constraint("memory of two", None, "how much memory they use, or a GPU has, is not known")
    memory, most = min(size or 0 for size in sizes), max(each or 0 for each in known)
    told = f"at most {gib(most)} in use by one, {gib(memory)} on a GPU"
    if 2 * most <= memory:
        return Constraint("memory of two", True, told)
    return Constraint("memory of two", None, f"{told}: set aside or needed, only a trial with a cap says")
