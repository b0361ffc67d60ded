"""Let a host be for a while: an operator pauses the whole agent, with a file that says until when.

Paused is not blind by accident: the agent goes on telling about itself that it is paused, and the ledger books the
time as not measured. A file that anybody but root or the agent's own user wrote says nothing.
"""

import json
import logging
import os
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agent.control.note import read_note
from agent.errors import ConfigError
from agent.quantity import duration

_LOG = logging.getLogger(__name__)
NAME = "pause"
MOST_SECONDS = 7 * 86_400.0  # a pause that is forgotten must end by itself


@dataclass(frozen=True, slots=True)
class Pausing:
    """Until when, in seconds since 1970, and why, in the operator's words."""

    until: float
    why: str = ""


def write_pause(directory: Path, for_seconds: float, why: str, now: Callable[[], float] = time.time) -> Pausing:
    """Pause the agent of this host for so long, from now on; in place of a pause that is under way.

    Raises:
        ConfigError: it is too long, or the agent's directory cannot be written by this user.
    """
    if not 0 < for_seconds <= MOST_SECONDS:
        raise ConfigError(f"a pause lasts at most {MOST_SECONDS / 86_400:g} days; stop the service for longer")
    pause = Pausing(now() + for_seconds, why)
    fresh = directory / f".{NAME}.{os.getpid()}"
    try:
        fresh.write_text(json.dumps({"until": pause.until, "why": pause.why}))
        fresh.chmod(0o644)
        fresh.replace(directory / NAME)
    except OSError as error:
        raise ConfigError(
            f"cannot write {directory / NAME} ({error.strerror}); be root or the agent's user, on the agent's host"
        ) from error
    return pause


def end_pause(directory: Path) -> bool:
    """End a pause, and return whether there was one.

    Raises:
        ConfigError: this user may not.
    """
    try:
        (directory / NAME).unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise ConfigError(
            f"cannot remove {directory / NAME} ({error.strerror}); be root or the agent's user"
        ) from error
    return True


def read_pause(directory: Path, now: Callable[[], float] = time.time) -> Pausing | None:
    """Return the pause that is under way, or None; what cannot be understood or may not say so is no pause."""
    note = read_note(directory / NAME)
    if note is None or note.uid not in (0, os.geteuid()) or note.mode & (stat.S_IWOTH | stat.S_IWGRP):
        return None
    try:
        pause = Pausing(float(note.said["until"]), str(note.said.get("why", "")))
    except (ValueError, KeyError, TypeError, OverflowError):
        return None
    return pause if now() < pause.until <= now() + MOST_SECONDS else None


class PauseWatch:
    """Looks at the file at every beat, and logs when a pause begins and when it ends."""

    def __init__(self, directory: Path | None, now: Callable[[], float] = time.time) -> None:
        self._directory = directory
        self._now = now
        self.paused = False

    def look(self) -> bool:
        """Return whether the agent is to let the host be."""
        pause = read_pause(self._directory, self._now) if self._directory is not None else None
        if (pause is not None) != self.paused:
            self.paused = pause is not None
            if pause is not None:
                length, why = duration(pause.until - self._now()), f" ({pause.why})" if pause.why else ""
                _LOG.warning("paused for %s%s: nothing is read", length, why)
            else:
                _LOG.warning("the pause is over: this host is read again")
        return self.paused
