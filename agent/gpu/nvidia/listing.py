"""Which GPUs the driver lists now, and by which handles: asked on threads of their own, since each may hang."""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import pynvml

from agent.errors import SourceError, SourceHungError, SourceLostError
from agent.gpu.nvidia.calls import Calls
from agent.gpu.nvidia.library import device_count
from agent.gpu.nvidia.xid import XidWatch
from agent.watchdog_thread import WatchdogThread

_LOOK_AGAIN_SECONDS = 30.0  # asking for handles costs some 6 ms a GPU
_NAMING_SECONDS = 3.0  # for all GPUs to tell their names: less than who asks for the list waits at the start
_MOST_GPUS = 64

Silence = Literal["lost", "hangs", "unknown"]  # why a GPU that the driver counts does not tell its UUID


@dataclass(frozen=True, slots=True)
class Listed:
    """One listing: index and handle by UUID, of the `count` GPUs that the driver has, and why others have no UUID."""

    gpus: Mapping[str, tuple[int, Any]]
    count: int
    life: int  # of the driver; it ends where the driver did not answer
    silent: Mapping[int, Silence] = field(default_factory=dict)  # by index

    @property
    def complete(self) -> bool:
        """Whether each GPU was identified."""
        return len(self.gpus) == self.count


class Listing:
    """Counts the GPUs at every call, and asks for their handles now and then, and when their number changes.

    Each GPU is asked for its name on a thread of its own: one that hangs has none, and the others have theirs. `newest`
    is the last listing, also where it came too late for the beat that asked for it.
    """

    def __init__(self, failures: Counter[str], xid: XidWatch, seconds: Callable[[], float] = time.monotonic) -> None:
        self.newest: Listed | None = None
        self.lost: frozenset[str] = frozenset()  # GPUs that tell no events; set by who reads them
        self.look_again = False  # ask at the next call, whatever the time
        self._failures = failures
        self._askers: dict[int, WatchdogThread[tuple[str | None, Any]]] = {}
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
            self._count = count = min(device_count(), _MOST_GPUS)
        except SourceError:
            self._life += 1
            raise
        now = self._seconds()
        recent = self._looked is not None and now - self._looked < _LOOK_AGAIN_SECONDS
        late = any(asker.has_late for asker in self._askers.values())
        if count == known and recent and not self.look_again and not late:
            return
        self._looked, self.look_again = now, False
        self.newest = self._listed(count)
        self._xid.follow({uuid: handle for uuid, (_, handle) in self.newest.gpus.items() if uuid not in self.lost})

    def _listed(self, count: int) -> Listed:
        """Ask each GPU in turn, and those that are left once half of the time is gone all at once."""
        began = time.monotonic()
        for index in range(count):
            asker = self._asker(index)
            asker.begin()
            asker.ready(began + _NAMING_SECONDS / 2 - time.monotonic())
        gpus: dict[str, tuple[int, Any]] = {}
        silent: dict[int, Silence] = {}
        for index in range(count):
            asker = self._asker(index)
            try:
                uuid, handle = asker.answer(began + _NAMING_SECONDS - time.monotonic())
            except SourceLostError:
                silent[index] = "lost"
            except SourceHungError:
                silent[index] = "hangs"
            else:
                if uuid is None:
                    silent[index] = "unknown"
                else:
                    gpus[uuid] = (index, handle)
            asker.close()
        return Listed(gpus, count, self._life, silent)

    def _asker(self, index: int) -> WatchdogThread[tuple[str | None, Any]]:
        if index not in self._askers:
            calls = Calls(f"GPU {index}", self._failures, self._seconds)
            self._askers[index] = WatchdogThread(f"GPU {index}", partial(_name, calls, index))
        return self._askers[index]


def _name(calls: Calls, index: int) -> tuple[str | None, Any]:
    """Return a GPU's UUID and handle, None where the driver tells them not."""
    handle = calls.ask(pynvml.nvmlDeviceGetHandleByIndex, index)
    return (None if handle is None else calls.ask(pynvml.nvmlDeviceGetUUID, handle)), handle
