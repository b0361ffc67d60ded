"""Distributions as published and as seen: shares at or below a value, parts of them, and how far two are apart."""

from dataclasses import dataclass
from itertools import accumulate

from bench.truth.real.files import SerenCurve


@dataclass(frozen=True, slots=True)
class Distribution:
    """Values in ascending order, each with the share at or below it."""

    values: tuple[float, ...]
    shares: tuple[float, ...]

    @classmethod
    def weighed(cls, amounts: dict[float, int]) -> "Distribution":
        """Return the distribution of values that were seen for so long."""
        values, whole = tuple(sorted(amounts)), sum(amounts.values())
        return cls(values, tuple(upto / whole for upto in accumulate(amounts[value] for value in values)))

    @classmethod
    def published(cls, curve: SerenCurve, unit: float = 1.0) -> "Distribution":
        """Return a published curve, its values in this unit."""
        return cls(tuple(value / unit for value in curve.values), tuple(percent / 100 for percent in curve.percents))

    def above(self, value: float) -> "Distribution":
        """Return the distribution of what is above a value alone."""
        below = self.at_or_below(value)
        rest = [
            (seen, (upto - below) / (1 - below))
            for seen, upto in zip(self.values, self.shares, strict=True)
            if seen > value
        ]
        return Distribution(tuple(seen for seen, _ in rest), tuple(share for _, share in rest))

    def without_least(self, share: float) -> "Distribution":
        """Return the distribution of what is left when this share is taken away, from the least values on."""
        return Distribution(self.values, tuple(max(0.0, upto - share) / (1 - share) for upto in self.shares))

    def at_or_below(self, value: float) -> float:
        """Return the share at or below a value."""
        return max((share for seen, share in zip(self.values, self.shares, strict=True) if seen <= value), default=0.0)

    def quantile(self, share: float) -> float:
        """Return the least value at or below which this share lies."""
        return next(seen for seen, upto in zip(self.values, self.shares, strict=True) if upto >= min(share, 1.0))


def distance(first: Distribution, second: Distribution) -> float:
    """Return the distance of Kolmogorov and Smirnov: the most that the two curves are apart."""
    points = {*first.values, *second.values}
    return max(abs(first.at_or_below(point) - second.at_or_below(point)) for point in points)
