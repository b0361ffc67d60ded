"""What a change saved, by what is true: the GPU time that the same work held, before and after."""

from collections.abc import Iterable
from itertools import pairwise

from simulator.plan import Run


def held_ms(runs: Iterable[Run]) -> int:
    """Return the GPU-milliseconds from the site's start on in which any of these runs held a GPU.

    A GPU that several share counts once. What a change makes longer may end after the span, and counts.
    """
    stays: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for run in runs:
        for at, seat in enumerate(run.plan.seats):
            timeline = run.timeline(at)
            stays.setdefault((seat.node, seat.gpu), []).append((max(0, timeline.start), max(0, timeline.end)))
    return sum(_covered(each) for each in stays.values())


def _covered(stays: list[tuple[int, int]]) -> int:
    stays.sort()
    reached = [0]
    for _, end in stays:
        reached.append(max(reached[-1], end))
    return sum(
        max(0, until - max(start, before)) for (start, _), (before, until) in zip(stays, pairwise(reached), strict=True)
    )
