"""The arithmetic of cost: integers only, so that parts always sum to their whole."""

from collections.abc import Sequence

HOUR_MILLISECONDS = 3_600_000


def cost_micros(milliseconds: int, micros_per_hour: int) -> int:
    """Return the price of GPU time in millionths of the ledger's currency, rounded half up."""
    return (2 * milliseconds * micros_per_hour + HOUR_MILLISECONDS) // (2 * HOUR_MILLISECONDS)


def split(total: int, weights: Sequence[int]) -> list[int]:
    """Divide an amount by weights into integers that sum to it: largest remainder, ties to the earlier position.

    A greater weight never gets less, and a weight of 0 gets 0. All weights 0 with something to divide is our own
    mistake: nobody is there to take it.
    """
    whole = sum(weights)
    if total < 0 or any(weight < 0 for weight in weights) or (total > 0 and whole == 0):
        raise ValueError(f"BUG: cannot divide {total} by the weights {list(weights)}")
    if whole == 0:
        return [0] * len(weights)
    shares = [total * weight // whole for weight in weights]
    by_remainder = sorted(range(len(weights)), key=lambda position: -(total * weights[position] % whole))
    for position in by_remainder[: total - sum(shares)]:
        shares[position] += 1
    return shares
