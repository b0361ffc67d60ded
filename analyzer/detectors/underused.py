"""Busy in the driver's sense, little of the chip in use: small kernels, or requests served one by one."""

from dataclasses import dataclass

from analyzer.detectors.evidence import at_least, of_busy
from analyzer.states import Confidence
from analyzer.thresholds import Thresholds
from analyzer.windows import RunFacts, RunWindow


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
    cause = "unbatched" if facts.is_service else "small_kernels"
    if window.sm_ms * 2 >= window.ms:
        return UnderuseJudgement(cause) if _little_of_the_chip(window, limits) else FULL_USE
    power = of_busy(window, window.power)
    if power is not None and power < limits.underused_power_permille:
        return UnderuseJudgement(cause)
    return FULL_USE


def _little_of_the_chip(window: RunWindow, limits: Thresholds) -> bool:
    activity = of_busy(window, window.activity) or 0
    return (
        activity < limits.underused_sm_permille
        and not at_least(of_busy(window, window.tensor), limits.underused_tensor_permille)
        and not at_least(of_busy(window, window.dram), limits.underused_dram_permille)
    )
