"""The examination of a host whose driver is ours, by the real command line."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.agent.gpu.fake.build import MIB, living
from tests.agent.gpu.fake.situations import lost

ROOT = Path(__file__).parents[2]


def examined(
    directory: Path, scenario: Path, library: Path, *flags: str, **settings: str
) -> tuple[int, dict[str, Any]]:
    """Run the command and return its exit code and what it says, on a host without cgroups of jobs.

    This machine's are those of the Slurm of other tests, whose jobs have GPU numbers of their own.
    """
    (directory / "sys").mkdir(exist_ok=True)
    settings = {"node": "n14", "rack": "r7", "sys": str(directory / "sys"), **settings}
    lines = [f'{name} = "{value}"\n' for name, value in settings.items()]
    (directory / "gpuledger.toml").write_text("[agent]\n" + "".join(lines))
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
        "1 of 8 GPUs not responding",
        "n14/slot3 is lost",
    ]


def test_holders_that_procfs_does_not_show_are_told(tmp_path: Path, library: Path) -> None:
    """With hidepid, or in another PID namespace, nobody is found (NVIDIA/nvidia-docker#645): that is no "yes"."""
    init = tmp_path / "proc/1"
    init.mkdir(parents=True)
    (init / "stat").write_text("1 (init) S 0 " + " ".join(["0"] * 40))
    scenario = living(tmp_path / "scenario", 2).every(processes=None)
    scenario.gpu(0, processes=f"48213:{512 * MIB},48214:{512 * MIB}")
    _, found = examined(tmp_path, scenario.path, library, proc=str(tmp_path / "proc"))
    told = [line["answer"] for line in found["measures"] if "2 holders of GPUs are not visible" in line["what"]]
    assert told == ["some"]
    assert not any("CPU use of loader workers" in line["what"] for line in found["measures"])


def test_a_reading_names_what_could_not_be_read(tmp_path: Path, library: Path) -> None:
    """A name that is no text was silent: no GPU, and nothing that failed."""
    scenario = living(tmp_path / "scenario", 2).gpu(1, name=b"\xf8\x95".decode(errors="surrogateescape"))
    (tmp_path / "gpuledger.toml").write_text('[agent]\nnode = "n14"\n')
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "gpuledger", "agent", "--once", "--json", "--every", "1s"),
            "--config",
            "gpuledger.toml",
        ],
        cwd=tmp_path,
        env=os.environ
        | {"LD_LIBRARY_PATH": str(library), "GPULEDGER_FAKE_NVML": str(scenario.path), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    found = json.loads(ran.stdout)
    assert [row["up"] for row in found["tables"]["gpu_samples"]] == [True, True]
    (name,) = [name for name in found["failing"] if "nvmlDeviceGetName" in name]
    assert name.startswith("GPU-00000001")


def test_numbers_that_name_no_gpu_are_told(tmp_path: Path, library: Path) -> None:
    """A prolog that writes numbers where the driver's index and the device file are different GPUs names nobody's."""
    (tmp_path / "map").mkdir()
    (tmp_path / "map/0").write_text("81234 1000\n")
    scenario = living(tmp_path / "scenario", 2).gpu(0, minor=1).gpu(1, minor=0)
    _, found = examined(tmp_path, scenario.path, library, jobstats=str(tmp_path / "map"))
    assert [line["answer"] for line in found["measures"] if "name no GPU (0)" in line["what"]] == ["some"]
    scenario.gpu(0, minor=0).gpu(1, minor=1)
    _, found = examined(tmp_path, scenario.path, library, jobstats=str(tmp_path / "map"))
    assert not any("name no GPU" in line["what"] for line in found["measures"])
