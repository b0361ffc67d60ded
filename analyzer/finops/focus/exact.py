"""Decimals that are exact as printed: amounts are integers until they are written."""

from collections.abc import Iterator, Sequence
from decimal import Decimal

from agent.wire.units import HOUR_MS

MILLIONTHS, NANOS = 6, 9
RATIO_DIGITS = 12  # a millisecond of a host of 16 GPUs is 7e-10 of its day


def scaled(units: int, digits: int) -> Decimal:
    """Return an integer of units of 10^-digits as the decimal that it is."""
    return Decimal(f"{units}E-{digits}")


def exact_shares(parts: Sequence[int], whole: int, units: int) -> Iterator[int]:
    """Yield for each part its share of `units`, rounded so that the shares of all parts of `whole` sum to the units.

    What is rounded is where each part ends, not its length: ends telescope. A part is then off by less than one unit.
    `whole` must be more than 0.
    """
    ended = given = 0
    for part in parts:
        ended += part
        until = ended * units // whole
        yield until - given
        given = until


def nano_hours(milliseconds: Sequence[int]) -> list[int]:
    """Return GPU milliseconds as billionths of hours that sum to those of their sum, rounded down."""
    return list(exact_shares(milliseconds, HOUR_MS, 10**NANOS))
