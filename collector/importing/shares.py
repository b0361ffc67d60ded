"""How many GPUs a run has on each of its hosts, where its scheduler only tells the sum."""

from collections.abc import Sequence


def gpus_by_host(total: int | None, sizes: Sequence[int]) -> list[int]:
    """Return how many GPUs a job has on each of its hosts; accounting knows only the sum. `sizes` are 0 if unknown.

    Who takes all takes all of each. Else it is divided evenly, as `--gpus-per-node` and `--gres` do, what is left over
    to the first hosts; a host gives more than it has only where all together have too few.
    """
    if not total or not sizes:
        return [0] * len(sizes)
    even, rest = divmod(total, len(sizes))
    counts = [even + (position < rest) for position in range(len(sizes))]
    return _fitted(counts, sizes) if all(sizes) else counts


def _fitted(counts: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """Move what does not fit to hosts that have room, from the first on."""
    fitted = [min(count, size) for count, size in zip(counts, sizes, strict=True)]
    over = sum(counts) - sum(fitted)
    for position, size in enumerate(sizes):
        more = min(over, size - fitted[position])
        fitted[position] += more
        over -= more
    return [fitted[0] + over, *fitted[1:]]
