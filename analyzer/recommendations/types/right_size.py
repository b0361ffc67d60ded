"""A smaller GPU or a slice, tried first: the proposal is a re-run with a cap, since a gauge says what was set aside.

HBM in use is not HBM needed: JAX sets about 75 % aside, vLLM 90 %, and PyTorch keeps what it has freed. Nor need a run
have been seen at its fullest: where its model is known, no GPU is proposed that cannot hold its weights in 4 bits.
"""

from analyzer.findings.health.notice import Notice
from analyzer.recommendations.artefacts import kubernetes, mig, slurm
from analyzer.recommendations.artefacts.owner import for_scheduler
from analyzer.recommendations.proposal import Proposal, Saved
from analyzer.recommendations.recommendation import Artefact, Constraint, Move, Placement, python
from analyzer.recommendations.saving import Share
from analyzer.recommendations.site import Host, Placed, Site
from analyzer.recommendations.types import amounts, checks
from analyzer.recommendations.types.idle import whole_place
from analyzer.sizing.memory import Need, need_of
from analyzer.text.wording import counted, gib

_TRIAL_SECONDS = 3_600  # ours: an hour shows the memory of a steady step, and an evaluation where it has one
_ALL = 1000


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
    need = _need(first)
    least = max(most, need.least_bytes) if need else most
    smaller = _smaller(site, first, least, memory)
    if smaller is not None and smaller.sku is not None and smaller.gpu_memory_bytes is not None:
        to = site.place_on([smaller.node], first.gpus, smaller.sku)
        return _trial(site, runs, to, smaller.sku, smaller.gpu_memory_bytes, memory)
    slice_ = mig.profile(site.sku_of(first), least)
    if slice_ is None or first.gpus != 1:
        return None
    to = Placement(first.hosts, site.racks(first.hosts), 1, site.sku_of(first), slice_.name)
    return _trial(site, runs, to, f"a slice {slice_.name}", slice_.memory_bytes, memory, slice_)


def _need(placed: Placed) -> Need | None:
    """Return what its model takes on each of its GPUs; None where none is known."""
    return need_of(placed.model, placed.stage, placed.gpus)


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


_TRIAL = "a trial of an hour, whose work is lost"


def _trial(
    site: Site, runs: list[Placed], to: Placement, called: str, cap: int, memory: int, slice_: mig.Profile | None = None
) -> Proposal:
    first = runs[0]
    ratio = cap * 100 // memory / 100
    need = _need(first)
    return Proposal(
        kind="right_size",
        title=f"try one run in the memory of {called}",
        from_=f"{counted(sum(one.gpus for one in runs), 'GPU')} {site.sku_of(first)} held by {first.called}",
        to=f"one run capped at {gib(cap)} for an hour; if it holds, {called} for all of them",
        why=f"at most {gib(max(one.gpu_bytes or 0 for one in runs))} of {gib(memory)} in use, and little computed; "
        "what is in use is not what is needed, and only a capped run tells the two apart",
        saves=_saved(site, runs, to, slice_),
        artefacts=(_capped(ratio), *_lines(first, to, slice_)),
        losers="the trial itself, where it ends for want of memory; and their pace, where the chip was used",
        winners=f"whoever needs {site.sku_of(first)}",
        move=Move(whole_place(site, runs), to),
        constraints=(
            checks.slice_memory(runs, called, cap),
            *([checks.model_memory(need, called, cap, site)] if need else []),
            Constraint("its pace", None, "how fast it is there, the trial says: steps before and after"),
        ),
        cost_to_move=f"a trial of an hour on {counted(first.gpus, 'GPU')}",
    )


def _saved(site: Site, runs: list[Placed], to: Placement, slice_: mig.Profile | None) -> Saved:
    """Return what comes of it if the trial holds: of five, one is taken to save nothing."""
    if slice_ is not None:
        freed = _ALL * (slice_.count - 1) // slice_.count
        return amounts.of_runs(runs, site, Share(0, freed // 2, freed))
    old, new = site.rate(site.sku_of(runs[0])), site.rate(to.sku)
    if old is None or new is None:
        return amounts.money_of_runs(runs, site, Share(0, 0, 0)) if old is not None else Saved(amounts.NONE, None)
    cheaper = max(0, _ALL * (old - new) // old)
    return amounts.money_of_runs(runs, site, Share(0, cheaper // 2, cheaper))


def _capped(ratio: float) -> Artefact:
    return python(
        f"torch.cuda.set_per_process_memory_fraction({ratio})  # before the model is made\n"
        f"# JAX instead, in its environment: XLA_PYTHON_CLIENT_MEM_FRACTION={ratio}"
    )


def _lines(placed: Placed, to: Placement, slice_: mig.Profile | None) -> tuple[Artefact, ...]:
    then = "if it holds, for all of them: "
    if slice_ is not None:
        cut = mig.layout(slice_, placed.gpu_uuids[:1])
        own = for_scheduler(
            placed,
            lambda: slurm.options(
                f"time={slurm.duration(_TRIAL_SECONDS)}",
                f"gpus={placed.gpus}",
                note=f"{_TRIAL}; {then}--gres=gpu:{slice_.name}:1 (or what gres.conf calls it)",
            ),
            lambda: kubernetes.resources(placed, *[kubernetes.one_slice(slice_.name)] * 2),
        )
        return (*own, cut)
    return for_scheduler(
        placed,
        lambda: slurm.options(
            f"time={slurm.duration(_TRIAL_SECONDS)}",
            f"gpus={placed.gpus}",
            note=f"{_TRIAL}, where it is; {then}--nodelist or the partition of {to.sku} (such as {to.nodes[0]})",
        ),
        lambda: kubernetes.patch(placed, kubernetes.on_nodes(to.nodes)),
    )
