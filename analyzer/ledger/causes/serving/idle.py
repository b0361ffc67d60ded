"""When a replica is idle: its count of answered requests stands still *and* all its GPUs do, for long enough."""

from collections.abc import Iterable, Sequence

Span = tuple[int, int]  # [from_ms, until_ms)


def idle_spans(requests: Sequence[Span], gpus: Iterable[Sequence[Span]], at_least_ms: int) -> list[Span]:
    """Return the spans in which no request was answered and every GPU was quiet, those of `at_least_ms` and more.

    Each sequence is of disjoint spans in order of time. Without one for the requests, nothing is known to be idle.
    """
    common = list(requests)
    for quiet in gpus:
        common = _both(common, quiet)
    return [span for span in common if span[1] - span[0] >= at_least_ms]


def overlap_ms(spans: Iterable[Span], from_ms: int, until_ms: int) -> int:
    """Return how much of [from_ms, until_ms) disjoint spans cover, milliseconds."""
    return sum(max(0, min(end, until_ms) - max(start, from_ms)) for start, end in spans)


def _both(one: Sequence[Span], other: Sequence[Span]) -> list[Span]:
    found, at, beside = [], 0, 0
    while at < len(one) and beside < len(other):
        start, end = max(one[at][0], other[beside][0]), min(one[at][1], other[beside][1])
        if start < end:
            found.append((start, end))
        if one[at][1] < other[beside][1]:
            at += 1
        else:
            beside += 1
    return found
