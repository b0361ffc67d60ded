"""How two orders agree: Spearman's and Kendall's coefficients, and how well one number parts two groups."""

from collections.abc import Sequence
from itertools import combinations


def ranks(values: Sequence[float]) -> list[float]:
    """Return the rank of each value, from 1; equal values share their mean rank."""
    order = sorted(range(len(values)), key=values.__getitem__)
    found = [0.0] * len(values)
    first = 0
    while first < len(order):
        last = first
        while last + 1 < len(order) and values[order[last + 1]] == values[order[first]]:
            last += 1
        for place in order[first : last + 1]:
            found[place] = (first + last) / 2 + 1
        first = last + 1
    return found


def spearman(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return the correlation of ranks, or None where one of the two does not vary at all."""
    one, two = ranks(first), ranks(second)
    mean = (len(one) + 1) / 2
    spread = sum((rank - mean) ** 2 for rank in one) * sum((rank - mean) ** 2 for rank in two)
    together = sum((left - mean) * (right - mean) for left, right in zip(one, two, strict=True))
    return together / spread**0.5 if spread else None


def kendall(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return tau-b, which makes allowance for ties, or None where one of the two does not vary at all."""
    same = tied_first = tied_second = pairs = 0
    for left, right in combinations(range(len(first)), 2):
        one, two = _sign(first[left] - first[right]), _sign(second[left] - second[right])
        same, pairs = same + one * two, pairs + 1
        tied_first, tied_second = tied_first + (one == 0), tied_second + (two == 0)
    spread = (pairs - tied_first) * (pairs - tied_second)
    return same / spread**0.5 if spread else None


def parting(above: Sequence[float], below: Sequence[float]) -> float | None:
    """Return how often a value that should be larger is (a tie counts half): the area under the ROC curve."""
    if not above or not below:
        return None
    together = ranks([*above, *below])
    least = len(above) * (len(above) + 1) / 2
    return (sum(together[: len(above)]) - least) / (len(above) * len(below))


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)
