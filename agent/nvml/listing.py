"""Which GPUs the driver lists now, and by which handles: asked on a thread of its own, since it may hang."""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pynvml

from agent.errors import SourceError, SourceLostError
from agent.nvml.calls import Calls
from agent.nvml.library import device_count
from agent.nvml.xid import XidWatch

LOOK_AGAIN_SECONDS = 30.0  # asking for handles costs some 6 ms a GPU
MOST_GPUS = 64


@dataclass(frozen=True, slots=True)
class Listed:
    """One listing: index and handle by UUID, of the `count` GPUs that the driver has; one may have no UUID to tell."""

    gpus: Mapping[str, tuple[int, Any]]
    count: int
    life: int  # of the driver; it ends where the driver did not answer

    @property
    def complete(self) -> bool:
        """Whether each GPU was identified."""
        return len(self.gpus) == self.count


class Listing:
    """Counts the GPUs at every call, and asks for their handles now and then, and when their number changes.

    `newest` is the last listing, also where it came too late for the beat that asked for it.
    """

    def __init__(self, failures: Counter[str], xid: XidWatch, seconds: Callable[[], float] = time.monotonic) -> None:
        self.newest: Listed | None = None
        self.lost: frozenset[str] = frozenset()  # GPUs that tell no events; set by who reads them
        self.look_again = False  # ask at the next call, whatever the time
        self._calls = Calls("the driver", failures)
        self._xid = xid
        self._seconds = seconds
        self._count = 0
        self._life = 0
        self._looked: float | None = None

    def look(self) -> None:
        """Ask the driver.

        Raises:
            SourceError: the driver does not answer; it was opened again if it had gone away.
            DriverChangedError: another driver answers.
        """
        known, self._count = self._count, 0  # so that a driver that stopped answering is looked through anew
        try:
            self._count = count = min(device_count(), MOST_GPUS)
        except SourceError:
            self._life += 1
            raise
        now = self._seconds()
        recent = self._looked is not None and now - self._looked < LOOK_AGAIN_SECONDS
        if count == known and recent and not self.look_again:
            return
        self._looked, self.look_again = now, False
        found = [self._found(index) for index in range(count)]
        gpus = {uuid: (index, handle) for index, (uuid, handle) in enumerate(found) if uuid is not None}
        self.newest = Listed(gpus, count, self._life)
        self._xid.follow({uuid: handle for uuid, (_, handle) in gpus.items() if uuid not in self.lost})

    def _found(self, index: int) -> tuple[str | None, Any]:
        try:
            handle = self._calls.ask(pynvml.nvmlDeviceGetHandleByIndex, index)
            return (None if handle is None else self._calls.ask(pynvml.nvmlDeviceGetUUID, handle)), handle
        except SourceLostError:
            return None, None
