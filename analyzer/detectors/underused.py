"""Busy in the driver's sense, little of the chip in use: small kernels, a host that launches them too slowly, or
requests served one by one.
"""

from dataclasses import dataclass

from analyzer.detectors.evidence import at_least, of_busy, per_gpu_rate
from analyzer.states import Confidence
from analyzer.thresholds import Thresholds
from analyzer.windows import RunFacts, RunWindow

# Launch-bound (algorithms 1.2: U 80-100, SM .1-.4 without bimodality, low PCIe, P .2-.4, exactly one host thread at
# about 100 %, loaders idle).
LAUNCHING_UTILIZATION_PERMILLE = 800
LAUNCHING_POWER_PERMILLE = 400
LAUNCHING_ACTIVITY_PERMILLE = 400
LAUNCHING_PCIE_KB_PER_MS = 1_000  # KempnerPulse takes 1 GB/s of PCIe for a sign of copies
ONE_CORE_MILLI = (900, 1_500)  # a thread that fills a core (as of a loader worker), and what else its process does


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
    if (window.utilization or 0) < LAUNCHING_UTILIZATION_PERMILLE or not _chip_is_thin(window):
        return False
    if at_least(per_gpu_rate(window, window.pcie_in_kb), LAUNCHING_PCIE_KB_PER_MS):
        return False
    return _one_thread_a_rank(window) and _loader_rests(window, limits)


def _chip_is_thin(window: RunWindow) -> bool:
    """Little power, where it is told, and little SM activity, where that is."""
    if window.power is None and window.sm_ms * 2 < window.ms:
        return False
    is_thin = window.sm_ms * 2 < window.ms or window.activity <= LAUNCHING_ACTIVITY_PERMILLE
    return is_thin and not at_least(window.power, LAUNCHING_POWER_PERMILLE + 1)


def _one_thread_a_rank(window: RunWindow) -> bool:
    if window.cores_used_milli is None:
        return False
    low, high = ONE_CORE_MILLI
    return low * window.gpus <= window.cores_used_milli <= high * window.gpus


def _loader_rests(window: RunWindow, limits: Thresholds) -> bool:
    """No workers, or none that does anything; a root of a process tree is not among its workers."""
    if window.workers is None:
        return False
    return window.workers == 0 or (window.busiest is not None and window.busiest < limits.worker_seen_permille)


def _little_of_the_chip(window: RunWindow, limits: Thresholds) -> bool:
    activity = of_busy(window, window.activity) or 0
    return (
        activity < limits.underused_sm_permille
        and not at_least(of_busy(window, window.tensor), limits.underused_tensor_permille)
        and not at_least(of_busy(window, window.dram), limits.underused_dram_permille)
    )
