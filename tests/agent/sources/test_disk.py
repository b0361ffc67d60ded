import contextlib
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import SourceError
from agent.sources.disk import (
    DEVICES_MAX,
    BlockCounters,
    BlockDevices,
    DiskNumbers,
    DiskSource,
    Mount,
    MountCounters,
    cifs_counters,
    lustre_counters,
    lustre_places,
    lustre_target_counters,
    mount_kind,
    network_mounts,
    nfs_counters,
    uncounted_mounts,
)

CAPTURED = Path(__file__).parent / "data/captured"
PARSERS = [cifs_counters, network_mounts, nfs_counters, lustre_target_counters, uncounted_mounts]

amounts = st.tuples(st.integers(0, 2**63), st.integers(0, 2**63))

LINE = "{major} {minor} {name} 100 0 800 40 10 0 80 4 0 44 44"


@pytest.mark.parametrize(
    "name",
    ["nvme0n1", "nvme11n2", "sda", "sdab", "vda", "xvdb", "mmcblk0", "nbd15", "rbd3", "pmem0", "dasda", "scinia"],
)
def test_whole_disks_are_told(name: str, tmp_path: Path) -> None:
    """These are the disks that GPU hosts have, in the cloud and on the floor."""
    (tmp_path / "diskstats").write_text(LINE.format(major=8, minor=0, name=name))
    assert BlockDevices(tmp_path, tmp_path).counters() == {name: BlockCounters(100, 800 * 512, 40, 10, 80 * 512, 44)}
    place = tmp_path / "class/block" / name
    place.mkdir(parents=True)
    (place / "dev").write_text("8:0\n")
    assert BlockDevices(tmp_path, tmp_path).numbers() == DiskNumbers({"8:0"})


@pytest.mark.parametrize(
    "name",
    [
        "nvme0n1p1",
        "nvme0c0n1",
        "sda1",
        "vda15",
        "loop0",
        "ram0",
        "dm-0",
        "md127",
        "md_home",
        "zram0",
        "sr0",
        "zd16",
        "bcache0",
        "mmcblk0p2",
        "nbd0p1",
        "rbd0p1",
        "md126p1",
        "loop7p1",
        "xvda1",
        "emcpowera",
        "drbd0",
        "dasda1",
        "fd0",
    ],
)
def test_what_shows_a_disk_again_is_not_told(name: str, tmp_path: Path) -> None:
    """A byte read through LVM from a partition would be counted three times."""
    (tmp_path / "diskstats").write_text(LINE.format(major=8, minor=0, name=name))
    assert BlockDevices(tmp_path, tmp_path).counters() == {}
    place = tmp_path / "class/block" / name
    place.mkdir(parents=True)
    (place / "dev").write_text("8:0\n")
    assert BlockDevices(tmp_path, tmp_path).numbers() == DiskNumbers(set(), {"8:0"})


def test_a_place_that_tells_of_no_disks_tells_of_none(tmp_path: Path) -> None:
    """psutil would look into the /sys of where the agent runs: those are then not the disks of the host it is shown."""
    assert BlockDevices(tmp_path, tmp_path).counters() is None
    assert BlockDevices(tmp_path, tmp_path).numbers() == DiskNumbers()


@given(st.text(max_size=400))
def test_any_text_is_disks_or_a_source_error(diskstats: str) -> None:
    """No daemon dies of a new kernel."""
    with tempfile.TemporaryDirectory() as place, contextlib.suppress(SourceError):
        (Path(place) / "diskstats").write_text(diskstats, "utf-8")
        found = BlockDevices(Path(place), Path(place)).counters()
        assert found is not None
        assert all(isinstance(disk.read_bytes, int) for disk in found.values())


def test_a_file_system_mounted_twice_is_told_once() -> None:
    """One volume in thirty pods has one set of counters; thirty rows would be thirty times the traffic."""
    mountinfo = (
        "90 27 0:52 / /data rw - nfs4 nas:/data rw\n"
        "91 27 0:52 / /var/lib/kubelet/pods/x/volumes/data rw shared:1 master:2 - nfs4 nas:/data rw\n"
        "92 27 0:53 / /home\\040old rw - nfs nas:/home rw\n"
        "garbage\n"
    )
    assert network_mounts(mountinfo) == [
        Mount("/data", "nfs", "nas:/data"),
        Mount("/home old", "nfs", "nas:/home"),
    ]


@pytest.mark.parametrize(
    ("fstype", "kind"),
    [
        ("nfs", "nfs"),
        ("nfs4", "nfs"),
        ("lustre", "lustre"),
        ("cifs", "cifs"),
        ("smb3", "cifs"),
        ("fuse.gcsfuse", "fuse"),
        ("fuse.juicefs", "fuse"),
        ("fuse.lxcfs", None),
        ("fuseblk", None),
        ("ext4", None),
        ("nfsd", None),
    ],
)
def test_only_network_mounts_have_a_kind(fstype: str, kind: str | None) -> None:
    """A local file system is told by its disk."""
    assert mount_kind(fstype) == kind


def test_nfs_counts_what_went_over_the_wire() -> None:
    """The first two fields of `bytes:` hold page-cache hits; the fifth and sixth are the server's."""
    found = nfs_counters(
        "device nas:/data mounted on /data with fstype nfs4 statvers=1.1\n"
        "\tbytes:\t900 800 70 60 500 400 3 2\n"
        "\tper-op statistics\n"
        "\t        READ: 11 12 0 2200 5000 5 90 100 0\n"
        "\t       WRITE: 7 7 0 4000 700 1 2 3\n"
    )["/data"]
    assert (found.read_bytes, found.written_bytes, found.reads, found.writes) == (500, 400, 11, 7)
    assert found.read_microseconds == 100_000


def test_nfs_as_others_captured_it() -> None:
    """Kernels before 5.3 have eight numbers an operation, without the errors."""
    found = nfs_counters((CAPTURED / "proc/self/mountstats").read_text())
    assert found == {"/mnt/nfs/test": MountCounters(1210214218, 0, 1298, 0, 79_407_000, 13968)}


def test_nfs_without_statistics_is_unknown() -> None:
    """A kernel without per-mount statistics says only that the mount is there."""
    assert nfs_counters("device nas:/data mounted on /data with fstype nfs4\n") == {}


def test_a_mount_made_anew_tells_no_amounts(host: Any) -> None:
    """An automounter takes a mount away and brings it back with its counters at 0."""
    source = DiskSource(host.proc, monotonic=host.monotonic)
    source.read()
    host.move_on()
    rows = {row["device"]: row for row in source.read()["disk_samples"]}
    assert rows["/home old"]["read_bytes"] is None
    assert rows["/data"]["read_bytes"] == 4_194_304_000
    assert rows["/data"]["read_wait_seconds"] == 38.0
    assert rows["/home old"]["written_bytes"] is None  # its counter has reached its old value again
    assert "read_bytes" not in rows["/lustre"]


def test_the_disk_that_moves_most_stays_in(host: Any) -> None:
    """A shelf of cold disks must not push the scratch disk out of the rows, and what is left out is counted."""
    cold = "\n".join(
        LINE.format(major=65, minor=index, name="sd" + chr(97 + index // 26) + chr(97 + index % 26))
        for index in range(100)
    )
    hot = "259 0 nvme9n1 100 0 9000000 40 10 0 80 4 0 44 44"
    (host.proc / "diskstats").write_text(f"{cold}\n{hot}\n")
    source = DiskSource(host.proc)
    rows = source.read()["disk_samples"]
    assert rows[0]["device"] == "nvme9n1"
    assert source.devices_left_out == 101 - DEVICES_MAX


def test_a_host_without_procfs_is_one_sentence(tmp_path: Any) -> None:
    """The sampler logs the sentence once; it must name the place and the way out."""
    with pytest.raises(SourceError, match="mount procfs"):
        DiskSource(tmp_path).read()


def test_this_hosts_disks_can_be_read() -> None:
    """The captured trees are ours; the real one is the kernel's."""
    source = DiskSource()
    source.read()
    for row in source.read()["disk_samples"]:
        assert row["mount_kind"] in ("block", "nfs", "lustre", "cifs", "fuse")


@pytest.fixture
def captured(tmp_path: Path) -> Path:
    """Return a host with NFS and Lustre as others captured them, to be changed."""
    shutil.copytree(CAPTURED, tmp_path, dirs_exist_ok=True)
    return tmp_path


def test_lustre_counts_what_went_over_the_wire() -> None:
    """In the same capture `llite` tells 44 MB, all but 64 KB of it from the page cache."""
    found = lustre_counters(lustre_places(CAPTURED / "proc", CAPTURED / "sys"))
    assert found == {"a361000": MountCounters(65536, 65536, 1, 1, 5625)}


def test_lustre_amounts_are_of_the_interval_and_of_one_mount(captured: Path) -> None:
    """Two mounts of one file system share its counters, and one of them must stay without."""
    source = DiskSource(captured / "proc", sys=captured / "sys")
    first = {row["device"]: row for row in source.read()["disk_samples"]}
    assert "read_bytes" not in first["/scratch"]
    target = captured / "sys/kernel/debug/lustre/osc/a361000-OST0000-osc-ffff8b524be17800/stats"
    with target.open("a") as stats:
        stats.write("read_bytes   3 samples [bytes] 1 2 4096 9\nost_read   3 samples [usec] 1 2 2500000 9\n")
    rows = {row["device"]: row for row in source.read()["disk_samples"]}
    assert (rows["/scratch"]["read_bytes"], rows["/scratch"]["reads"]) == (4096, 3)
    assert (rows["/scratch"]["read_wait_seconds"], rows["/scratch"]["written_bytes"]) == (2.5, 0)
    assert "read_bytes" not in rows["/scratch2"]
    assert not any("lustre" in line for line in source.coverage())  # it is told, at its first mount
    target.write_text("")  # lctl set_param osc.*.stats=clear
    assert {row["device"]: row for row in source.read()["disk_samples"]}["/scratch"]["read_bytes"] is None


def test_a_servers_own_requests_are_not_a_clients(tmp_path: Path) -> None:
    """On a metadata server the same directory holds its own connections to the storage targets."""
    for name in ("fs1-OST0000-osc-MDT0000", "num_refs", "fs1-OST0001-osc-ffff8800"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "stats").write_text("read_bytes 1 samples [bytes] 5 5 5 25\n")
    assert lustre_counters([tmp_path, tmp_path / "none"]) == {"fs1": MountCounters(5, 0, 0, 0, 0)}


def test_a_target_that_cannot_be_read_makes_its_file_system_unknown(tmp_path: Path) -> None:
    """Its whole past was told as one interval's reading once it could be read again."""
    for name in ("fs1-OST0000-osc-ffff8800", "fs1-OST0001-osc-ffff8800", "fs2-OST0000-osc-ffff8800"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "stats").write_text("read_bytes 1 samples [bytes] 5 5 5 25\n")
    (tmp_path / "fs1-OST0001-osc-ffff8800/stats").unlink()
    (tmp_path / "fs1-OST0001-osc-ffff8800/stats").mkdir()
    assert list(lustre_counters([tmp_path])) == ["fs2"]


def test_a_share_is_counted_by_its_kernel_client(tmp_path: Path) -> None:
    """Azure mounts its data sets so. A directory of a share has the share's counters."""
    (tmp_path / "self").mkdir()
    (tmp_path / "fs/cifs").mkdir(parents=True)
    (tmp_path / "self/mountinfo").write_text("90 27 0:52 / /data rw - cifs //Server1/share1/sets rw,vers=3.1.1\n")
    shutil.copy(CAPTURED / "proc/fs/cifs/Stats", tmp_path / "fs/cifs/Stats")
    source = DiskSource(tmp_path)
    source.read()
    stats = (tmp_path / "fs/cifs/Stats").read_text().replace("Bytes read: 123456", "Bytes read: 123556")
    (tmp_path / "fs/cifs/Stats").write_text(stats)
    (row,) = source.read()["disk_samples"]
    assert (row["device"], row["mount_kind"], row["read_bytes"], row["written_bytes"]) == ("/data", "cifs", 100, 0)
    assert source.coverage() == []


def test_a_share_tells_its_calls_where_its_protocol_does() -> None:
    """SMB 2 and newer write the bytes on one line, and count the calls."""
    found = cifs_counters(
        "1) \\\\nas\\a\nSMBs: 9\nBytes read: 5  Bytes written: 6\nReads: 3 total 1 failed\nWrites: 4 total 0 failed\n"
        "\n2) \\\\nas\\b\tDISCONNECTED \nSMBs: 0\n"
    )
    assert found == {"//nas/a": MountCounters(5, 6, 3, 4, None)}


def test_what_no_client_counts_is_said(captured: Path) -> None:
    """A mount without numbers is unknown, not idle, and the reason is given."""
    shutil.rmtree(captured / "sys/kernel")
    source = DiskSource(captured / "proc", sys=captured / "sys")
    source.read()
    said = source.coverage()
    assert [line.partition(" ")[0] for line in said] == ["/scratch", "/scratch2", "mounts"]
    assert "only root may enter" in said[0]
    assert "wekafs" in said[2]


@pytest.mark.parametrize("parser", PARSERS)
@given(text=st.text(max_size=300))
def test_any_text_is_read_or_a_value_error(parser: Any, text: str) -> None:
    """The source turns it into one sentence; no daemon dies of a new kernel."""
    with contextlib.suppress(ValueError):
        parser(text)


@given(
    st.lists(
        st.tuples(st.sampled_from(["read_bytes", "ost_read", "write_bytes", "ost_write", "ldlm_cancel"]), amounts),
        unique_by=lambda one: one[0],
    )
)
def test_lustre_lines_are_read_number_for_number(lines: list[tuple[str, tuple[int, int]]]) -> None:
    """In any order, with any of them missing: a line that is not there counts what never happened."""
    units = {"read_bytes": "bytes", "write_bytes": "bytes"}
    told = dict(lines)
    found = lustre_target_counters(
        "".join(
            f"{name}  {count} samples [{units.get(name, 'usecs')}] 1 2 {total} 4\n" for name, (count, total) in lines
        )
    )
    assert found == MountCounters(
        read_bytes=told.get("read_bytes", (0, 0))[1],
        written_bytes=told.get("write_bytes", (0, 0))[1],
        reads=told.get("ost_read", (0, 0))[0],
        writes=told.get("ost_write", (0, 0))[0],
        read_microseconds=told.get("ost_read", (0, 0))[1],
    )
