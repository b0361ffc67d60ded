"""The examination of a host whose driver is ours, by the real command line."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.agent.gpu.fake.build import build, compiler, living
from tests.agent.gpu.fake.situations import lost

ROOT = Path(__file__).parents[2]


def examined(directory: Path, scenario: Path, library: Path, *flags: str) -> tuple[int, dict[str, Any]]:
    """Run the command and return its exit code and what it says."""
    (directory / "gpuledger.toml").write_text('[agent]\nnode = "n14"\nrack = "r7"\n')
    line = [sys.executable, "-m", "gpuledger", "agent", "doctor", "--json", *flags]
    environment = os.environ | {"LD_LIBRARY_PATH": str(library), "GPULEDGER_FAKE_NVML": str(scenario)}
    ran = subprocess.run(
        [*line, "--config", str(directory / "gpuledger.toml")],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return ran.returncode, json.loads(ran.stdout)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the fake driver."""
    if compiler() is None:
        pytest.skip("no C compiler: the fake NVIDIA driver cannot be built")
    return build(tmp_path_factory.mktemp("library"))


def test_a_healthy_host_says_what_it_has(tmp_path: Path, library: Path) -> None:
    """GPUs, driver, rack: three sources tell of the same table, and none may hide another."""
    code, found = examined(tmp_path, living(tmp_path / "scenario", 2).path, library)
    assert code == 0
    assert (found["node"], found["gpus"], found["driver"]) == ("n14", "2 x H100-80GB", "570.86.10")
    said = [(line["answer"], line["what"]) for line in found["measures"]]
    assert ("yes", "SM, tensor and DRAM activity (GPM)") in said
    assert ("yes", "rack r7 (from settings)") in said
    assert found["cost"]["core_ratio"] > 0


def test_a_lost_gpu_makes_it_fail(tmp_path: Path, library: Path) -> None:
    """The exit code is what a fleet's checks look at."""
    code, found = examined(tmp_path, lost(tmp_path / "scenario", 3).path, library)
    assert code == 1
    assert not found["healthy"]
    assert [line["what"] for line in found["measures"] if line["answer"] == "bad"] == [
        "1 of 8 GPUs are not responding",
        "n14/slot3 is lost",
    ]
