"""What the tests of this room share: a source that hears one run, and the sums of what it hears."""

import json
import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path

from agent.attribution.evidence import Process
from agent.attribution.run import Attribution
from agent.source import Row
from agent.sources.progress import HostRuns, ProgressSource
from tests.waiting import until

PROC = Path("/proc")


def own_run(process: Process) -> Attribution:
    """Return a run that is all of this user's processes."""
    return Attribution("slurm/alpha/7", "cgroup", owner=process.owner)


def each_alone(process: Process) -> Attribution:
    """Return a run of its own for every process, as where no scheduler is."""
    return Attribution(f"process/here/{process.pid}", "process", owner=process.owner)


def hearing(path: Path, run_of: Callable[[Process], Attribution] = own_run) -> ProgressSource:
    """Return a source that hears this path."""
    source = ProgressSource(path, HostRuns(PROC, run_of, tuple))
    source.open()
    return source


def say(path: Path, *messages: Mapping[str, object] | bytes) -> None:
    """Send messages from this very process."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ours:
        for message in messages:
            ours.sendto(message if isinstance(message, bytes) else json.dumps(message).encode(), str(path))


def summed(source: ProgressSource, done: Callable[[Mapping[str, float]], bool]) -> dict[str, float]:
    """Read until the sums of all rows say that it is done; return them, and the number of checkpoints."""
    totals: dict[str, float] = {}

    def more() -> bool:
        for row in rows(source):
            for name, value in row.items():
                if isinstance(value, int | float):
                    totals[name] = totals.get(name, 0) + value
            totals["checkpoints"] = totals.get("checkpoints", 0) + ("checkpoint" in row)
        return done(totals)

    until(more, "all is heard", more=lambda: totals)
    return totals


def rows(source: ProgressSource) -> list[Row]:
    """Return the rows of one reading."""
    return list(source.read()["progress"])


def us() -> tuple[int, int]:
    """Return our process and user."""
    return os.getpid(), os.getuid()
