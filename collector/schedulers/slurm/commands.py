"""Run Slurm's commands: bounded in time and in what they may say, foreign failures renamed."""

import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from collector.errors import SchedulerError

# Variables by which a user changes what Slurm's commands print; the service's own environment must not.
_CHANGES_OUTPUT = ("SACCT_", "SINFO_", "SQUEUE_", "SCONTROL_", "SLURM_CLUSTERS", "SLURM_JSON", "SLURM_TIME_FORMAT")
_COMPLAINT_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Commands:
    """Where the commands are (None: on the PATH), how long each may take, and how much it may print."""

    directory: Path | None = None
    timeout_seconds: float = 60.0
    most_bytes: int = 256 * 2**20

    def output(self, name: str, *arguments: str) -> bytes:
        """Return what a command printed.

        Raises:
            SchedulerError: it is not there, failed, took too long, or printed too much.
        """
        path = str(self.directory / name) if self.directory else name
        with tempfile.TemporaryFile() as complaints:
            try:
                process = subprocess.Popen(  # noqa: S603  a fixed command, no shell
                    [path, *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=complaints,
                    env=_environment(os.environ, "--json" in arguments),
                    start_new_session=True,
                )
            except OSError as error:
                raise SchedulerError(f"{path} cannot be run: {error.strerror}; is Slurm's client installed?") from error
            return self._result(name, process, complaints)

    def _result(self, name: str, process: subprocess.Popen[bytes], complaints: IO[bytes]) -> bytes:
        late = threading.Event()

        def end() -> None:
            late.set()
            _kill(process)

        alarm = threading.Timer(self.timeout_seconds, end)
        alarm.start()
        with process:
            said = process.stdout.read(self.most_bytes + 1) if process.stdout else b""
            if len(said) > self.most_bytes:
                _kill(process)
            code = process.wait()
            alarm.cancel()
        if late.is_set():
            raise SchedulerError(f"{name} took longer than {self.timeout_seconds:g} s; is the scheduler well?")
        if len(said) > self.most_bytes:
            raise SchedulerError(f"{name} printed more than {self.most_bytes} bytes; raise collector.slurm_bytes")
        if code:
            raise SchedulerError(f"{name} failed with {code}: {_first_line(complaints)}")
        return said


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End the command and all that it started; it leads a session of its own."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)


def _environment(own: Mapping[str, str], is_json: bool) -> dict[str, str]:
    kept = {name: value for name, value in own.items() if not name.startswith(_CHANGES_OUTPUT)} | {"LC_ALL": "C"}
    # Times in seconds of the epoch, whatever the zone; JSON has them anyhow, and sacct 22.05 would trip over it there.
    return kept if is_json else kept | {"SLURM_TIME_FORMAT": "%s"}


def _first_line(complaints: IO[bytes]) -> str:
    complaints.seek(0)
    lines = complaints.read(_COMPLAINT_BYTES).decode("utf-8", "replace").strip().splitlines()
    return lines[0] if lines else "it said nothing"
