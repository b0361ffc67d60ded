"""One agent's eyes in a process of their own, since a driver library is chosen once in a process, and kept.

The process that is started here has the agent loaded and no library yet. It becomes a process for each host that is
asked for through its socket. That reads one JSON command a line, `{"seconds": 10}`: that much later, read; it answers
with one JSON line.
"""

import gc
import json
import os
import socket
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from agent.attribution.run import HostIdentity, attribute
from agent.errors import AgentError
from agent.files import StateFile
from agent.gpu.nvidia.source import NvmlSource, WaitingNvml, open_nvml
from agent.gpu.source import GpuHost
from agent.sources.processes import ProcessSource
from agent.sources.register import Register


class Clocks:
    """A clock for intervals and one for dates, moved by commands."""

    def __init__(self) -> None:
        self.seconds = 100.0
        self.wall = 1_000_000.0


def main(options: dict[str, Any]) -> None:
    """Open the driver and answer until the commands end."""
    clocks = Clocks()
    state_file = StateFile(Path(options["state"]))
    host = GpuHost(
        node="n14",
        proc=Path(options["proc"]),
        sys=Path(options["sysfs"]),
        expected_gpus=options["expected_gpus"],
        hang_seconds=options["hang_seconds"],
        process_seconds=options["process_seconds"],
        state_file=state_file,
        quiet=lambda: frozenset(Path(options["quiet"]).read_text().split()),
    )
    opened: list[NvmlSource] = []

    def made() -> NvmlSource:
        opened.append(NvmlSource(host, lambda: clocks.seconds, lambda: clocks.wall, pcie_pause_seconds=0.01))
        return opened[-1]

    try:
        source = WaitingNvml(lambda: open_nvml(made), lambda: clocks.seconds, options["opening_seconds"])
    except AgentError as error:
        answer({"error": type(error).__name__, "message": str(error)})
        return
    answer({"open": not source.no_gpu, "reason": source.no_gpu})
    run_of = partial(attribute, place=HostIdentity("n14"))
    register = Register(state_file=state_file)
    runs = ProcessSource(
        source.holding, run_of, lambda: round(clocks.wall * 1e6), register=register, state_file=state_file
    )
    for line in sys.stdin:
        command = json.loads(line)
        clocks.seconds, clocks.wall = clocks.seconds + command["seconds"], clocks.wall + command["wall"]
        try:
            reading = source.read()
        except AgentError as error:
            held = runs.read() if command["runs"] else {}
            counts = source.counts
            answer({"error": type(error).__name__, "message": str(error), "runs": held, "counts": counts})
            continue
        answer(
            {
                "reading": reading,
                "runs": runs.read() if command["runs"] else {},
                "processes": [asdict(process) for process in source.processes()],
                "lost": opened[-1].lost if opened else [],
                "counts": source.counts,
                "xids": source.xids(),
                "supported": [asdict(each) for each in source.supported()],
                "unreadable": source.unreadable(),
                "failures": opened[-1].failures if opened else {},
            }
        )
    source.close()
    state_file.close()


def answer(what: object) -> None:
    """Write one line."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def asked(through: socket.socket) -> dict[str, Any] | None:
    """Start a process for each host, and tell how one ended; return, in such a process, what it was asked for."""
    while True:
        assert len(list(Path("/proc/self/task").iterdir())) == 1, "with one thread no lock is held by another"
        said, descriptors, _, _ = socket.recv_fds(through, 65536, 2)
        if not said:
            return None
        asks = json.loads(said)
        if "ended" in asks:  # wait status, or null of one that runs
            pid, status = os.waitpid(asks["ended"], os.WNOHANG)
            through.send(json.dumps(status if pid else None).encode())
        elif pid := os.fork():
            for descriptor in descriptors:
                os.close(descriptor)
            through.send(json.dumps(pid).encode())
        else:
            through.close()
            for own, descriptor in enumerate(descriptors):  # its input and output
                os.dup2(descriptor, own)
                os.close(descriptor)
            os.environ.update(asks["environment"])
            return dict(asks["options"])


if __name__ == "__main__":
    gc.freeze()  # what is loaded is the same in every process: who looks through it copies each of its pages
    if (options := asked(socket.socket(fileno=int(sys.argv[1])))) is not None:
        main(options)
