"""Changes of what is held: release, ask for fewer, share, pack, batch, and save work before it can be lost."""

from analyzer.findings import Finding
from analyzer.placement.artefact import Artefact, shell, slurm
from analyzer.placement.proposal import Proposal
from analyzer.placement.saving import ASSUMED
from analyzer.placement.site import Site


def _gpus(finding: Finding, site: Site) -> int:
    return sum(site.runs[run].gpus for run in finding.run_ids if run in site.runs)


def _count(gpus: int, kind: str = "GPU") -> str:
    return f"{gpus} {kind}" if gpus == 1 else f"{gpus} {kind}s"


def _native(run_id: str) -> str:
    return run_id.rsplit("/", 1)[-1]


def _cancel(finding: Finding) -> str:
    lines = [f"scancel {_native(run)}" if run.startswith("slurm/") else f"# end {run}" for run in finding.run_ids[:8]]
    return "\n".join(lines)


def release(finding: Finding, site: Site) -> Proposal:
    """Give back GPUs that fell quiet."""
    gpus, is_one = _gpus(finding, site), len(finding.run_ids) == 1
    return Proposal(
        kind="release",
        title=f"release {_count(gpus)} that fell quiet" if is_one else "end runs once they fall quiet",
        from_=f"{_count(gpus)} held by {finding.subject}",
        to="free",
        why="nothing ran on them any more",
        saves=ASSUMED["release"],
        artefacts=(slurm(_cancel(finding)),),
        losers="the run's owner, where it was about to go on",
        cost_to_move="none, once its state is saved",
    )


def ask_for_fewer(finding: Finding, site: Site) -> Proposal:
    """Do not ask for GPUs that are never used."""
    return Proposal(
        kind="right_size",
        title="do not hold GPUs that are never used",
        from_=f"{_count(_gpus(finding, site))} held by {finding.subject}",
        to="the GPUs that it uses, or a host without any",
        why="no kernel ran on them",
        saves=ASSUMED["release"],
        artefacts=(slurm("#SBATCH --gres=gpu:<used>     # or --partition=cpu"),),
        losers="nobody",
    )


def share_slices(finding: Finding, site: Site) -> Proposal:
    """Put sessions that mostly wait for a person on slices of few GPUs."""
    gpus = _gpus(finding, site)
    shared = max(1, -(-gpus // 7))
    return Proposal(
        kind="share_mig",
        title=f"share {_count(shared)} as MIG slices",
        from_=f"{_count(gpus, 'whole GPU')} held by {finding.subject}",
        to=f"{_count(gpus, 'slice')} of {_count(shared)}",
        why="they keep memory and compute little",
        saves=ASSUMED["share"],
        artefacts=(Artefact("mig", "nvidia-smi mig -cgi 1g.10gb,1g.10gb,1g.10gb,1g.10gb,1g.10gb,1g.10gb,1g.10gb -C"),),
        losers="sessions that need a whole GPU for a while",
        cost_to_move="each session starts anew",
        actor="platform",
    )


def pack(finding: Finding, site: Site) -> Proposal:
    """Run two small trials side by side on one GPU."""
    gpus = _gpus(finding, site)
    return Proposal(
        kind="pack",
        title="two trials on one GPU",
        from_=f"{_count(gpus)}, one trial each",
        to=f"{_count(-(-gpus // 2))}, two trials each under MPS"
        if gpus > 1
        else "half of one, beside another under MPS",
        why="each uses little of the chip",
        saves=ASSUMED["share"],
        artefacts=(shell("nvidia-cuda-mps-control -d\nexport CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=50"),),
        losers="each trial, a little",
    )


def batch(finding: Finding, site: Site) -> Proposal:
    """Serve requests together."""
    return Proposal(
        kind="batch",
        title="batch its requests",
        from_=f"small batches on {_count(_gpus(finding, site))}",
        to="dynamic batches within the latency it promises",
        why="the GPU is busy and the chip is not",
        saves=ASSUMED["share"],
        artefacts=(Artefact("config", "dynamic_batching { max_queue_delay_microseconds: 2000 }"),),
        losers="the latency of single requests, within the promise",
    )


def checkpoint(finding: Finding, site: Site) -> Proposal:
    """Save state more often, at the cadence that the cost of saving and the rate of failures give."""
    lost = f"{finding.milliseconds / 3_600_000:,.1f} GPU-hours since the last checkpoint seen"
    return Proposal(
        kind="checkpoint",
        title="save its state more often",
        from_=f"{finding.subject} on {_count(_gpus(finding, site))}: {lost}",
        to="a checkpoint every sqrt(2 x time between failures x time to save)",
        why="what is saved is not lost",
        saves=ASSUMED["checkpoint_more"],
        artefacts=(
            shell("# such as 48 h between failures and 72 s to save: every 1.4 h (its own: gpuledger report run)"),
        ),
        losers="each step, by the time that saving takes",
    )
