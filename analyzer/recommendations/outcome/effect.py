"""How much cheaper a unit of work became: a change of its logarithm, with two intervals made in two ways."""

from dataclasses import dataclass
from math import exp
from typing import Literal

_Method = Literal["before_after", "difference"]
LIKELY, SURE = 0.8, 0.95  # the levels of the two intervals; the first is as wide as P10 to P90


@dataclass(frozen=True, slots=True)
class Interval:
    """From where to where, in natural logarithms of after/before; below 0 is cheaper."""

    low: float
    high: float

    @property
    def holds_zero(self) -> bool:
        """Whether no change at all lies in it; its ends belong to it."""
        return self.low <= 0 <= self.high

    def saved(self) -> tuple[float, float]:
        """Return the shares of the cost that are saved at its ends, the smaller first; negative is dearer."""
        return 1 - exp(self.high), 1 - exp(self.low)


@dataclass(frozen=True, slots=True)
class Intervals:
    """One estimate's 80 % and 95 % intervals."""

    likely: Interval
    sure: Interval


@dataclass(frozen=True, slots=True)
class Effect:
    """One estimate. `by_t` is what is told and decided by; `by_draws`, a bootstrap with a seed, stands beside it."""

    method: _Method
    change: float  # ln(after / before) of the cost of a unit of work
    by_t: Intervals
    by_draws: Intervals

    @property
    def saved(self) -> float:
        """The share of the cost of a unit of work that was saved: 0.2 is a fifth; negative is dearer."""
        return 1 - exp(self.change)

    @property
    def is_shown(self) -> bool:
        """Whether the 95 % interval leaves no change at all outside."""
        return not self.by_t.sure.holds_zero
