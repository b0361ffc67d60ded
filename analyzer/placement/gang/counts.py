"""What the pieces of a gang count together at least, whatever the bins: what a fraction of a bin would get around.

Of bins of 7 and 8 units, 16 lie in two of 8 or in three: with 3 for a piece of 8 and 2 for a smaller one, all count 6
or more. A programme without that puts five sixths of such a gang into bins of 8, and pays for two and a sixth.
"""

from collections import Counter
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import gcd

SIZES = 3  # of bin at which pieces are told apart into small and large: the commonest decide


@dataclass(frozen=True, slots=True)
class Count:
    """By units, from 1: what a piece of so many counts; all pieces of the gang together count `least` or more."""

    of: tuple[int, ...]
    least: int


def counts_of(units: int, rooms: Counter[int]) -> tuple[Count, ...]:
    """Return the counts of a gang of so many units; `rooms` says how many bins have how many units for it."""
    largest = min(units, max(rooms, default=0))
    common = Counter({room: number for room, number in rooms.items() if 0 < room < largest})
    return tuple(count for small, _ in common.most_common(SIZES) for count in _counts(units, largest, small))


@cache
def _counts(units: int, largest: int, small: int) -> tuple[Count, ...]:
    """Return a count for each edge of the hull under: so many small pieces beside so many large ones at least."""
    hull: list[tuple[int, int]] = []
    for large in range(-(-units // largest) + 1):
        point = (large, max(0, -(-(units - large * largest) // small)))
        while len(hull) > 1 and _is_above(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    found = []
    for (x, y), (right, below) in pairwise(hull):
        shared = gcd(y - below, right - x)
        many, few = (y - below) // shared, (right - x) // shared
        if many > few:  # else all pieces count alike, as they do for the fewest bins
            least = many * x + few * y
            of = [few] * small + [many] * (largest - small)
            found.append(Count(_lifted(of, units, least), least))
    return tuple(found)


def _is_above(left: tuple[int, int], middle: tuple[int, int], right: tuple[int, int]) -> bool:
    """Whether the middle point lies on or above the line between the others."""
    return (middle[1] - left[1]) * (right[0] - left[0]) >= (right[1] - left[1]) * (middle[0] - left[0])


def _lifted(of: list[int], units: int, least: int) -> tuple[int, ...]:
    """Return as little for each size as still makes every way to divide the gang count enough, the largest first."""
    for size in range(len(of), 0, -1):
        before = of[size - 1]
        others = _fewest(of, units, size)
        needed = 0
        for times in range(1, -(-units // size) + 1):
            left = least - others[max(0, units - times * size)]
            needed = max(needed, -(-left // times))
        of[size - 1] = min(before, needed)
    return tuple(of)


def _fewest(of: list[int], units: int, but: int) -> list[int]:
    """Return for 0 units and more what pieces that cover them count at least, without pieces of one size."""
    sizes = [size for size in range(1, len(of) + 1) if size != but]
    found = [0]
    for left in range(1, units + 1):
        found.append(min((of[size - 1] + found[max(0, left - size)] for size in sizes), default=1 << 30))
    return found
