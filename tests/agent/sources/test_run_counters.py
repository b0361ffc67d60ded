from pathlib import Path

import pytest

from agent.sources.processes import blkio_bytes, cores_allotted, io_bytes, run_counters, stat_fields

JOB = "slurm/uid_1000/job_7"


def put(root: Path, **files: str) -> None:
    """Write files of a cgroup; double underscores are dots."""
    root.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (root / name.replace("__", ".")).write_text(content)


def test_only_disks_are_counted() -> None:
    """A volume of LVM shows again what its disk shows."""
    io_stat = "253:0 rbytes=900 wbytes=900 rios=1\n259:0 rbytes=100 wbytes=20 rios=1 wios=1 dbytes=0 dios=0\n"
    assert io_bytes(io_stat, {"259:0", "8:0"}) == (100, 20)
    assert io_bytes("", {"259:0"}) == (0, 0)
    assert blkio_bytes("8:0 Read 5\n8:0 Write 6\n8:0 Sync 11\n253:0 Read 5\nTotal 11\n", {"8:0"}) == (5, 6)


def test_a_line_that_is_no_number_is_passed_over() -> None:
    """Kernels add fields to cpu.stat."""
    assert stat_fields("usage_usec 5\nnew thing here\n") == {"usage_usec": 5}


def test_version_one_is_read_by_controller(tmp_path: Path) -> None:
    """Slurm on older systems has a cgroup per controller, and its times are in nanoseconds."""
    mounts = tmp_path / "fs/cgroup"
    put(mounts / "cpuacct" / JOB, cpuacct__usage="5000000000\n")
    put(mounts / "cpu" / JOB, cpu__stat="nr_periods 1\nnr_throttled 1\nthrottled_time 250000000\n")
    put(mounts / "memory" / JOB, memory__usage_in_bytes="4096\n")
    found = run_counters(tmp_path, dict.fromkeys(("cpu", "cpuacct", "memory"), f"/{JOB}"), {"8:0"})
    assert (found.cpu_microseconds, found.throttled_microseconds, found.memory_used_bytes) == (5_000_000, 250_000, 4096)
    assert found.read_bytes is None
    assert found.stalled_microseconds == {}


def test_without_a_known_disk_no_byte_is_known(tmp_path: Path) -> None:
    """A list of disks that could not be read made them 0, and the next reading all that the run ever moved."""
    put(tmp_path / "fs/cgroup/job_7", io__stat="8:0 rbytes=900 wbytes=90\n", cpu__stat="usage_usec 5\n")
    put(tmp_path / "fs/cgroup", cgroup__controllers="io cpu\n")
    found = [run_counters(tmp_path, {"": "/job_7"}, disks) for disks in (set(), {"8:0"})]
    assert [(one.read_bytes, one.written_bytes) for one in found] == [(None, None), (900, 90)]


def test_a_cgroup_that_is_gone_says_nothing(tmp_path: Path) -> None:
    """A job can end between the listing and the reading."""
    found = run_counters(tmp_path, {"": "/system.slice/slurmstepd.scope/job_7"}, set())
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
