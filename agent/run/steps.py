"""Count a command's steps in what it prints, passing every byte on: `gpuledger run --steps-from RE`.

The command then writes to a pipe instead of our own stdout and stderr, which is why this is asked for and not usual.
"""

import os
import re
import threading

from agent.errors import ConfigError
from agent.source import Reading

_CHUNK_BYTES = 65536
_MAX_LINE_BYTES = 65536  # a longer line is searched in parts
_STREAMS = (1, 2)  # stdout and stderr: progress bars use either


def step_pattern(given: str) -> re.Pattern[bytes]:
    """Return the pattern that marks a step: each match is one, or says its number in the first group.

    Raises:
        ConfigError: it is no regular expression, or an empty one.
    """
    try:
        pattern = re.compile(given.encode())
    except re.error as error:
        raise ConfigError(f"--steps-from {given!r} is no regular expression: {error}") from error
    if pattern.match(b""):
        raise ConfigError(f"--steps-from {given!r} matches nothing at all; say what a step's line has in it")
    return pattern


class StepCounter:
    """Copies two streams and counts steps in them; a source of `progress` for the run."""

    name = "progress"
    period_seconds = 0.0

    def __init__(self, run_id: str, pattern: re.Pattern[bytes]) -> None:
        self._run_id = run_id
        self._pattern = pattern
        self._lock = threading.Lock()
        self._steps = 0
        self._highest: int | None = None
        self._told: int | None = None
        self._ends: dict[int, int] = {}
        self._threads: list[threading.Thread] = []

    def open(self) -> dict[int, int]:
        """Make the pipes; return which of the command's streams is which of our descriptors."""
        for stream in _STREAMS:
            reading, self._ends[stream] = os.pipe()
            copier = threading.Thread(target=self._copy, args=(reading, stream), name=f"copy {stream}", daemon=True)
            self._threads.append(copier)
        return dict(self._ends)

    def begin(self) -> None:
        """Copy, once the command has its ends of the pipes."""
        for end in self._ends.values():
            os.close(end)
        for copier in self._threads:
            copier.start()

    def finish(self, timeout_seconds: float) -> None:
        """Wait for the last bytes. A process that the command left behind may hold the pipes for longer."""
        for copier in self._threads:
            copier.join(timeout_seconds)

    def read(self) -> Reading:
        """Return the steps since the last reading."""
        with self._lock:
            steps, told, self._told = self._steps, self._told, self._steps
        return {"progress": [{"run_id": self._run_id, "steps": None if told is None else steps - told}]}

    def _copy(self, reading: int, stream: int) -> None:
        line = b""
        while (chunk := os.read(reading, _CHUNK_BYTES)) and _write(stream, chunk):
            *whole, line = re.split(rb"[\r\n]", line + chunk)
            self._count(whole)
            if len(line) > _MAX_LINE_BYTES:
                self._count([line])
                line = b""
        self._count([line])
        os.close(reading)

    def _count(self, lines: list[bytes]) -> None:
        with self._lock:
            for match in filter(None, map(self._pattern.search, lines)):
                self._steps += self._advance(match)

    def _advance(self, match: re.Match[bytes]) -> int:
        """Return how far a line takes the run: one step, or up to the number that it names.

        Counting begins with the first number, since a run may go on from a checkpoint. A smaller one takes nothing
        back.
        """
        if not match.re.groups or not (match[1] or b"").isdigit():
            return 1
        number = int(match[1][:18])
        before, self._highest = self._highest, number
        return 0 if before is None else max(0, number - before)


def _write(stream: int, chunk: bytes) -> bool:
    """Write it all; return whether somebody reads. Where nobody does, the command's pipe is closed, as ours is."""
    while chunk:
        try:
            chunk = chunk[os.write(stream, chunk) :]
        except BrokenPipeError:
            return False
    return True
