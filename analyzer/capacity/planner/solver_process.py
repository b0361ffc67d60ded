"""A solver in a process of its own: one question as JSON goes in, lines of JSON come out, the last of which counts.

The answer goes to a file: neither side then waits for the other to read, and what was told before the end is not lost.
A process can be made before its question is known, and has its libraries loaded when it is asked.
"""

import json
import subprocess
import tempfile
from contextlib import suppress
from time import monotonic
from typing import IO, Any

from agent import child

_GRACE_SECONDS = 2.0  # a solver looks at its clock between steps; after that it is killed


class SolverProcess:
    """One module that reads all of its standard input first, from the moment it is made."""

    def __init__(self, module: str) -> None:
        self._until = monotonic()
        self._answer: IO[str] = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed with the answer)
        self._process = subprocess.Popen(  # noqa: S603 (our own modules)
            child.command(module),
            stdin=subprocess.PIPE,
            stdout=self._answer,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def ask(self, question: dict[str, object], seconds: float) -> "SolverProcess":
        """Hand over the one question; the process has so long to answer it."""
        self._until = monotonic() + seconds + _GRACE_SECONDS
        with suppress(BrokenPipeError), self._input() as pipe:  # one that has died has found nothing
            json.dump(question, pipe)
        return self

    def is_done(self, wait_seconds: float = 0.0) -> bool:
        """Whether the process has ended, by now or within so many seconds."""
        try:
            self._process.wait(wait_seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def answer(self) -> dict[str, Any] | None:
        """Wait for the end, until the time is over; return the last whole line, None where there is none."""
        try:
            self._process.wait(max(0.0, self._until - monotonic()))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._answer.seek(0)
        lines = [line for line in self._answer.read().split("\n")[:-1] if line]
        self.stop()
        if not lines:
            return None
        told: dict[str, Any] = json.loads(lines[-1])
        return told

    def stop(self) -> None:
        """End the process, if it is still there, and forget what it said."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        with suppress(BrokenPipeError):
            self._input().close()
        self._answer.close()

    def _input(self) -> IO[str]:
        if self._process.stdin is None:
            raise RuntimeError("BUG: the solver was started without a pipe")
        return self._process.stdin
