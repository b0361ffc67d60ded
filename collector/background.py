"""What runs beside the requests of a server: a thread from its start until its stop.

Where all cores are busy those threads go first that answer, then sealing, then maintenance. What has been answered is
safe, and may be sealed a little later; who waits for an answer keeps what it has in memory.
"""

import os
import sys
import threading
from contextlib import suppress

SEALING = 5
MAINTENANCE = 10


def let_others_go_first(nice: int) -> None:
    """Lower the precedence of the calling thread, for good; only Linux has one for each thread."""
    if sys.platform == "linux":
        with suppress(OSError):  # forbidden by a sandbox: then all are equal, as before
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), nice)


class Background:
    """A daemon thread of its own. `_run` says what it does, and ends soon after `_ending` is set."""

    def __init__(self, name: str, stop_seconds: float) -> None:
        self._ending = threading.Event()
        self._stop_seconds = stop_seconds
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, and wait for what is under way, so long and no longer."""
        self._ending.set()
        if self._thread.ident is not None:
            self._thread.join(self._stop_seconds)

    def _run(self) -> None:
        raise NotImplementedError
