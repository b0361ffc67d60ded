"""Waiting for what another thread or process does: one bound, and a word for what did not come.

A test names what it waits for, and fails with that name where it never comes; no time that passes is an answer.
"""

import os
import select
import subprocess
import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
PATIENCE_SECONDS = 180.0  # a bound, never waited out: the machine is shared
# It looks again soon, and then more seldom: what takes seconds must not be kept from its processor by being asked.
FIRST_PAUSE_SECONDS, LAST_PAUSE_SECONDS, LONGER = 0.002, 0.1, 1.2


def until(
    true: Callable[[], T | None],
    what: str,
    seconds: float = PATIENCE_SECONDS,
    *,
    process: subprocess.Popen[Any] | None = None,
    more: Callable[[], object] | None = None,
) -> T:
    """Ask until the answer is true, and return that answer.

    Raises:
        AssertionError: it did not come, or `process`, which was to bring it, has ended; with what `more` says of it.
    """
    deadline, pause = time.monotonic() + seconds, FIRST_PAUSE_SECONDS
    while not (found := true()):
        ended = process is not None and process.poll() is not None
        late = time.monotonic() >= deadline
        if ended or late:
            why = f"the process ended with {process.returncode}" if ended and process else f"not within {seconds:g} s"
            raise AssertionError(f"{what}: {why}" + (f"\n{more()}" if more else ""))
        time.sleep(pause)
        pause = min(pause * LONGER, LAST_PAUSE_SECONDS)
    return found


def said_by_now(descriptor: int) -> bytes:
    """Return what a terminal or a pipe has said that was not read yet; empty where that is nothing."""
    return os.read(descriptor, 65536) if select.select([descriptor], [], [], 0)[0] else b""
