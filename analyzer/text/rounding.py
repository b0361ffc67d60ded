"""Round from the top down, so that every printed column adds up as printed: total, then classes, then rows."""

from collections.abc import Sequence


def nearest(numerator: int, denominator: int) -> int:
    """Return numerator / denominator to the nearest integer, halves away from zero; exact at any size."""
    sign = -1 if numerator < 0 else 1
    return sign * ((2 * abs(numerator) + denominator) // (2 * denominator))


def apportion(total: int, numerators: Sequence[int], denominator: int) -> list[int]:
    """Return one integer for each numerator / denominator, summing to `total` by largest remainder.

    `total` must be the exact sum rounded up or down, as `nearest` or a call for the level above gives it; each
    result is then its exact value rounded up or down. Ties go to the earlier.
    """
    floors = [numerator // denominator for numerator in numerators]
    missing = total - sum(floors)
    if not 0 <= missing <= len(floors):
        raise AssertionError(f"BUG: {total} is no rounding of {sum(numerators)}/{denominator}")
    by_remainder = sorted(range(len(floors)), key=lambda index: -(numerators[index] % denominator))
    for index in by_remainder[:missing]:
        floors[index] += 1
    return floors


def apportion_tree(total: int, groups: Sequence[Sequence[int]], denominator: int) -> tuple[list[int], list[list[int]]]:
    """Return the rounded groups, which sum to `total`, and the rounded members, which sum to their group."""
    sums = apportion(total, [sum(group) for group in groups], denominator)
    return sums, [apportion(rounded, group, denominator) for rounded, group in zip(sums, groups, strict=True)]
