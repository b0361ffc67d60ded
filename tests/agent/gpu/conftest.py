"""A host whose NVIDIA driver is ours: the unmodified binding over tests/agent/gpu/fake, in a process of its own."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import pytest

from tests.agent.gpu.fake.build import Scenario, healthy
from tests.waiting import PATIENCE_SECONDS, until

ROOT = Path(__file__).parents[3]


class Starter:
    """A process that has the agent loaded, with a driver's library to come; it becomes a process for each host.

    What a library's folder is called is read when a process starts, and all else afterwards.
    """

    def __init__(self, library: Path) -> None:
        self._asking, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("child.py")), str(theirs.fileno())],
            env=os.environ | {"LD_LIBRARY_PATH": str(library), "PYTHONPATH": str(ROOT)},
            pass_fds=[theirs.fileno()],
        )
        theirs.close()

    def start(self, options: dict[str, Any], environment: dict[str, str]) -> "Eyes":
        """Start a process for a host."""
        (read, asks), (answers, write) = os.pipe(), os.pipe()
        said = json.dumps({"options": options, "environment": environment}).encode()
        socket.send_fds(self._asking, [said], [read, write])
        for descriptor in (read, write):
            os.close(descriptor)
        return Eyes(self, int(self._answer()), os.fdopen(asks, "w"), os.fdopen(answers))

    def ended(self, pid: int) -> int | None:
        """Return the wait status of a process that has ended, None of one that runs."""
        self._asking.send(json.dumps({"ended": pid}).encode())
        status: int | None = json.loads(self._answer())
        return status

    def close(self) -> None:
        """End it."""
        self._asking.close()
        assert self._process.wait(PATIENCE_SECONDS) == 0

    def _answer(self) -> bytes:
        said = self._asking.recv(65536)
        assert said, "the process that starts those with the fake driver has ended"
        return said


@dataclass(frozen=True)
class Eyes:
    """The process that looks at one host."""

    starter: Starter
    pid: int
    asks: IO[str]
    answers: IO[str]

    def end(self) -> int:
        """Ask no more, and return the exit code."""
        self.asks.close()
        statuses: list[int] = []

        def has_ended() -> bool:
            status = self.starter.ended(self.pid)
            statuses.extend([] if status is None else [status])
            return status is not None

        until(has_ended, "the process with the fake driver ends")
        self.answers.close()
        return os.waitstatus_to_exitcode(statuses[0])


@dataclass
class Host:
    """A scenario, and the agent's eyes on it. Writing the scenario changes what the next `read` sees."""

    starter: Starter
    library: Path
    scenario: Scenario
    directory: Path
    sysfs: Path
    expected_gpus: int = 0
    process_seconds: float = 0.0
    hang_seconds: float = 20.0  # these tests share their cores: only where a call hangs may anybody be in a hurry
    opening_seconds: float = 20.0
    opened: dict[str, Any] = field(default_factory=dict)
    _child: Eyes | None = None

    @property
    def proc(self) -> Path:
        """The procfs of this host, empty until a test puts something there."""
        return self.directory / "proc"

    @property
    def quiet(self) -> Path:
        """The file of the GPUs that ask to be left alone."""
        return self.directory / "quiet"

    def leave_alone(self, *uuids: str) -> None:
        """Let these GPUs ask to be left alone from the next reading on, and no others."""
        self.quiet.write_text("\n".join(uuids))

    def read(self, seconds: float = 10, wall: float | None = None, *, runs: bool = False) -> dict[str, Any]:
        """Let seconds pass and read; the first call starts the process. `wall` is for dates, where it differs.

        `runs` is whether this machine's own processes are read too, for who holds what.
        """
        child = self._child or self.start()
        asked = {"seconds": seconds, "wall": seconds if wall is None else wall, "runs": runs}
        child.asks.write(json.dumps(asked) + "\n")
        child.asks.flush()
        return self._answer(child)

    def rows(self, seconds: float = 10) -> list[dict[str, Any]]:
        """Read, and return the rows of gpu_samples."""
        rows: list[dict[str, Any]] = self.read(seconds)["reading"]["gpu_samples"]
        return rows

    def edges(self, seconds: float = 10) -> list[tuple[str, bool]]:
        """Read, and return the edges of what is held: the GPU, and whether it was taken (True) or given back."""
        rows = self.read(seconds, runs=True)["runs"].get("allocations", [])
        return [(row["gpu_uuid"], row["ended_at"] is None) for row in rows]

    def start(self) -> Eyes:
        """Start the process; `opened` says what opening the driver gave."""
        environment = {
            "GPULEDGER_FAKE_NVML": str(self.scenario.path),
            "GPULEDGER_FAKE_NVML_CALLS": str(self.directory / "calls"),
        }
        options = {
            "sysfs": str(self.sysfs),
            "proc": str(self.proc),
            "state": str(self.directory / "state.json"),
            "expected_gpus": self.expected_gpus,
            "hang_seconds": self.hang_seconds,
            "opening_seconds": self.opening_seconds,
            "process_seconds": self.process_seconds,
            "quiet": str(self.quiet),
        }
        self.leave_alone()
        self._child = self.starter.start(options, environment)
        self.opened = self._answer(self._child)
        return self._child

    def calls(self, function: str) -> int:
        """Return how often the binding called a function of the driver so far."""
        lines = (self.directory / "calls").read_text().splitlines()
        return sum(line.split()[0] == function for line in lines)

    def supported(self, subject: str, index: int = 0) -> str:
        """Read, and return the reason why a GPU does not tell of a subject; empty where it does."""
        found = [each for each in self.read()["supported"] if each["subject"] == subject]
        assert found[index]["ok"] is (found[index]["reason"] == "")
        return str(found[index]["reason"])

    def close(self) -> None:
        """End the process, as for a restart; that it ends well is part of every test."""
        if self._child is not None:
            child, self._child = self._child, None
            assert child.end() == 0

    def _answer(self, child: Eyes) -> dict[str, Any]:
        line = child.answers.readline()
        assert line, "the process with the fake driver ended without an answer"
        answer: dict[str, Any] = json.loads(line)
        return answer


@pytest.fixture(scope="session")
def starter(library: Path) -> Generator[Starter, None, None]:
    """What starts the process of each host."""
    starter = Starter(library)
    yield starter
    starter.close()


@pytest.fixture
def host(starter: Starter, library: Path, tmp_path: Path) -> Generator[Host, None, None]:
    """A host of two healthy H100s; tests change it before the first reading or between two."""
    host = Host(starter, library, healthy(tmp_path / "scenario", gpus=2), tmp_path, tmp_path / "sys")
    yield host
    host.close()
