"""How much one agent may send: so many batches and bytes a second, with room for the rush after an outage.

An agent sends its next batch when the last was answered, so an honest one stays far below. What the limit is for is the
one that does not: a loop that went wrong, a host cloned a hundred times, a spool replayed by hand. It is told to come
later before its rows cost anything, and the others notice nothing.
"""

import math
import random
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from collector.errors import BatchError

_MAX_SENDERS = 100_000  # remembered; who is forgotten may rush once more


@dataclass(slots=True)
class _Spent:
    """Until when the batches and the bytes of a sender would take at the rates that are allowed, in seconds."""

    batches_until: float = 0.0
    bytes_until: float = 0.0


class SenderLimits:
    """The rates of every sender. A sender may be ahead of its rate by `burst_seconds`."""

    def __init__(
        self,
        batches_per_second: float,
        bytes_per_second: float,
        burst_seconds: float,
        *,
        max_senders: int = _MAX_SENDERS,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._batch_seconds = 1 / batches_per_second
        self._byte_seconds = 1 / bytes_per_second
        self._burst = burst_seconds
        self._max_senders = max_senders
        self._now = now
        self._lock = threading.Lock()
        self._senders: OrderedDict[str, _Spent] = OrderedDict()

    def __len__(self) -> int:
        return len(self._senders)

    def spend(self, sender: str, size: int) -> None:
        """Take one batch of `size` bytes off what the sender may send.

        Raises:
            BatchError: 429, it has sent too much; nothing was taken off.
        """
        with self._lock:
            self._spend(sender, size, self._now())

    def _spend(self, sender: str, size: int, now: float) -> None:
        spent = self._of(sender)
        batches = max(spent.batches_until, now) + self._batch_seconds
        size_until = max(spent.bytes_until, now) + size * self._byte_seconds
        # A single batch always fits who has been quiet, or one above the burst would be refused for ever.
        over_batches = batches - now - self._burst if spent.batches_until > now else 0.0
        over_bytes = size_until - now - self._burst if spent.bytes_until > now else 0.0
        if (wait := max(over_batches, over_bytes)) > 0:
            what = "batches" if over_batches >= over_bytes else "bytes"
            sentence = f"{sender} sends more {what} a second than one agent may; send it later"
            raise BatchError(429, "rate", sentence, retry_after=spread_seconds(wait))
        spent.batches_until, spent.bytes_until = batches, size_until

    def _of(self, sender: str) -> _Spent:
        spent = self._senders.setdefault(sender, _Spent())
        self._senders.move_to_end(sender)
        if len(self._senders) > self._max_senders:
            self._senders.popitem(last=False)
        return spent


def spread_seconds(seconds: float) -> int:
    """Return the seconds of a Retry-After: at least as long, up to as long again, so that not all return at once."""
    least = max(1, math.ceil(seconds))
    return least + random.randint(0, least)  # noqa: S311 - nothing to guess here
