"""Shares of a profile's GPU time, in integers, and how they are written beside a bar that they must not contradict."""

from decimal import ROUND_HALF_UP, Decimal

from agent.wire.units import PERMILLE
from analyzer.text.rounding import nearest
from analyzer.text.words import NO_BREAK, decimal

_MOST_DECIMALS = 6


def at_least(part: int, whole: int, permille: int) -> bool:
    """Say whether a share is no less than a bar, exactly."""
    return part * PERMILLE >= permille * whole


def at_most(part: int, whole: int, permille: int) -> bool:
    """Say whether a share is no more than a bar, exactly."""
    return part * PERMILLE <= permille * whole


def percent_text(part: int, whole: int, permille: int) -> str:
    """Return a share as percent, with as many decimals as it takes to stand on its own side of the bar: "49.96 %"."""
    if whole <= 0:
        return "-"
    for decimals in range(1, _MOST_DECIMALS + 1):
        scale = 100 * 10**decimals
        shown, bar = nearest(part * scale, whole), permille * scale // PERMILLE
        exact = part * PERMILLE - permille * whole
        if (shown > bar) == (exact > 0) and (shown < bar) == (exact < 0):
            break
    return f"{decimal(shown, decimals)}{NO_BREAK}%"


def ratio_parts(ratio: float) -> tuple[int, int]:
    """Return a measured ratio as the integers of its shortest decimal, so that it compares as it reads."""
    exact = Decimal(str(ratio)).quantize(Decimal("0.000001"), rounding=ROUND_HALF_UP)
    return int(exact * 10**6), 10**6
