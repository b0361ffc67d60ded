"""A solver in a process of its own: one question as JSON goes in, lines of JSON come out, the last of which counts.

Files, not pipes: neither side then waits for the other to read, and what was told before the end is not lost.
"""

import json
import subprocess
import sys
import tempfile
from time import monotonic
from typing import IO, Any

GRACE_SECONDS = 2.0  # a solver looks at its clock between steps; after that it is killed


class Child:
    """One question to one module, from the moment it is made."""

    def __init__(self, module: str, question: dict[str, object], seconds: float) -> None:
        self._until = monotonic() + seconds + GRACE_SECONDS
        self._question: IO[str] = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed with the answer)
        self._answer: IO[str] = tempfile.TemporaryFile("w+")  # noqa: SIM115
        json.dump(question, self._question)
        self._question.seek(0)
        self._process = subprocess.Popen(  # noqa: S603 (our own modules)
            [sys.executable, "-m", module], stdin=self._question, stdout=self._answer, stderr=subprocess.DEVNULL
        )

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
        self._answer.close()
        self._question.close()
