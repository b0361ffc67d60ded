"""How often an address may show a key or join token that opens nothing: so many at once, then one in a while.

Nobody guesses 256 bits. What it stops is a loop that makes us look into the registry, and fills the audit.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable

AT_ONCE = 10
EACH_SECONDS = 6.0
_MOST_ADDRESSES = 10_000  # remembered; who is forgotten may try so often again


class Attempts:
    """The failures of every address; any thread may tell and ask."""

    def __init__(
        self,
        now: Callable[[], float] = time.monotonic,
        most: int = _MOST_ADDRESSES,
        at_once: int = AT_ONCE,
        each_seconds: float = EACH_SECONDS,
    ) -> None:
        self._now = now
        self._at_once, self._each_seconds = at_once, each_seconds
        self._most = most
        self._lock = threading.Lock()
        self._spent_until: OrderedDict[str, float] = OrderedDict()

    def wait_seconds(self, address: str) -> float:
        """Return how long this address has to wait before it may try again; 0 where it may."""
        with self._lock:
            ahead = self._spent_until.get(address, 0.0) - self._now()
        return max(0.0, ahead - (self._at_once - 1) * self._each_seconds)

    def failed(self, address: str) -> None:
        """Note that it showed what opens nothing."""
        with self._lock:
            now = self._now()
            self._spent_until[address] = max(self._spent_until.pop(address, 0.0), now) + self._each_seconds
            while len(self._spent_until) > self._most:
                self._spent_until.popitem(last=False)
