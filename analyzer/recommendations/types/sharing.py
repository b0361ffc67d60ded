"""Changes by which less hardware does the same: MIG slices, MPS, time slices, a smaller GPU, numbers of half the width.

Of a smaller GPU or a slice the proposal is a re-run with a cap, tried first, since a gauge says what was set aside: HBM
in use is not HBM needed. JAX sets about 75% aside, vLLM 90%, and PyTorch keeps what it has freed. Nor need a run have
been seen at its fullest: where its model is known, no GPU is proposed that cannot hold its weights in 4 bits.
"""

from collections.abc import Sequence
from dataclasses import replace

from analyzer.findings.finding import Finding
from analyzer.findings.health.notice import Notice
from analyzer.recommendations.artefacts import Profile, layout, on_nodes, one_slice, pod_patch, profile, time_limit
from analyzer.recommendations.proposal import Proposal, lines, proposal_of
from analyzer.recommendations.recommendation import (
    ASSUMED,
    Artefact,
    Constraint,
    Move,
    Placement,
    Saved,
    Share,
    recovered,
)
from analyzer.recommendations.site import Host, Placed, Site, distinct
from analyzer.recommendations.types import checks
from analyzer.recommendations.types.idle import release
from analyzer.sizing.memory import need_of
from analyzer.text.words import counted, gib

_TRIAL_SECONDS = 3_600  # ours: an hour shows the memory of a steady step, and an evaluation where it has one
_ALL = 1000
# PyTorch, "What Every User Should Know About Mixed Precision Training in PyTorch" (July 2022): networks became 1.5 to
# 5.5 times as fast by it on V100, and on A100 1.3 to 2.5 times on top of that. Taken of working time: 1 - 1/1.3,
# 1 - 1/1.5 and 1 - 1/2.5, in permille.
_FASTER = Share(230, 333, 600)
_NO_BF16 = ("V100", "T4", "P100", "P40", "TITAN", "RTX")  # Turing and older compute no BF16 on tensor cores


def share_slices(finding: Finding, site: Site) -> Proposal | None:
    """Put sessions that mostly wait on slices of few GPUs; where a GPU has no slices, on turns of one."""
    runs = site.placed(finding.run_ids)
    if not runs:
        return None
    if any(one.gpus > 1 for one in runs):  # ranks on slices do not reach one another: NCCL needs whole GPUs
        return release(finding, site)
    sku = site.sku_of(runs[0])
    most = max((one.gpu_bytes or 0 for one in runs), default=0)
    slice_ = profile(sku, most) or profile(sku, 0)
    return _turns(finding, runs, site) if slice_ is None else _slices(finding, runs, site, slice_)


def _slices(finding: Finding, runs: Sequence[Placed], site: Site, slice_: Profile) -> Proposal:
    gpus = distinct(runs)
    shared = max(1, -(-gpus // slice_.count))
    cut = list(dict.fromkeys(gpu for one in runs for gpu in one.gpu_uuids))[:shared]
    nodes = list(dict.fromkeys(site.gpu_hosts[gpu] for gpu in cut if gpu in site.gpu_hosts))
    facts = {
        "finding": finding,
        "slice": slice_,
        "gpus": gpus,
        "shared": shared,
        "nodes": ", ".join(nodes) or "their hosts",
        "winners": _winners(gpus - shared, f"the other {slice_.count * shared - gpus} slices"),
    }
    return proposal_of(
        "share_mig",
        facts=facts,
        served=(site, runs),
        saves=ASSUMED["share"],
        artefacts=(
            layout(slice_, cut),
            *lines("slice", runs[0], slice=slice_, resources=one_slice(runs[0], slice_.name)),
        ),
        move=Move(
            site.whole_place(runs), replace(site.place_on(nodes, shared, site.sku_of(runs[0])), slice_=slice_.name)
        ),
        constraints=(
            checks.slice_memory(runs, slice_.name, slice_.memory_bytes),
            Constraint("GPU model", True, f"{site.sku_of(runs[0])} has up to {slice_.count} slices {slice_.name}"),
            Constraint("nothing runs on the GPU", None, "a GPU is cut once its sessions have ended"),
        ),
    )


def _memory_of(runs: Sequence[Placed], site: Site) -> tuple[int, int] | None:
    """Return the most that was in use by one of the runs, and the least that a GPU of theirs has, in bytes."""
    known = [one.gpu_bytes for one in runs]
    sizes = [host.gpu_memory_bytes for one in runs for host in site.of_run(one)]
    if None in known or None in sizes or not sizes:
        return None
    return max(each or 0 for each in known), min(size or 0 for size in sizes)


def _turns(finding: Finding, runs: Sequence[Placed], site: Site) -> Proposal | None:
    """Return the sharing of a GPU by turns; None where the memory of two does not fit, or nobody knows."""
    known = _memory_of(runs, site)
    if known is None:
        return None
    most, memory = known
    sharers = min(memory // max(1, most), 8)  # ours: more wait for one another too long
    gpus = distinct(runs)
    if sharers < 2:
        return None
    shared = -(-gpus // sharers)
    nodes = list(dict.fromkeys(node for one in runs for node in one.hosts))[:shared]
    told = f"no more than {gib(most)} in use by each, {gib(memory)} on a GPU, {sharers} of them"
    return proposal_of(
        "share_time",
        facts={"finding": finding, "gpus": gpus, "shared": shared, "sharers": sharers, "freed": gpus - shared},
        served=(site, runs),
        saves=ASSUMED["share"],
        artefacts=lines("turns", runs[0], nodes=", ".join(nodes), sharers=sharers),
        move=Move(site.whole_place(runs), site.place_on(nodes, shared, site.sku_of(runs[0]))),
        constraints=(Constraint("memory", True, told),),
    )


def pack(finding: Finding, site: Site) -> Proposal | None:
    """Run two small trials side by side on one GPU; ranks of one run wait for each other, and are never packed."""
    runs = site.placed(finding.run_ids)
    if not runs or any(one.gpus > 1 for one in runs):
        return None
    gpus = distinct(runs)
    half = -(-gpus // 2)
    nodes = list(dict.fromkeys(node for one in runs for node in one.hosts))[:half]
    return proposal_of(
        *(("pack",) if gpus > 1 else ("pack_one", "pack")),
        facts={"gpus": gpus, "half": half, "winners": _winners(gpus - half, "the other half")},
        served=(site, runs),
        saves=ASSUMED["packed"],
        artefacts=lines("mps", runs[0]),
        move=Move(site.whole_place(runs), site.place_on(nodes, half, site.sku_of(runs[0]))),
        constraints=(_two_fit(runs, site),),
    )


def _winners(whole_gpus: int, rest: str) -> str:
    return (
        f"runs that need the {counted(whole_gpus, 'GPU')} that come free"
        if whole_gpus > 0
        else f"runs that take {rest}"
    )


def _two_fit(runs: Sequence[Placed], site: Site) -> Constraint:
    known = _memory_of(runs, site)
    if known is None:
        return Constraint("memory of two", None, "the memory they use, or a GPU has, is unknown")
    most, memory = known
    told = f"no more than {gib(most)} in use by one, {gib(memory)} on a GPU"
    if 2 * most <= memory:
        return Constraint("memory of two", True, told)
    return Constraint("memory of two", None, f"{told}: reserved or needed, only a trial with a cap shows")


def capped_rerun(notice: Notice, site: Site) -> Proposal | None:
    """Try one run with the memory of a smaller GPU, or of a slice, before all of its name move there."""
    runs = site.placed(notice.run_ids)
    if not runs:
        return None
    first = runs[0]
    memory = max((host.gpu_memory_bytes or 0 for host in site.of_run(first)), default=0)
    most = max((one.gpu_bytes or 0 for one in runs), default=0)
    if not memory or not most:
        return None
    need = need_of(first.model, first.stage, first.gpus)
    least = max(most, need.least_bytes) if need else most
    smaller = _smaller(site, first, least, memory)
    if smaller is not None and smaller.sku is not None and smaller.gpu_memory_bytes is not None:
        to = site.place_on([smaller.node], first.gpus, smaller.sku)
        return _trial(site, runs, to, smaller.sku, smaller.gpu_memory_bytes, memory)
    slice_ = profile(site.sku_of(first), least)
    if slice_ is None or first.gpus != 1:
        return None
    to = Placement(first.hosts, site.racks(first.hosts), 1, site.sku_of(first), slice_.name)
    return _trial(site, runs, to, f"a slice {slice_.name}", slice_.memory_bytes, memory, slice_)


def _smaller(site: Site, placed: Placed, least: int, memory: int) -> Host | None:
    """Return a host with the smallest kind of GPU that holds so many bytes, and half of the run's or less."""
    kinds = [
        host
        for host in site.hosts.values()
        if host.gpu_memory_bytes is not None and least <= host.gpu_memory_bytes <= memory // 2
    ]
    return min(
        (host for host in kinds if host.gpus >= placed.gpus_per_host),
        key=lambda host: (host.gpu_memory_bytes or 0, -host.gpus_free_now, host.node),
        default=None,
    )


def _trial(
    site: Site, runs: list[Placed], to: Placement, called: str, cap: int, memory: int, slice_: Profile | None = None
) -> Proposal:
    first = runs[0]
    need = need_of(first.model, first.stage, first.gpus)
    facts = {
        "called": called,
        "first": first,
        "sku": site.sku_of(first),
        "gpus": sum(one.gpus for one in runs),
        "cap": cap,
        "memory": memory,
        "most": max(one.gpu_bytes or 0 for one in runs),
    }
    return proposal_of(
        "right_size",
        facts=facts,
        saves=_saved_by_size(site, runs, to, slice_),
        artefacts=(
            *lines("capped", first, ratio=cap * 100 // memory / 100),
            *_trial_lines(first, to, slice_),
        ),
        move=Move(site.whole_place(runs), to),
        constraints=(
            checks.slice_memory(runs, called, cap),
            *([checks.model_memory(need, called, cap, site)] if need else []),
            Constraint("its pace", None, "the trial shows how fast it is there: compare steps before and after"),
        ),
    )


def _saved_by_size(site: Site, runs: list[Placed], to: Placement, slice_: Profile | None) -> Saved:
    """Return what comes of it if the trial holds: of five, one is taken to save nothing."""
    if slice_ is not None:
        freed = _ALL * (slice_.count - 1) // slice_.count
        return checks.of_runs(runs, site, Share(0, freed // 2, freed))
    old, new = site.rate(site.sku_of(runs[0])), site.rate(to.sku)
    if old is None or new is None:
        return checks.money_of_runs(runs, site, Share(0, 0, 0)) if old is not None else Saved(checks.NONE, None)
    cheaper = max(0, _ALL * (old - new) // old)
    return checks.money_of_runs(runs, site, Share(0, cheaper // 2, cheaper))


def _trial_lines(placed: Placed, to: Placement, slice_: Profile | None) -> tuple[Artefact, ...]:
    limit = time_limit(_TRIAL_SECONDS)
    if slice_ is not None:
        resources = one_slice(placed, slice_.name)
        own = lines("trial_on_slice", placed, slice=slice_, limit=limit, resources=resources)
        return (*own, layout(slice_, placed.gpu_uuids[:1]))
    patch = pod_patch(placed, on_nodes(to.nodes))
    return lines("trial", placed, sku=to.sku, node=to.nodes[0], limit=limit, patch=patch)


def mixed_precision(notice: Notice, site: Site) -> Proposal | None:
    """Train in BF16 with autocast where tensor cores are measured at rest, or in FP16 where the GPU knows no BF16."""
    runs = site.placed(notice.run_ids)
    if not runs:
        return None
    sku = site.sku_of(runs[0])
    half = "float16" if sku is not None and sku.startswith(_NO_BF16) else "bfloat16"
    scaler = "\n# and scale the loss: torch.amp.GradScaler(), as FP16 has few exponents" if half == "float16" else ""
    place = site.whole_place(runs)
    evidence = "; ".join(f"{line.what} {line.seen}" for line in notice.evidence) or notice.sentence
    return proposal_of(
        "mixed_precision",
        facts={"half": half, "evidence": evidence},
        saves=_saved_by_width(runs, site),
        artefacts=lines("autocast", runs[0], half=half, scaler=scaler),
        move=Move(place, place),
        constraints=(
            Constraint(f"{half} on tensor cores", True if sku else None, sku or "its GPU model is unknown"),
            Constraint("matrix products", None, "the pipes do not show whether its work is any: simulation is not"),
        ),
    )


def _saved_by_width(runs: list[Placed], site: Site) -> Saved:
    """Return the share of working time alone: what they wait for does not become faster."""
    period = site.end_us - site.start_us
    time = recovered(sum(one.productive_ms for one in runs), period, _FASTER)
    money = [one.productive_micros for one in runs]
    return Saved(time, None if None in money else recovered(sum(each or 0 for each in money), period, _FASTER))
