"""Numbers of batches: monotone in one collector, roughly in the order of time across all of them.

A number is a hybrid clock in microseconds with the collector's own number in its low eight bits. So no two collectors
ever give the same, the later word on an allocation wins whoever took it, and one collector's are compared as they are.
"""

import time
from collections.abc import Callable

COLLECTOR_BITS = 8
COLLECTORS = 1 << COLLECTOR_BITS


class BatchNumbers:
    """The numbers of one collector, from the last that it gave on; a clock that is set back makes none go back."""

    def __init__(self, collector: int, last: int, now: Callable[[], int] = lambda: time.time_ns() // 1000) -> None:
        self._collector = collector
        self._ticks = last >> COLLECTOR_BITS
        self._now = now

    def next(self, count: int) -> list[int]:
        """Return the next `count` numbers, ascending. They are given once, whether or not they are used."""
        first = max(self._ticks + 1, self._now())
        self._ticks = first + count - 1
        return [tick << COLLECTOR_BITS | self._collector for tick in range(first, first + count)]
