"""A bound on the log: of lines of one kind so many a minute, and then how many more there were.

A client that sends rubbish in a loop makes uvicorn and asyncio log a line for each try: gigabytes by the morning, and
among them nobody finds the line that matters.
"""

import logging
import threading
import time
from collections.abc import Callable

AT_ONCE = 20  # lines of one kind in one minute
EACH_SECONDS = 60.0
_KINDS_MOST = 1_000
_NOISY = ("uvicorn.error", "asyncio")  # what logs by the will of who sends


class Bounded(logging.Filter):
    """Lets so many records of one kind through; a kind is who logs, and the words before what they are filled with."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now = now
        self._lock = threading.Lock()
        self._kinds: dict[tuple[str, int, str], tuple[float, int]] = {}  # since when, and how many

    def filter(self, record: logging.LogRecord) -> bool:
        """Say whether a record is told; the first of another minute tells how many were not."""
        kind, now = (record.name, record.levelno, str(record.msg)[:200]), self._now()
        with self._lock:
            began, count = self._kinds.get(kind, (now, 0))
            left_out = 0
            if now - began >= EACH_SECONDS:
                left_out, began, count = max(0, count - AT_ONCE), now, 0
            if len(self._kinds) >= _KINDS_MOST and kind not in self._kinds:
                self._kinds.clear()
            self._kinds[kind] = (began, count + 1)
        if left_out:
            record.msg = f"{record.getMessage()} (and {left_out:,} more like it, which were not written)"
            record.args = ()
        return count < AT_ONCE


def bound_the_log() -> None:
    """Bound what is logged at the will of who sends."""
    for name in _NOISY:
        logger = logging.getLogger(name)
        if not any(isinstance(each, Bounded) for each in logger.filters):
            logger.addFilter(Bounded())
