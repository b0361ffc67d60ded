"""A GPU host to measure agents on: a fake driver of eight GPUs, two hundred processes, five hundred sockets."""

import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from tests.agent.gpu.fake.build import build, living
from tests.agent.gpu.fake.situations import shared_out

GPUS = 8
TREES = 8  # each a trainer that holds a GPU, and its workers
WORKERS = 24
CONNECTIONS = 250  # both ends are here, so twice as many sockets
PROCESSES = TREES * (WORKERS + 1)
TRAINER = f"for worker in $(seq {WORKERS}); do sleep 86400 & done; wait"


class Host:
    """The processes sleep and the connections rest: what is measured is who watches them."""

    def __init__(self, directory: Path) -> None:
        self._library = build(directory)
        self._scenario = living(directory / "scenario", GPUS)
        self._open: list[socket.socket] = []
        self._trees: list[subprocess.Popen[bytes]] = []

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment in which a process sees these GPUs."""
        fake = {"LD_LIBRARY_PATH": str(self._library), "GPULEDGER_FAKE_NVML": str(self._scenario.path)}
        return os.environ | fake

    def __enter__(self) -> "Host":
        for index in range(TREES):
            run = {"GPULEDGER_RUN_ID": f"bench-{index // 4}"}
            tree = subprocess.Popen(["sh", "-c", TRAINER], env=os.environ | run, start_new_session=True)
            self._trees.append(tree)
        shared_out(self._scenario, [tree.pid for tree in self._trees], GPUS)
        listener = socket.create_server(("127.0.0.1", 0), backlog=CONNECTIONS)
        for _ in range(CONNECTIONS):
            self._open.append(socket.create_connection(listener.getsockname()))
            self._open.append(listener.accept()[0])
        listener.close()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for tree in self._trees:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(tree.pid, signal.SIGKILL)
            tree.wait()
        for end in self._open:
            end.close()
