"""Files that a prolog writes, of dcgm-exporter and of jobstats."""

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.attribution.devices import Device, Devices, KernelsGpu, SchedulerNumbers, kernels_gpus, minors
from agent.attribution.jobs import DcgmMapping, Jobstats, dcgm_jobs, jobstats_owner, mapped_run_id
from agent.attribution.providers import ProviderReport
from agent.errors import SourceError

GPU, OTHER, MIG = "GPU-5f2d7a10-0001", "GPU-5f2d7a10-0002", "MIG-9c1b2a3d-0001"
DEVICES = Devices([Device(GPU, 0, minor=0), Device(OTHER, 1, minor=1), Device(MIG, 1, OTHER, 3)])


def held(told: ProviderReport | None) -> dict[str, set[str]]:
    """Return the runs that hold each GPU."""
    assert told is not None
    found: dict[str, set[str]] = {}
    for one in told.held:
        found.setdefault(one.gpu_uuid, set()).add(one.attribution.run_id)
    return found


def written(at: Path, **files: str) -> Path:
    """Write a prolog's files; "_" stands for the point of a GPU instance."""
    at.mkdir(exist_ok=True)
    for name, content in files.items():
        (at / name.removeprefix("gpu").replace("_", ".")).write_text(content)
    return at


def test_dcgm_exporters_files_name_gpus_and_instances(tmp_path: Path) -> None:
    """One job a line, where several share a GPU; other files in the directory are none of ours."""
    at = written(tmp_path / "map", gpu0="81234\n81235\n\n", gpu1_3="81240\n", readme="who has which\n")
    told = DcgmMapping(at, "alpha", lambda: DEVICES).read()
    assert held(told) == {GPU: {"slurm/alpha/81234", "slurm/alpha/81235"}, MIG: {"slurm/alpha/81240"}}
    assert told is not None
    assert not any(told.unread.values())


def test_jobs_of_files_that_are_of_no_gpu_are_counted(tmp_path: Path) -> None:
    """A file of another name than was thought is a job that holds nothing, without a word; one that is held is told."""
    at = written(tmp_path / "map", gpu0="81234\n", gpu7="81234\n81235\n", nvidia1="81236\n", gpu8="")
    told = DcgmMapping(at, "alpha", lambda: DEVICES).read()
    assert told is not None
    assert list(told.unread.values()) == [2]
    for name in ("gpu0", "gpu7", "nvidia1"):
        written(tmp_path / "stat", **{name: f"8{len(name)} 0\n"})
    told = Jobstats(tmp_path / "stat", "alpha", lambda: DEVICES).read()
    assert told is not None
    assert list(told.unread.values()) == [1]


def test_jobstats_files_name_gpus_by_uuid_before_index(tmp_path: Path) -> None:
    """The prolog writes both; where cards are numbered otherwise, only the UUID is sure."""
    at = tmp_path / "gpustat"
    at.mkdir()
    for name, content in {GPU: "81234 0", "0": "99 0", "1": "81235 0", MIG: "81240 0", "x": "1 0", OTHER: ""}.items():
        (at / name).write_text(f"{content}\n")
    told = Jobstats(at, "alpha", lambda: DEVICES).read()
    assert held(told) == {GPU: {"slurm/alpha/81234"}, OTHER: {"slurm/alpha/81235"}, MIG: {"slurm/alpha/81240"}}
    assert told is not None
    assert {one.attribution.owner for one in told.held} == {"root"}


@pytest.mark.parametrize("kind", [DcgmMapping, Jobstats])
def test_a_host_without_the_directory_says_nothing(kind: type[DcgmMapping | Jobstats], tmp_path: Path) -> None:
    """jobstats' directory is looked for everywhere, and is on few hosts."""
    assert kind(tmp_path / "none", "alpha", lambda: DEVICES).read() is None


@pytest.mark.parametrize("kind", [DcgmMapping, Jobstats])
def test_a_place_that_cannot_be_read_is_an_error(kind: type[DcgmMapping | Jobstats], tmp_path: Path) -> None:
    """Its last good content then stands, where an empty answer would give every GPU back."""
    (tmp_path / "file").write_text("")
    with pytest.raises(SourceError, match="cannot be read"):
        kind(tmp_path / "file", "alpha", lambda: DEVICES).read()


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        ("81234", "slurm/alpha/81234"),
        ("81200_7", "slurm/alpha/81200_7"),
        ("81234+1", "slurm/alpha/81234+1"),
        ("123.pbs.site", "declared/alpha/123.pbs.site"),
        ("ada's job", "declared/alpha/ada-s-job"),
    ],
)
def test_jobs_of_other_schedulers_have_names_too(job: str, expected: str) -> None:
    """dcgm-exporter takes any text for a job."""
    assert mapped_run_id(job, "alpha") == expected


@given(st.text(max_size=300))
def test_any_file_is_taken_in_peace(content: str) -> None:
    """A prolog is a shell script: its files may be cut short, empty, or hold an error message."""
    assert all(name == name.strip() and name for name in dcgm_jobs(content))
    found = jobstats_owner(content)
    assert found is None or 0 <= found[1] < 2**32


INFORMATION = """Model: 		 NVIDIA H200
IRQ:   		 180
GPU UUID: 	 {uuid}
Video BIOS: 	 96.00.89.00.01
Bus Type: 	 PCIe
Bus Location: 	 {bus}
Device Minor: 	 {minor}
GPU Excluded:	 No
"""


def test_device_files_are_numbered_as_the_driver_says(tmp_path: Path) -> None:
    """On many boards /dev/nvidia0 is not the driver's GPU 0, and GKE counts the files."""
    for uuid, bus, minor in ((GPU, "0000:1b:00.0", 3), (OTHER, "0000:43:00.0", 2)):
        place = tmp_path / "driver/nvidia/gpus" / bus
        place.mkdir(parents=True)
        (place / "information").write_text(INFORMATION.format(uuid=uuid, bus=bus, minor=minor))
    devices = Devices([Device(GPU, 0), Device(OTHER, 1)], minors(tmp_path))
    assert (devices.by_minor(3), devices.by_minor(2), devices.by_minor(0)) == (GPU, OTHER, None)
    assert devices.by_index(0) == GPU
    assert minors(tmp_path / "none") == {}


def test_a_gpu_that_the_driver_has_not_asked_has_no_name_yet(tmp_path: Path) -> None:
    """Its file then shows question marks, the same for every such GPU: they must not pass for one GPU's UUID."""
    place = tmp_path / "driver/nvidia/gpus/0000:1b:00.0"
    place.mkdir(parents=True)
    unasked = "GPU-????????-????-????-????-????????????"
    (place / "information").write_text(INFORMATION.format(uuid=unasked, bus=place.name, minor=3))
    assert minors(tmp_path) == {}
    assert kernels_gpus(tmp_path) == [KernelsGpu("0000:1b:00.0", None, 3)]


@pytest.mark.parametrize("kind", [DcgmMapping, Jobstats])
def test_a_number_of_two_meanings_names_no_gpu(kind: type[DcgmMapping | Jobstats], tmp_path: Path) -> None:
    """By index in one place and by device file in another a job of one GPU held two."""
    numbers = SchedulerNumbers()
    devices = Devices([Device(GPU, 0), Device(OTHER, 1)], {GPU: 1, OTHER: 0}, numbers)
    at = written(tmp_path / "map", gpu0="81234 0\n" if kind is Jobstats else "81234\n")
    assert held(kind(at, "alpha", lambda: devices).read()) == {}
    assert numbers.refused == {0}
    assert "name no GPU (0)" in numbers.coverage()[0]
    numbers.learn([0], {OTHER}, devices)
    assert held(kind(at, "alpha", lambda: devices).read()) == {OTHER: {"slurm/alpha/81234"}}
    numbers.learn([0], {GPU}, devices)  # another job shows the opposite
    assert held(kind(at, "alpha", lambda: devices).read()) == {}


def test_the_prolog_writes_uuids_where_there_is_no_doubt(tmp_path: Path) -> None:
    """Numbers stay where the driver's index and the device file are different GPUs; Slurm's own UUIDs are taken."""
    script = tmp_path / "gpustat.sh"
    at, driver = tmp_path / "gpustat", tmp_path / "driver"
    text = (Path(__file__).parents[3] / "docs/slurm/gpustat.sh").read_text()
    script.write_text(text.replace("/run/gpustat", str(at)).replace("/proc/driver", str(driver)))
    smi = tmp_path / "bin/nvidia-smi"
    smi.parent.mkdir()
    smi.write_text('#!/bin/sh\nfor last; do :; done\necho "GPU-$last"\n')
    smi.chmod(0o755)
    for minor, uuid in enumerate(("GPU-0", "GPU-2", "GPU-1")):
        place = driver / "nvidia/gpus" / f"0000:{minor}b:00.0"
        place.mkdir(parents=True)
        (place / "information").write_text(INFORMATION.format(uuid=uuid, bus=place.name, minor=minor))

    def run(context: str, job: int, **environment: str) -> set[str]:
        told = {"SLURM_SCRIPT_CONTEXT": context, "SLURM_JOB_ID": str(job), "SLURM_JOB_UID": "1000", **environment}
        path = f"{smi.parent}:{os.environ['PATH']}"
        subprocess.run(["sh", str(script)], env={"PATH": path, **told}, check=True)
        return {file.name for file in at.glob("*")}

    assert run("prolog_slurmd", 7, SLURM_JOB_GPUS="0,1") == {"GPU-0", "1"}
    assert (at / "GPU-0").read_text() == "7 1000\n"
    assert run("prolog_slurmd", 8, SLURM_JOB_GPUS="2", CUDA_VISIBLE_DEVICES="GPU-5") == {"GPU-0", "1", "GPU-5"}
    assert run("epilog_slurmd", 7, SLURM_JOB_GPUS="0,1") == {"GPU-5"}
    smi.write_text("#!/bin/sh\nexit 9\n")
    assert run("prolog_slurmd", 9, SLURM_JOB_GPUS="0") == {"GPU-5", "0"}


def test_what_is_ambiguous_names_no_gpu() -> None:
    """Two compute instances of one GPU instance cannot be told apart by its number."""
    twice = Devices([Device(OTHER, 1), Device("MIG-a", 1, OTHER, 3), Device("MIG-b", 1, OTHER, 3)])
    assert twice.instance_of(OTHER, 3) is None
    assert twice.whole == []
