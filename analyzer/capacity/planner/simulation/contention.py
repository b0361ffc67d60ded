"""Run a plan again where transfers that share a link slow each other down; solvers take each as if it were alone.

A transfer goes at its full rate divided by the number of those on the most crowded of its links. That is the least
that fair sharing gives it, so what is found is an upper end of what contention costs. Links: a node's disk for local
copies, its ports within a rack, a rack's uplinks between racks, and the network storage, which all share.
"""

from collections import Counter
from collections.abc import Sequence
from heapq import heappop, heappush
from math import ceil

from analyzer.capacity.planner.simulation.replay import Step

_HAIR = 1e-6  # seconds: less than this is left of a transfer only by rounding


def contended_ends_of(steps: Sequence[Step], seconds: Sequence[int]) -> list[int]:
    """Return when each task ends if they take so long, rounded up to whole seconds."""
    return _Course(steps, seconds).run()


class _Course:
    """One replay as it goes: tasks that run, data that moves, and what each task still waits for."""

    def __init__(self, steps: Sequence[Step], seconds: Sequence[int]) -> None:
        self._steps, self._seconds = steps, seconds
        self._ends = [0.0] * len(steps)
        self._waits = [1 + len(step.transfers) + len(step.room_of) for step in steps]  # one for its release
        self._sends: list[list[tuple[int, float, tuple[str, ...]]]] = [[] for _ in steps]
        self._frees: list[list[int]] = [[] for _ in steps]
        for at, step in enumerate(steps):
            for transfer in step.transfers:
                self._sends[transfer.before].append((at, float(transfer.seconds), transfer.links))
            for other in step.room_of:
                self._frees[other].append(at)
        # What comes: (when, whether a task ends, which); releases before ends only matters for equal moments.
        self._coming = [(float(step.release), False, at) for at, step in enumerate(steps)]
        self._coming.sort()
        # Of each transfer under way: the task that waits for it, the seconds left at full rate, its links.
        self._moving: list[int] = []
        self._left: list[float] = []
        self._links: list[tuple[str, ...]] = []
        self._now = 0.0

    def run(self) -> list[int]:
        """Return when each task ends."""
        while self._coming or self._moving:
            slowed = self._slowed()
            moments = [self._now + left * slow for left, slow in zip(self._left, slowed, strict=True)]
            until = min([*moments, *(when for when, _, _ in self._coming[:1])])
            self._left = [left - (until - self._now) / slow for left, slow in zip(self._left, slowed, strict=True)]
            self._now = until
            self._arrived()
            while self._coming and self._coming[0][0] <= self._now:
                self._came(*heappop(self._coming)[1:])
        return [ceil(end - _HAIR) for end in self._ends]

    def _slowed(self) -> list[int]:
        """Return by how much each transfer is slowed down: those on its most crowded link."""
        crowd = Counter(link for links in self._links for link in links)
        return [max(crowd[link] for link in links) for links in self._links]

    def _arrived(self) -> None:
        done = [at for at, left in zip(self._moving, self._left, strict=True) if left <= _HAIR]
        if done:
            kept = [number for number, left in enumerate(self._left) if left > _HAIR]
            self._moving = [self._moving[number] for number in kept]
            self._left = [self._left[number] for number in kept]
            self._links = [self._links[number] for number in kept]
            for at in done:
                self._less(at)

    def _came(self, is_end: bool, at: int) -> None:
        if not is_end:
            self._less(at)
            return
        self._ends[at] = self._now
        for other in self._frees[at]:
            self._less(other)
        for after, left, links in self._sends[at]:
            if left > 0:
                self._moving.append(after)
                self._left.append(left)
                self._links.append(links)
            else:
                self._less(after)

    def _less(self, at: int) -> None:
        """Note that a task waits for one thing less; with nothing left it runs."""
        self._waits[at] -= 1
        if self._waits[at] == 0:
            heappush(self._coming, (self._now + self._seconds[at], True, at))
