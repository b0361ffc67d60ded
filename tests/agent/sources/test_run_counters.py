from pathlib import Path
from typing import Any

import pytest

from agent.sources.disk import DiskNumbers
from agent.sources.processes import (
    ProcessSource,
    blkio_bytes,
    cores_allotted,
    io_bytes,
    run_counters,
    stat_fields,
)
from tests.agent.sources.conftest import told

DISKS = DiskNumbers({"8:0", "259:0"}, {"253:0"})
JOB = "slurm/uid_1000/job_7"


def put(root: Path, **files: str) -> None:
    """Write files of a cgroup; double underscores are dots."""
    root.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (root / name.replace("__", ".")).write_text(content)


def test_only_disks_are_counted() -> None:
    """A volume of LVM shows again what its disk shows."""
    io_stat = "253:0 rbytes=900 wbytes=900 rios=1\n259:0 rbytes=100 wbytes=20 rios=1 wios=1 dbytes=0 dios=0\n"
    assert io_bytes(io_stat, DISKS) == (100, 20)
    assert io_bytes("", DISKS) == (0, 0)
    assert blkio_bytes("8:0 Read 5\n8:0 Write 6\n8:0 Sync 11\n253:0 Read 5\nTotal 11\n", DISKS) == (5, 6)


def test_what_moved_on_a_device_that_nobody_knows_is_unknown() -> None:
    """A job that read 4 GiB from a network block device had 0 bytes, since no list had its name."""
    assert io_bytes("43:0 rbytes=4294967296 wbytes=0\n8:0 rbytes=1 wbytes=2\n", DISKS) == (None, None)
    assert io_bytes("43:0 rbytes=0 wbytes=0\n8:0 rbytes=1 wbytes=2\n", DISKS) == (1, 2)
    assert io_bytes("43:0\n8:0 rbytes=1 wbytes=2\n", DISKS) == (1, 2)
    assert blkio_bytes("43:0 Read 5\n43:0 Write 0\n8:0 Read 1\nTotal 6\n", DISKS) == (None, None)


@pytest.mark.parametrize("mount", ["cpu", "cpu,cpuacct", "cpuacct,cpu"])
def test_a_hybrid_host_tells_each_figure_where_its_controller_is(tmp_path: Path, mount: str) -> None:
    """Controllers are in v1 while v2 is mounted beside; whoever settles for one of them has no memory or disk."""
    root = tmp_path / "fs/cgroup"
    put(root / "memory" / JOB, memory__usage_in_bytes="4096\n")
    put(root / ("cpuacct" if mount == "cpu" else mount) / JOB, cpuacct__usage="5000000000\n")
    put(root / mount / JOB, cpu__stat="throttled_time 250000000\n")
    put(root / "blkio" / JOB, blkio__throttle__io_service_bytes_recursive="8:0 Read 7\n8:0 Write 8\n")
    put(root / "unified" / JOB, cpu__stat="usage_usec 6000000\n")
    paths = dict.fromkeys(("", "memory", "cpu", "cpuacct", "blkio"), f"/{JOB}")
    found = run_counters(tmp_path, paths, DISKS)
    assert (found.cpu_microseconds, found.throttled_microseconds, found.memory_used_bytes) == (6_000_000, 250_000, 4096)
    assert (found.read_bytes, found.written_bytes) == (7, 8)
    put(root / "unified" / JOB, memory__current="9\n", io__stat="8:0 rbytes=1 wbytes=2\n")
    found = run_counters(tmp_path, paths, DISKS)
    assert (found.memory_used_bytes, found.read_bytes, found.written_bytes) == (9, 1, 2)


def test_a_line_that_is_no_number_is_passed_over() -> None:
    """Kernels add fields to cpu.stat."""
    assert stat_fields("usage_usec 5\nnew thing here\n") == {"usage_usec": 5}


def test_version_one_is_read_by_controller(tmp_path: Path) -> None:
    """Slurm on older systems has a cgroup per controller, and its times are in nanoseconds."""
    mounts = tmp_path / "fs/cgroup"
    put(mounts / "cpuacct" / JOB, cpuacct__usage="5000000000\n")
    put(mounts / "cpu" / JOB, cpu__stat="nr_periods 1\nnr_throttled 1\nthrottled_time 250000000\n")
    put(mounts / "memory" / JOB, memory__usage_in_bytes="4096\n")
    found = run_counters(tmp_path, dict.fromkeys(("cpu", "cpuacct", "memory"), f"/{JOB}"), DISKS)
    assert (found.cpu_microseconds, found.throttled_microseconds, found.memory_used_bytes) == (5_000_000, 250_000, 4096)
    assert found.read_bytes is None
    assert found.stalled_microseconds == {}


def test_without_a_known_disk_no_byte_is_known(tmp_path: Path) -> None:
    """A list of disks that could not be read made them 0, and the next reading all that the run ever moved."""
    put(tmp_path / "fs/cgroup/job_7", io__stat="8:0 rbytes=900 wbytes=90\n", cpu__stat="usage_usec 5\n")
    put(tmp_path / "fs/cgroup", cgroup__controllers="io cpu\n")
    found = [run_counters(tmp_path, {"": "/job_7"}, disks) for disks in (DiskNumbers(), DISKS)]
    assert [(one.read_bytes, one.written_bytes) for one in found] == [(None, None), (900, 90)]


def test_a_cgroup_that_is_gone_says_nothing(tmp_path: Path) -> None:
    """A job can end between the listing and the reading."""
    found = run_counters(tmp_path, {"": "/system.slice/slurmstepd.scope/job_7"}, DiskNumbers())
    assert found.cpu_microseconds is None
    assert found.memory_used_bytes is None


@pytest.mark.parametrize(
    ("maximum", "cpuset", "affinity", "cores"),
    [
        ("max 100000", "0-15", 64, 16.0),
        ("250000 100000", "0-15", 64, 2.5),
        ("max 100000", None, 8, 8.0),
        (None, None, None, None),
    ],
)
def test_the_tightest_limit_counts(
    tmp_path: Path, maximum: str | None, cpuset: str | None, affinity: int | None, cores: float | None
) -> None:
    """A pod may run on all cores and yet use only two and a half of them."""
    put(tmp_path / "fs/cgroup", cgroup__controllers="cpu cpuset\n")
    if maximum:
        put(tmp_path / "fs/cgroup/pod", cpu__max=maximum + "\n")
    put(tmp_path / "fs/cgroup/pod/container", cpu__max="max 100000\n")
    if cpuset:
        put(tmp_path / "fs/cgroup/pod", cpuset__cpus__effective=cpuset + "\n")
    assert cores_allotted(tmp_path, {"": "/pod/container"}, affinity) == cores


def test_version_one_writes_no_quota_as_minus_one(tmp_path: Path) -> None:
    """Read as a number of cores, it would be less than none."""
    put(tmp_path / "fs/cgroup/cpu" / JOB, cpu__cfs_quota_us="-1\n", cpu__cfs_period_us="100000\n")
    put(tmp_path / "fs/cgroup/cpuset" / JOB, cpuset__effective_cpus="0-3\n")
    assert cores_allotted(tmp_path, {"cpu": f"/{JOB}", "cpuset": f"/{JOB}"}, 64) == 4.0


def test_a_pod_on_a_hybrid_host_tells_all_of_its_figures(tmp_path: Path, attribution: Any, holder: Any) -> None:
    """The controllers are in v1 while v2 is mounted beside without any (docker/for-linux#1256)."""
    pod = "kubepods.slice/kubepods-pod0a1b2c3d_1111_2222_3333_0123456789ab.slice"
    inside, here, root = f"/{pod}/cri-containerd-x.scope", tmp_path / "proc/4711", tmp_path / "sys/fs/cgroup"
    hierarchies = ("memory", "cpu,cpuacct", "blkio", "name=systemd")
    v1 = "".join(f"{number}:{names}:{inside}\n" for number, names in enumerate(hierarchies, 4))
    put(
        here, cgroup=f"{v1}0::{inside}\n", stat="4711 (python) S 1 " + "0 " * 17 + "50 " + "0 " * 20, status="Uid:\t0\n"
    )
    put(tmp_path / "proc", diskstats="8 0 sda 1 0 1 1 1 0 1 1 0 1 1\n")
    put(root / "unified", cgroup__controllers="\n")
    source = ProcessSource(
        lambda: told([holder("GPU-a", 4711)]), attribution, lambda: 1, proc=tmp_path / "proc", sys=tmp_path / "sys"
    )
    rows: Any = []
    for seconds, read in ((5, 1_000), (8, 1_001_000)):
        put(root / "memory" / pod, memory__usage_in_bytes=f"{2 * 2**30}\n")
        put(root / "cpuacct" / pod, cpuacct__usage=f"{seconds * 10**9}\n")
        put(root / "cpu" / pod, cpu__stat=f"throttled_time {seconds * 10**9}\n")
        put(root / "blkio" / pod, blkio__throttle__io_service_bytes_recursive=f"8:0 Read {read}\n8:0 Write 0\n")
        put(root / "unified" / pod, cpu__stat=f"usage_usec {seconds * 10**6}\n")
        rows = source.read()["run_samples"]
    (row,) = rows
    assert (row["memory_used_bytes"], row["cpu_seconds"]) == (2 * 2**30, 3.0)
    assert (row["cpu_throttled_seconds"], row["read_bytes"], row["written_bytes"]) == (3.0, 1_000_000, 0)
