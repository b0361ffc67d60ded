"""Runs that ask to be left alone: a benchmark's GPUs are not questioned while its file in the quiet directory says so.

A file is {"until": seconds since 1970, "gpus": ["GPU-…", "0", …]} and counts for the GPUs that its owner holds, by a
process of the same user; root's and the agent's own count for any. The time is booked as not measured: who asks for
silence is still seen to hold.
"""

import contextlib
import json
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path

from agent.control.note import read_note
from agent.errors import ConfigError

_LOG = logging.getLogger(__name__)
DIRECTORY = "quiet"
_MODE = 0o1777  # anybody may ask, and nobody may take away another's file
MOST_SECONDS = 86_400.0
MOST_FILES = 64
_LOOK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Wish:
    """Whose wish it is, until when (seconds since 1970), and for which GPUs, by UUID or index."""

    uid: int
    until: float
    gpus: frozenset[str]


def make_directory(control: Path) -> None:
    """Make the directory in which runs ask, where the agent may; without it nobody can."""
    directory = control / DIRECTORY
    try:
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(_MODE)
    except OSError as error:
        _LOG.info("no run can ask to be left alone: %s cannot be made (%s)", directory, error.strerror)


def write_wish(control: Path, for_seconds: float, gpus: Set[str], now: Callable[[], float] = time.time) -> Path:
    """Ask that these GPUs be left alone for so long, and return the file; remove it to end that sooner.

    Raises:
        ConfigError: it is too long, no GPU is named, or this host's agent offers no place to ask.
    """
    if not 0 < for_seconds <= MOST_SECONDS:
        raise ConfigError(f"a GPU is left alone for at most {MOST_SECONDS / 3600:g} hours")
    if not gpus:
        raise ConfigError("no GPU is named: use --gpu, or set CUDA_VISIBLE_DEVICES to the GPUs of the benchmark")
    path = control / DIRECTORY / f"{os.geteuid()}-{os.getpid()}"
    try:
        path.write_text(json.dumps({"until": now() + for_seconds, "gpus": sorted(gpus)}))
        path.chmod(0o644)  # for the agent's user to read
    except OSError as error:
        raise ConfigError(
            f"cannot ask in {path.parent} ({error.strerror}); is the agent running on this host?"
        ) from error
    return path


def users(proc: Path, holders: Iterable[tuple[str, int]]) -> Mapping[str, Set[int]]:
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
        self._directory = control / DIRECTORY if control is not None else None
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
            _LOG.warning("left alone, as %r asks: %s", name, ", ".join(sorted(granted[name])))
        for name in self._granted.keys() - granted.keys():
            _LOG.warning("read again: %s", ", ".join(sorted(self._granted[name])))
        self._granted = granted
        self._pass_over({wish.uid: name for name, wish in wishes.items() if name not in granted})

    def _pass_over(self, asking: Mapping[int, str]) -> None:
        for uid in asking.keys() - self._passed_over:
            _LOG.warning(
                "not left alone, though %r asks: no such GPU, or no process of user %d on it", asking[uid], uid
            )
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
        self.left_out = max(0, len(names) - MOST_FILES)
        for name in names[:MOST_FILES]:
            wish = read_wish(directory / name)
            if wish is not None and wish.until <= self._now():
                with contextlib.suppress(OSError):
                    (directory / name).unlink()
            elif wish is not None and wish.until <= self._now() + MOST_SECONDS:
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
