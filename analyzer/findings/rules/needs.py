"""What a run that waits for its input would need: the rate at which its GPUs would take input if they never waited.

Needed rate = bytes that came for each working GPU-second x all its GPU-seconds (reference, algorithms 1.1: DS-Analyzer
compares the rate that is delivered with the rate that GPUs take).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from agent.wire.units import PERMILLE
from analyzer.ledger.windows import RunWindow

Severity = Literal["slight", "moderate", "severe"]
# TF Profiler's input-pipeline analyzer: under 5 % of the step it is not input-bound, from 20 % on highly.
MODERATE_PERMILLE, SEVERE_PERMILLE = 50, 200
_KILO = 1000
_MIN_WORKING_PERMILLE = 20  # of less work than that, nothing can be told of the rest


@dataclass(frozen=True, slots=True)
class Need:
    """What a source delivers, and what the run would take from it; bytes a second over all hosts of the run."""

    source: str  # "the local disk"
    delivers: int
    needs: int


def need(windows: Sequence[RunWindow], cause: str) -> Need | None:
    """Return the counterfactual of waiting for this cause; None where its bytes were not counted, or nothing came."""
    if cause == "storage":
        return _need("the local disk", windows, ((window, window.block_read) for window in windows))
    if cause == "network_storage":
        return _need("the network mount", windows, ((window, window.mount_read) for window in windows))
    return _need("the loader", windows, ((window, _to_gpus(window)) for window in windows))


def _to_gpus(window: RunWindow) -> int | None:
    """Return the bytes a second that came over PCIe to all GPUs of the run, `pcie_in_kb` being of all of them."""
    if window.pcie_in_kb is None or window.ms <= 0:
        return None
    return window.pcie_in_kb * _KILO * window.gpus * PERMILLE // window.ms


def _need(source: str, windows: Sequence[RunWindow], rates: Iterable[tuple[RunWindow, int | None]]) -> Need | None:
    known = [(window, rate) for window, rate in rates if rate is not None]
    wall_ms = sum(window.ms // max(1, window.gpus) for window, _ in known)
    all_ms = sum(window.ms for window, _ in known)
    working_ms = sum(window.ms * (PERMILLE - window.still) // PERMILLE for window, _ in known)
    moved = sum(rate * (window.ms // max(1, window.gpus)) for window, rate in known)  # bytes x ms / s
    if (
        not moved
        or not wall_ms
        or len(known) * 2 < len(windows)
        or working_ms * PERMILLE < all_ms * _MIN_WORKING_PERMILLE
    ):
        return None
    delivers = moved // wall_ms
    return Need(source, delivers, delivers * all_ms // working_ms)


def severity(windows: Sequence[RunWindow]) -> Severity | None:
    """Return how much of the step is waiting, in TF Profiler's bands; None without a window."""
    whole = sum(window.ms for window in windows)
    if not whole:
        return None
    still = sum(window.still * window.ms for window in windows) // whole
    return "slight" if still < MODERATE_PERMILLE else "moderate" if still < SEVERE_PERMILLE else "severe"


def need_words(need: Need) -> str:
    """Return the counterfactual as people say it: "the disk delivers 1.1 GB/s, this run needs 2.6"."""
    giga = need.needs >= 100_000_000
    unit, size = ("GB/s", 1_000_000_000) if giga else ("MB/s", 1_000_000)
    return f"{need.source} delivers {need.delivers / size:.1f} {unit}, this run needs {need.needs / size:.1f}"
