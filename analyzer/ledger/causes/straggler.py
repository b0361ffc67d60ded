"""Ranks that are behind the others, in either direction: busier, as it computes longer, or stiller, as it waits.

In a synchronous job the peers of a slow rank spin in the collective, so that the slow one is the busier (reference,
algorithms 8, "sign trap"); one that sleeps or lacks its input stands still while they spin. What is counted is how far
it stands from the middle, against how far the others do (robust z). Where several are as far behind, as those of one
host, the mean over all ranks tells how many: only the rest waits.

Where it is another rank each time, as with sequences of unequal length, no mean over a window shows it: they are held
against each other in every interval of their samples (sql/windows.sql), and no GPU is named.
"""

from dataclasses import dataclass

from analyzer.ledger.causes.exchange import links_busy
from analyzer.ledger.thresholds import Thresholds
from analyzer.ledger.windows import RunWindow, share_behind
from analyzer.period import WINDOW_MS


@dataclass(frozen=True, slots=True)
class Lag:
    """The share of all the run's GPU time, in permille, in which its other ranks wait for those behind."""

    permille: int
    caused_by: str | None = None  # the GPU that is furthest behind; none where it is another one each time

    @property
    def is_uneven(self) -> bool:
        """True where the ranks wait, and for no one rank."""
        return self.permille > 0 and self.caused_by is None


NONE_BEHIND = Lag(0)


def straggler_lag(window: RunWindow, limits: Thresholds) -> Lag:
    """Judge one window; ranks without traffic between them do not wait for one another."""
    if window.gpus < 3 or not links_busy(window, limits) or window.ms * 2 < window.gpus * WINDOW_MS:
        return NONE_BEHIND  # minutes in which one rank is behind are no habit of its
    if has_roles(window, limits):
        return NONE_BEHIND
    signs = (_stands_still(window, limits), _computes_longer(window, limits), _runs_slower(window, limits))
    found, of_all = max(signs, key=lambda lag: lag.permille), _another_each_time(window, limits)
    found = found if found.permille > of_all.permille else of_all  # by chance one of them has most for ten minutes
    return found if found.permille >= limits.lag_permille else NONE_BEHIND


def _another_each_time(window: RunWindow, limits: Thresholds) -> Lag:
    if window.uneven is None or window.uneven_most is None or window.uneven_most > limits.uneven_most_permille:
        return NONE_BEHIND
    return Lag(window.uneven)


def has_roles(window: RunWindow, limits: Thresholds) -> bool:
    """True where as many ranks of one host stand still, or compute, as do not: they do unlike work by turns.

    Generators beside trainers, stages of a pipeline: nobody of them is behind.
    """
    if window.nodes > 1:
        return False
    told = (
        (window.still, window.still_median, window.still_most),
        (window.activity, window.activity_median, window.activity_most),
    )
    return any(
        (share := share_behind(mean, middle, most)) is not None
        and share >= limits.roles_permille
        and (most or 0) - (middle or 0) >= limits.apart_permille
        for mean, middle, most in told
    )


def _stands_still(window: RunWindow, limits: Thresholds) -> Lag:
    behind = _odd(window.still_most, window.still_median, window.still_spread, limits)
    return Lag(_of_the_rest(behind, window.still, window.still_median, window.still_most, window), window.still_gpu)


def _computes_longer(window: RunWindow, limits: Thresholds) -> Lag:
    """By SM activity; by power where the chip does not tell it, since spinning draws a third of the limit."""
    if window.sm_ms * 2 >= window.ms:
        ahead = _odd(window.activity_most, window.activity_median, window.activity_spread, limits)
        mean: int | None = window.activity
        middle = window.activity_median
        most, idle, gpu = window.activity_most or 0, limits.spinning_permille, window.active_gpu
    else:
        ahead = _odd(window.power_most, window.power_median, window.power_spread, limits)
        mean, middle = window.power, window.power_median
        most, idle, gpu = window.power_most or 0, limits.spinning_power_permille, window.power_gpu
    if most <= 2 * idle:  # a rank that hardly computes tells nothing of the others
        return NONE_BEHIND
    return Lag(_of_the_rest(min(1000, ahead * 1000 // (most - idle)), mean, middle, most, window), gpu)


def _runs_slower(window: RunWindow, limits: Thresholds) -> Lag:
    """By the clock alone, where the chip does not tell its activity: peers wait as long as a slower clock computes on.

    A hot GPU draws less for its clock and its peers draw less for their waiting, so that power shows neither.
    """
    behind = window.slowed_most - window.slowed_least
    if window.sm_ms * 2 >= window.ms or behind < limits.slowed_permille or window.slowest_gpu is None:
        return NONE_BEHIND
    waiting = behind * (1000 - window.still) // 1000
    return Lag(_of_the_rest(waiting, None, None, None, window), window.slowest_gpu)


def _odd(most: int | None, median: int | None, spread: int | None, limits: Thresholds) -> int:
    """Return how far the outermost rank stands from the middle, or 0 where others stand nearly as far."""
    if most is None or median is None or spread is None:
        return 0
    usual = max(limits.rank_spread_permille, spread * 14826 // 10000)  # 1.4826: what makes a MAD a deviation
    return most - median if (most - median) * 1000 > limits.odd_rank_milli * usual else 0


def _of_the_rest(behind: int, mean: int | None, middle: int | None, most: int | None, window: RunWindow) -> int:
    """Return what the ranks that are not behind wait, as a share of all ranks' time.

    How many are behind follows from how far the mean of all lies off the middle; one at the least, half at the most.
    """
    are = 0 if mean is None else share_behind(mean, middle, most) or 0
    one = -(-1000 // window.gpus)
    return behind * window.gpus * (1000 - max(one, min(500, are))) // 1000 // window.gpus
