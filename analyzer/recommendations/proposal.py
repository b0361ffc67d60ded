"""What a rule proposes for one finding, before it is priced."""

from dataclasses import dataclass

from analyzer.recommendations.artefact import Artefact
from analyzer.recommendations.constraint import Constraint
from analyzer.recommendations.fleet_plan.move import Move
from analyzer.recommendations.latency import Latency
from analyzer.recommendations.recommendation import Saved
from analyzer.recommendations.saving import Share

__all__ = ["KINDS", "RESTART_MS", "SETTING", "Proposal", "Saved", "restart"]

# One restart from a checkpoint: image, model load and warm-up. An assumption until it is measured of the run itself.
RESTART_MS = 12 * 60_000
# All kinds of change that a finding, a notice, a plan or a look at the fleet proposes (docs/changes.md).
KINDS = (
    "batch", "cache_input", "checkpoint", "co_locate", "co_locate_data", "consolidate", "cool", "drain_sick_gpu",
    "drain_slow_gpu", "fewer_replicas", "loader_settings", "local_nvme", "mixed_precision", "more_cpu",
    "one_replica_more", "pack", "power_cap", "power_down", "raise_power_limit", "release", "reorder_ranks",
    "right_size", "scale_in", "share_mig", "share_time", "split_serving", "spot",
)  # fmt: skip
SETTING = "none: a setting, from the next start on"


@dataclass(frozen=True, slots=True)
class Proposal:
    """One change. `saves` is a share of the loss it stands on, or an amount of its own.

    `moving_gpu_ms` is the GPU time that the change itself takes; 0 for what waits for the next start. Where it is more,
    runs are restarted, and what is measured of them takes its place (analyzer/recommendations/fleet_plan/moving.py).
    `ends_work` is what may end somebody's work before it is done: its owner is asked, and what that costs is nobody's
    to price.
    """

    kind: str
    title: str
    from_: str
    to: str
    why: str
    saves: Share | Saved
    artefacts: tuple[Artefact, ...]
    losers: str
    winners: str = "the run itself"
    move: Move | None = None
    constraints: tuple[Constraint, ...] = ()
    latency: Latency | None = None  # of a service, always
    cost_to_move: str = SETTING
    moving_gpu_ms: int = 0
    actor: str | None = None
    ends_work: bool = False
    slow_hosts: tuple[str, ...] = ()  # whose slowness it ends, and with it their peers' wait


def restart(gpus: int) -> tuple[str, int]:
    """Return what one restart costs, in words and in GPU-milliseconds."""
    return f"one restart from a checkpoint: about 12 min of {gpus} GPUs", RESTART_MS * gpus
