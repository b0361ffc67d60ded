"""A host whose NVIDIA driver is ours: the unmodified binding over tests/nvml/fake, in a process of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.nvml.fake.build import Scenario, build, compiler, healthy

ROOT = Path(__file__).parents[2]


@dataclass
class Host:
    """A scenario, and the agent's eyes on it. Writing the scenario changes what the next `read` sees."""

    library: Path
    scenario: Scenario
    directory: Path
    sysfs: Path
    opened: dict[str, Any] = field(default_factory=dict)
    _child: subprocess.Popen[str] | None = None

    def read(self, seconds: float = 10) -> dict[str, Any]:
        """Let seconds pass and read; the first call starts the process."""
        child = self._child or self.start()
        assert child.stdin is not None
        child.stdin.write(json.dumps({"seconds": seconds}) + "\n")
        child.stdin.flush()
        return self._answer(child)

    def rows(self, seconds: float = 10) -> list[dict[str, Any]]:
        """Read, and return the rows of gpu_samples."""
        rows: list[dict[str, Any]] = self.read(seconds)["reading"]["gpu_samples"]
        return rows

    def start(self) -> subprocess.Popen[str]:
        """Start the process; `opened` says what opening the driver gave."""
        environment = {
            **os.environ,
            "LD_LIBRARY_PATH": str(self.library),
            "GPULEDGER_FAKE_NVML": str(self.scenario.path),
            "GPULEDGER_FAKE_NVML_CALLS": str(self.directory / "calls"),
            "PYTHONPATH": str(ROOT),
        }
        command = [sys.executable, str(Path(__file__).with_name("child.py")), str(self.sysfs)]
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._child = subprocess.Popen(command, env=environment, **pipes)
        self.opened = self._answer(self._child)
        return self._child

    def calls(self, function: str) -> int:
        """Return how often the binding called a function of the driver so far."""
        lines = (self.directory / "calls").read_text().splitlines()
        return sum(line.split()[0] == function for line in lines)

    def close(self) -> None:
        """End the process; that it ends well is part of every test."""
        if self._child is not None:
            self._child.communicate(timeout=20)
            assert self._child.returncode == 0

    def _answer(self, child: subprocess.Popen[str]) -> dict[str, Any]:
        assert child.stdout is not None
        line = child.stdout.readline()
        assert line, "the process with the fake driver ended without an answer"
        answer: dict[str, Any] = json.loads(line)
        return answer


@pytest.fixture(scope="session")
def fake_nvml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the fake library, compiled once; for LD_LIBRARY_PATH."""
    if compiler() is None:
        pytest.skip("no C compiler: the fake NVIDIA driver cannot be built")
    return build(tmp_path_factory.mktemp("library"))


@pytest.fixture
def host(fake_nvml: Path, tmp_path: Path) -> Generator[Host, None, None]:
    """A host of two healthy H100s; tests change it before the first reading or between two."""
    host = Host(fake_nvml, healthy(tmp_path / "scenario", gpus=2), tmp_path, tmp_path / "sys")
    yield host
    host.close()
