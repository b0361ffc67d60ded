"""Waiting for input: whether, from the GPUs' stand-still; why, from the host alone; else it stays unexplained.

Order of causes and their signs: reference, algorithms 1.2 and 1.4 (DS-Analyzer, tf.data, Plumber).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from analyzer.detectors.evidence import at_least, most, per_gpu_rate
from analyzer.states import Confidence
from analyzer.thresholds import Thresholds
from analyzer.windows import RunWindow


@dataclass(frozen=True, slots=True)
class InputJudgement:
    """Whether one window is low for want of input, and how sure that is. `cause` is None where nothing fits."""

    is_low: bool
    cause: str | None
    confidence: Confidence

    @property
    def is_booked(self) -> bool:
        """True where the loss may be booked to its cause: from medium confidence up."""
        return self.cause is not None and self.confidence != "low"


NOT_LOW = InputJudgement(False, None, "low")


def saturated(window: RunWindow, limits: Thresholds) -> str | None:
    """Return the cause whose part of the host is full, furthest upstream first, or None where nothing is."""
    if _storage_waits(window, limits):
        return _which_storage(window, limits)
    if at_least(per_gpu_rate(window, window.pcie_in_kb), limits.pcie_full_kb_per_ms):
        return "host_to_device"
    if (
        at_least(window.busiest, limits.worker_full_permille)
        or at_least(window.cpu_throttled, limits.cpu_throttled_permille)
        or at_least(most(window.pressure_cpu, window.host_pressure_cpu), limits.pressure_cpu_permille)
    ):
        return "preprocessing"
    return None


def _storage_waits(window: RunWindow, limits: Thresholds) -> bool:
    return (
        at_least(most(window.pressure_io, window.host_pressure_io), limits.pressure_io_permille)
        or at_least(window.waiting, limits.waiting_permille)
        or (
            at_least(window.disk_busy, limits.disk_busy_permille)
            and (window.block_read or 0) > (window.mount_read or 0)
        )
    )


def _which_storage(window: RunWindow, limits: Thresholds) -> str | None:
    """Return the storage that is read from; pressure without any reading names none."""
    if not (window.block_read or window.mount_read):
        return None
    if (window.block_read or 0) >= (window.mount_read or 0) or at_least(window.disk_busy, limits.disk_busy_permille):
        return "storage"
    return "network_storage"


def detect(windows: Sequence[RunWindow], limits: Thresholds) -> list[InputJudgement]:
    """Judge the windows of one run, in order of time; one judgement a window."""
    first = [_alone(window, limits) for window in windows]
    return [_with_persistence(first, index, windows[index], limits) for index in range(len(windows))]


def _alone(window: RunWindow, limits: Thresholds) -> InputJudgement:
    if window.still < limits.low_permille:
        return NOT_LOW
    if window.dips is not None:
        return _from_dips(window, limits)
    cause = saturated(window, limits)
    if cause is not None:
        return InputJudgement(True, cause, "medium")
    if _has_loader(window):
        return InputJudgement(True, "loader_software", "medium")
    return InputJudgement(True, None, "low")


def _from_dips(window: RunWindow, limits: Thresholds) -> InputJudgement:
    """Judge fine samples: stand-still again and again, each ended by a copy to the GPU, is input; once is nothing."""
    dips, refills = window.dips or 0, window.refills or 0
    if dips < limits.dips_needed or refills * 3 < dips * 2:
        return NOT_LOW
    cause = saturated(window, limits)
    if cause is not None:
        return InputJudgement(True, cause, "medium")
    return InputJudgement(True, "loader_software", "medium" if _has_loader(window) else "low")


def _has_loader(window: RunWindow) -> bool:
    """True where loader workers were seen, and bytes on their way to the GPU: Plumber's majority case can be judged."""
    return at_least(window.workers, 1) and window.busiest is not None and at_least(window.pcie_in_kb, 1)


def _with_persistence(
    first: Sequence[InputJudgement], index: int, window: RunWindow, limits: Thresholds
) -> InputJudgement:
    """Raise medium to high where the same cause held for half an hour and the chip itself was measured."""
    here = first[index]
    if here.confidence != "medium" or here.cause == "loader_software" or window.sm_ms * 2 < window.ms:
        return here
    run = 1
    for step in (-1, 1):
        at = index + step
        while 0 <= at < len(first) and first[at].cause == here.cause and run < limits.persistence_windows:
            run, at = run + 1, at + step
    is_high = run >= limits.persistence_windows and window.shares_ms * 2 >= window.ms
    return InputJudgement(True, here.cause, "high" if is_high else "medium")
