"""One agent's eyes in a process of their own, since the driver library is chosen when a process starts.

Reads one JSON command a line, `{"seconds": 10, "wall": 1000}`: that much later, read; answers with one JSON line.
"""

import json
import sys
from dataclasses import asdict
from pathlib import Path

from agent.errors import AgentError
from agent.nvml import open_nvml


class Clocks:
    """A clock for intervals and one for dates, moved by commands."""

    def __init__(self) -> None:
        self.seconds = 100.0
        self.wall = 1_000_000.0


def main(sysfs: Path) -> None:
    """Open the driver and answer until the commands end."""
    clocks = Clocks()
    try:
        source, reason = open_nvml(sysfs, lambda: clocks.seconds, lambda: clocks.wall, pcie_pause_seconds=0.01)
    except AgentError as error:
        answer({"error": type(error).__name__, "message": str(error)})
        return
    answer({"open": source is not None, "reason": reason})
    if source is None:
        return
    for line in sys.stdin:
        moved = json.loads(line)["seconds"]
        clocks.seconds, clocks.wall = clocks.seconds + moved, clocks.wall + moved
        try:
            reading = source.read()
        except AgentError as error:
            answer({"error": type(error).__name__, "message": str(error)})
            continue
        held = [asdict(process) for process in source.processes()]
        answer({"reading": reading, "processes": held, "lost": source.lost, "failures": source.failures})
    source.close()


def answer(what: object) -> None:
    """Write one line."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
