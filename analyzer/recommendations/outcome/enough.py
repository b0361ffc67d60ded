"""How many runs it takes to see an effect."""

from collections.abc import Sequence
from math import ceil
from statistics import stdev

_POWER = 16  # n = 16 CV^2 / delta^2 an arm: 80 % power at 5 % (van Belle, Statistical Rules of Thumb, 2.1)
_MOST = 10_000  # beyond that nobody waits


def runs_needed(spread: float, effect: float) -> int | None:
    """Return the runs that each side needs, or None where more than ten thousand would not do.

    `spread` is the standard deviation of the logarithms of the costs, which is their coefficient of variation where it
    is small; `effect` the share of the cost that is expected to be saved.
    """
    if effect == 0:
        return None
    needed = max(2, ceil(_POWER * spread**2 / effect**2))
    return needed if needed <= _MOST else None


def spread_of(*sides: Sequence[float]) -> float | None:
    """Return the standard deviation within the sides; None where none has two values."""
    known = [side for side in sides if len(side) > 1]
    freedom = sum(len(side) - 1 for side in known)
    if not freedom:
        return None
    return float((sum(stdev(side) ** 2 * (len(side) - 1) for side in known) / freedom) ** 0.5)
