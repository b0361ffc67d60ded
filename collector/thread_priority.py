"""Which of the collector's threads go first where all cores are busy: those that answer, then sealing, then upkeep.

What has been answered is safe, and may be sealed a little later; who waits for an answer keeps what it has in memory.
"""

import os
import sys
import threading
from contextlib import suppress

SEALING = 5
UPKEEP = 10


def let_others_go_first(nice: int) -> None:
    """Lower the precedence of the calling thread, for good; only Linux has one for each thread."""
    if sys.platform == "linux":
        with suppress(OSError):  # forbidden by a sandbox: then all are equal, as before
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), nice)
