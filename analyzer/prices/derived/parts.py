"""What a derived price consists of: parts that run over hours, each exact, so that the hours sum to what was paid."""

from dataclasses import dataclass
from fractions import Fraction

from agent.wire.units import HOUR_US


@dataclass(frozen=True, slots=True)
class PricePart:
    """One part of a GPU-hour's price over a period: millionths an hour as a fraction, and in words how they came about.

    An amount that is spread over n hours seldom divides into whole millionths. Hour i gets what lies between the i-th
    and the next whole sum, so that the hours sum to the amount, and no hour is a millionth off.
    """

    name: str
    micros: Fraction
    starts_at: int
    ends_at: int | None
    how: str

    def micros_at(self, at_us: int) -> int:
        """Return what it adds to the hour that this microsecond lies in; 0 outside its period."""
        if at_us < self.starts_at or (self.ends_at is not None and at_us >= self.ends_at):
            return 0
        hour = (at_us - self.starts_at) // HOUR_US
        whole, by = self.micros.numerator, self.micros.denominator
        return whole * (hour + 1) // by - whole * hour // by


def spread_over_hours(name: str, total: Fraction, starts_at: int, ends_at: int, how: str) -> PricePart:
    """Return an amount spread evenly over the hours of a period."""
    return PricePart(name, total / ((ends_at - starts_at) // HOUR_US), starts_at, ends_at, how)
