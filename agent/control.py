"""Let a host or some GPUs be for a while: an operator pauses the agent, a run asks for silence on its GPUs."""

import contextlib
import json
import logging
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.errors import ConfigError
from agent.quantity import duration
from agent.wire.bounded import json_said
from agent.wire.units import DAY_SECONDS, HOUR_SECONDS, WEEK_SECONDS

_NOTE_BYTES_MAX = 4096


@dataclass(frozen=True, slots=True)
class Note:
    """What a note says, and its file's owner and mode."""

    said: Mapping[str, Any]
    uid: int
    mode: int


def read_note(path: Path) -> Note | None:
    """Return a note, or None where there is none that can be understood.

    A pipe is not waited for, since the beat would wait with it, and a link is not followed: it would lend its target's
    owner to whoever made it.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(handle, "rb") as file:
            about, text = os.fstat(file.fileno()), file.read(_NOTE_BYTES_MAX)
        said = json_said(text)
    except (OSError, ValueError, TypeError):  # TypeError: an empty pipe says nothing at all
        return None
    return Note(said, about.st_uid, about.st_mode) if isinstance(said, dict) else None


_LOG = logging.getLogger(__name__)
PAUSE_FILE = "pause"
PAUSE_SECONDS_MAX = float(WEEK_SECONDS)  # a pause that is forgotten must end by itself


# Let a host be for a while: an operator pauses the whole agent, with a file that says until when.
#
# Paused is not blind by accident: the agent goes on telling about itself that it is paused, and the ledger books the
# time as not measured. A file that anybody but root or the agent's own user wrote says nothing.
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
    if not 0 < for_seconds <= PAUSE_SECONDS_MAX:
        raise ConfigError(
            f"a pause can last up to {PAUSE_SECONDS_MAX / DAY_SECONDS:g} days; to stop for longer, stop the service"
        )
    pause = Pausing(now() + for_seconds, why)
    path, fresh = directory / PAUSE_FILE, directory / f".{PAUSE_FILE}.{os.getpid()}"
    try:
        fresh.write_text(json.dumps({"until": pause.until, "why": pause.why}))
        fresh.chmod(0o644)
        fresh.replace(path)
    except OSError as error:
        raise ConfigError(
            f"cannot write {path} ({error.strerror}); run this as root or the agent's user, on the agent's host"
        ) from error
    return pause


def end_pause(directory: Path) -> bool:
    """End a pause, and return whether there was one.

    Raises:
        ConfigError: this user may not.
    """
    try:
        (directory / PAUSE_FILE).unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise ConfigError(
            f"cannot remove {directory / PAUSE_FILE} ({error.strerror}); run this as root or the agent's user"
        ) from error
    return True


def read_pause(directory: Path, now: Callable[[], float] = time.time) -> Pausing | None:
    """Return the pause that is under way, or None; what cannot be understood or may not say so is no pause."""
    note = read_note(directory / PAUSE_FILE)
    if note is None or note.uid not in (0, os.geteuid()) or note.mode & (stat.S_IWOTH | stat.S_IWGRP):
        return None
    try:
        pause = Pausing(float(note.said["until"]), str(note.said.get("why", "")))
    except (ValueError, KeyError, TypeError, OverflowError):
        return None
    return pause if now() < pause.until <= now() + PAUSE_SECONDS_MAX else None


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
                _LOG.warning("the pause is over: reading this host again")
        return self.paused


QUIET_DIRECTORY = "quiet"
_QUIET_MODE = 0o1777  # anybody may ask, and nobody may take away another's file
QUIET_SECONDS_MAX = float(DAY_SECONDS)
QUIET_FILES_MAX = 64
# Runs that ask to be left alone: a benchmark's GPUs are not questioned while its file in the quiet directory says so.
#
# A file is {"until": seconds since 1970, "gpus": ["GPU-…", "0", …]} and counts for the GPUs that its owner holds, by a
# process of the same user; root's and the agent's own count for any. The time is booked as not measured: who asks for
# silence is still seen to hold.
_LOOK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Wish:
    """Whose wish it is, until when (seconds since 1970), and for which GPUs, by UUID or index."""

    uid: int
    until: float
    gpus: frozenset[str]


def make_directory(control: Path) -> None:
    """Make the directory in which runs ask, where the agent may; without it nobody can."""
    directory = control / QUIET_DIRECTORY
    try:
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(_QUIET_MODE)
    except OSError as error:
        _LOG.info("quiet requests are unavailable: cannot create %s (%s)", directory, error.strerror)


def write_wish(control: Path, for_seconds: float, gpus: Set[str], now: Callable[[], float] = time.time) -> Path:
    """Ask that these GPUs be left alone for so long, and return the file; remove it to end that sooner.

    Raises:
        ConfigError: it is too long, no GPU is named, or this host's agent offers no place to ask.
    """
    if not 0 < for_seconds <= QUIET_SECONDS_MAX:
        raise ConfigError(f"a GPU can be quiet for up to {QUIET_SECONDS_MAX / HOUR_SECONDS:g} hours")
    if not gpus:
        raise ConfigError("no GPU given: use --gpu, or set CUDA_VISIBLE_DEVICES to the GPUs of the benchmark")
    path = control / QUIET_DIRECTORY / f"{os.geteuid()}-{os.getpid()}"
    try:
        path.write_text(json.dumps({"until": now() + for_seconds, "gpus": sorted(gpus)}))
        path.chmod(0o644)  # for the agent's user to read
    except OSError as error:
        raise ConfigError(
            f"cannot write to {path.parent} ({error.strerror}); is the agent running on this host?"
        ) from error
    return path


def gpu_users(proc: Path, holders: Iterable[tuple[str, int]]) -> Mapping[str, Set[int]]:
    """Return the users (uids) of these (GPU, pid) pairs, by GPU; a process that ended has none."""
    found: dict[str, set[int]] = {}
    for gpu, pid in holders:
        with contextlib.suppress(OSError):
            found.setdefault(gpu, set()).add((proc / str(pid)).stat().st_uid)
    return found


class Quiet:
    """Says which GPUs are to be left alone. `left_out` counts files beyond the first 64 of the last look.

    `holders` returns the users (uids) of the processes on each GPU, by UUID; `indices` the UUID of each index. A wish
    that counted once goes on counting until it ends, since a GPU that is left alone shows no processes. One that does
    not count is logged once for each user; one that is over is removed, or 64 of them would leave no room for the next.
    """

    def __init__(
        self,
        control: Path | None,
        holders: Callable[[], Mapping[str, Set[int]]],
        indices: Callable[[], Mapping[str, str]],
        now: Callable[[], float] = time.time,
    ) -> None:
        self.left_out = 0
        self._directory = control / QUIET_DIRECTORY if control is not None else None
        self._holders = holders
        self._indices = indices
        self._now = now
        self._looked = -_LOOK_SECONDS
        self._granted: dict[str, frozenset[str]] = {}  # by file
        self._passed_over: set[int] = set()  # users

    def gpus(self) -> frozenset[str]:
        """Return the UUIDs of the GPUs that nobody is to question now."""
        if self._directory is not None and not 0 <= self._now() - self._looked < _LOOK_SECONDS:
            self._looked = self._now()
            self._look(self._directory)
        return frozenset().union(*self._granted.values())

    def _look(self, directory: Path) -> None:
        wishes = dict(self._wishes(directory))
        granted = {name: gpus for name, wish in wishes.items() if (gpus := self._allowed(name, wish))}
        for name in granted.keys() - self._granted.keys():
            _LOG.warning("not reading, as %r requests: %s", name, ", ".join(sorted(granted[name])))
        for name in self._granted.keys() - granted.keys():
            _LOG.warning("reading again: %s", ", ".join(sorted(self._granted[name])))
        self._granted = granted
        self._pass_over({wish.uid: name for name, wish in wishes.items() if name not in granted})

    def _pass_over(self, asking: Mapping[int, str]) -> None:
        for uid in asking.keys() - self._passed_over:
            _LOG.warning("quiet request %r ignored: no such GPU, or no process of user %d on it", asking[uid], uid)
        self._passed_over |= asking.keys()

    def _allowed(self, name: str, wish: Wish) -> frozenset[str]:
        if name in self._granted:
            return self._granted[name]
        indices = self._indices()
        named = frozenset(indices.get(gpu, gpu) for gpu in wish.gpus)
        if wish.uid in (0, os.geteuid()):
            return named & frozenset(indices.values())
        holders = self._holders()
        return frozenset(gpu for gpu in named if wish.uid in holders.get(gpu, ()))

    def _wishes(self, directory: Path) -> Iterator[tuple[str, Wish]]:
        try:
            names = sorted(entry.name for entry in os.scandir(directory) if entry.is_file(follow_symlinks=False))
        except OSError:
            return
        self.left_out = max(0, len(names) - QUIET_FILES_MAX)
        for name in names[:QUIET_FILES_MAX]:
            wish = read_wish(directory / name)
            if wish is not None and wish.until <= self._now():
                with contextlib.suppress(OSError):
                    (directory / name).unlink()
            elif wish is not None and wish.until <= self._now() + QUIET_SECONDS_MAX:
                yield name, wish


def read_wish(path: Path) -> Wish | None:
    """Return what a file asks for, or None where it cannot be understood."""
    note = read_note(path)
    if note is None:
        return None
    try:
        return Wish(note.uid, float(note.said["until"]), frozenset(str(gpu) for gpu in note.said["gpus"]))
    except (ValueError, KeyError, TypeError, OverflowError):
        return None
