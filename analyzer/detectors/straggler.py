"""One rank that is behind the others, in either direction: busier, as it computes longer, or stiller, as it waits.

In a synchronous job the peers of a slow rank spin in the collective, so that the slow one is the busier (reference,
algorithms 8, "sign trap"); one that sleeps or lacks its input stands still while they spin. What is counted is how far
it stands from the middle, against how far the others do (robust z).
"""

from dataclasses import dataclass

from analyzer.detectors.exchange import links_busy
from analyzer.thresholds import Thresholds
from analyzer.windows import RunWindow


@dataclass(frozen=True, slots=True)
class Lag:
    """The share of all the run's GPU time, in permille, in which its other ranks wait for one."""

    permille: int
    caused_by: str | None = None  # its GPU


NONE_BEHIND = Lag(0)


def detect(window: RunWindow, limits: Thresholds) -> Lag:
    """Judge one window; ranks without traffic between them do not wait for one another."""
    if window.gpus < 3 or not links_busy(window, limits):
        return NONE_BEHIND
    found = max((_stands_still(window, limits), _computes_longer(window, limits)), key=lambda lag: lag.permille)
    return found if found.permille >= limits.lag_permille else NONE_BEHIND


def _stands_still(window: RunWindow, limits: Thresholds) -> Lag:
    behind = _odd(window.still_most, window.still_median, window.still_spread, limits)
    return Lag(_of_all(behind, window), window.still_gpu)


def _computes_longer(window: RunWindow, limits: Thresholds) -> Lag:
    """By SM activity; by power where the chip does not tell it, since spinning draws a third of the limit."""
    if window.sm_ms * 2 >= window.ms:
        ahead = _odd(window.activity_most, window.activity_median, window.activity_spread, limits)
        most, idle, gpu = window.activity_most or 0, limits.spinning_permille, window.active_gpu
    else:
        ahead = _odd(window.power_most, window.power_median, window.power_spread, limits)
        most, idle, gpu = window.power_most or 0, limits.spinning_power_permille, window.power_gpu
    if most <= 2 * idle:  # a rank that hardly computes tells nothing of the others
        return NONE_BEHIND
    return Lag(_of_all(min(1000, ahead * 1000 // (most - idle)), window), gpu)


def _odd(most: int | None, median: int | None, spread: int | None, limits: Thresholds) -> int:
    """Return how far the outermost rank stands from the middle, or 0 where others stand nearly as far."""
    if most is None or median is None or spread is None:
        return 0
    usual = max(limits.rank_spread_permille, spread * 14826 // 10000)  # 1.4826: what makes a MAD a deviation
    return most - median if (most - median) * 1000 > limits.odd_rank_milli * usual else 0


def _of_all(behind: int, window: RunWindow) -> int:
    return behind * (window.gpus - 1) // window.gpus
