"""Busy as nvidia-smi reports it, little of the chip in use: small kernels, a host that launches them too slowly, or
requests served one by one.
"""

from dataclasses import dataclass

from analyzer.ledger.causes.exchange import at_least, links_busy, of_busy
from analyzer.ledger.thresholds import Thresholds
from analyzer.ledger.windows import RunFacts, RunWindow, per_gpu_rate
from analyzer.states import Confidence


@dataclass(frozen=True, slots=True)
class UnderuseJudgement:
    """Whether the busy part of one window used little of the chip; `cause` is None where it did not."""

    cause: str | None
    confidence: Confidence = "medium"


FULL_USE = UnderuseJudgement(None)


def detect(window: RunWindow, facts: RunFacts, limits: Thresholds) -> UnderuseJudgement:
    """Judge one window by SM, tensor and memory activity; by power where the chip does not report them."""
    if window.utilization is None or window.utilization < limits.underused_busy_permille:
        return FULL_USE
    if not facts.is_service and _is_launching(window, limits):
        return UnderuseJudgement("launch_bound")
    cause = "unbatched" if facts.is_service else "small_kernels"
    if window.sm_ms * 2 >= window.ms:
        return UnderuseJudgement(cause) if _little_of_the_chip(window, limits) else FULL_USE
    power = of_busy(window, window.power)
    if power is not None and power < limits.underused_power_permille:
        return UnderuseJudgement(cause)
    return FULL_USE


def _is_launching(window: RunWindow, limits: Thresholds) -> bool:
    """Say whether the host shows one full thread a GPU and nothing else, while the chip does little.

    Without the host's word kernels are only known to be small. A rank whose cores are not told apart from its
    loader's must have a loader that rests.
    """
    if (window.utilization or 0) < limits.launching_utilization_permille or not _chip_is_thin(window, limits):
        return False
    if at_least(per_gpu_rate(window, window.pcie_in_kb), limits.launching_pcie_kb_per_ms):
        return False
    return _one_thread_a_rank(window, limits) and _loader_rests(window, limits)


def _chip_is_thin(window: RunWindow, limits: Thresholds) -> bool:
    """Little power, where it is told, and little SM activity, where that is."""
    if window.power is None and window.sm_ms * 2 < window.ms:
        return False
    is_thin = window.sm_ms * 2 < window.ms or window.activity <= limits.launching_activity_permille
    return is_thin and not at_least(window.power, limits.launching_power_permille + 1)


def _one_thread_a_rank(window: RunWindow, limits: Thresholds) -> bool:
    if window.cores_used_milli is None:
        return False
    least, most = limits.one_core_least_milli, limits.one_core_most_milli
    return least * window.gpus <= window.cores_used_milli <= most * window.gpus


def _loader_rests(window: RunWindow, limits: Thresholds) -> bool:
    """No workers, or none that does anything; a root of a process tree is not among its workers.

    Where they are not told, beside the one thread of a rank there is no room for one that does.
    """
    if window.workers == 0 or window.busiest is not None:
        return window.workers == 0 or (window.busiest or 0) < limits.worker_seen_permille
    return (window.cores_used_milli or 0) <= (limits.one_core_least_milli + limits.worker_seen_permille) * window.gpus


def _little_of_the_chip(window: RunWindow, limits: Thresholds) -> bool:
    # Peers that spin in a collective lower the mean as well: where links are busy, only what is lower still is sure.
    bar = limits.underused_sm_permille if links_busy(window, limits) else limits.ineffective_sm_permille
    activity = of_busy(window, window.activity) or 0
    return (
        activity < bar
        and not at_least(of_busy(window, window.tensor), limits.underused_tensor_permille)
        and not at_least(of_busy(window, window.dram), limits.underused_dram_permille)
    )
