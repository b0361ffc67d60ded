from typing import Any

import pytest

from agent.disk import DEVICES_MAX, DiskSource, block_counters
from agent.errors import SourceError
from agent.mounts import Mount, mount_kind, network_mounts, nfs_counters

LINE = "{major} {minor} {name} 100 0 800 40 10 0 80 4 0 44 44"


@pytest.mark.parametrize("name", ["nvme0n1", "nvme11n2", "sda", "sdab", "vda", "xvdb"])
def test_whole_disks_are_told(name: str) -> None:
    """These are the disks that GPU hosts have, in the cloud and on the floor."""
    found = block_counters(LINE.format(major=8, minor=0, name=name))
    assert found[name].read_bytes == 800 * 512
    assert found[name].number == "8:0"


@pytest.mark.parametrize(
    "name", ["nvme0n1p1", "nvme0c0n1", "sda1", "vda15", "loop0", "ram0", "dm-0", "md127", "zram0", "sr0"]
)
def test_what_shows_a_disk_again_is_not_told(name: str) -> None:
    """A byte read through LVM from a partition would be counted three times."""
    assert block_counters(LINE.format(major=8, minor=0, name=name)) == {}


def test_a_file_system_mounted_twice_is_told_once() -> None:
    """One volume in thirty pods has one set of counters; thirty rows would be thirty times the traffic."""
    mountinfo = (
        "90 27 0:52 / /data rw - nfs4 nas:/data rw\n"
        "91 27 0:52 / /var/lib/kubelet/pods/x/volumes/data rw shared:1 master:2 - nfs4 nas:/data rw\n"
        "92 27 0:53 / /home\\040old rw - nfs nas:/home rw\n"
        "garbage\n"
    )
    assert network_mounts(mountinfo) == [Mount("/data", "nfs"), Mount("/home old", "nfs")]


@pytest.mark.parametrize(
    ("fstype", "kind"),
    [
        ("nfs", "nfs"),
        ("nfs4", "nfs"),
        ("lustre", "lustre"),
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
    assert found.read_milliseconds == 100


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
        assert row["mount_kind"] in ("block", "nfs", "lustre", "fuse")
