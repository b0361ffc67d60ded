"""Block devices and network mounts of the host, and what the mounts' clients say of their traffic."""

import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from agent.errors import SourceError
from agent.procfs import differences, share, text, understanding, unescaped
from agent.source import Reading, Row
from agent.sources.host import disk_counts
from agent.wire.units import MILLISECOND_US, SECOND_US

# Which network file systems are mounted, from /proc/<pid>/mountinfo.
# File systems of FUSE that hold no data of a run: they would only crowd the rows.
_LOCAL_FUSE = frozenset({"fuse.lxcfs", "fuse.gvfsd-fuse", "fuse.portal", "fuse.snapfuse", "fuse.fuse-overlayfs"})

# Network file systems whose clients show an unprivileged reader no bytes.
_UNCOUNTED = frozenset({"beegfs", "ceph", "gpfs", "panfs", "wekafs", "9p", "virtiofs"})


@dataclass(frozen=True, slots=True)
class Mount:
    """One network file system where it is mounted first; further mounts of it show the same traffic."""

    point: str
    kind: str  # nfs, lustre, cifs or fuse
    source: str = ""  # what is mounted there, such as nas:/data


def mount_kind(fstype: str) -> str | None:
    """Return nfs, lustre, cifs or fuse, or None for a file system that is local or has no counters at all."""
    if fstype in ("nfs", "nfs4"):
        return "nfs"
    if fstype in ("cifs", "smb3"):
        return "cifs"
    if fstype == "lustre":
        return "lustre"
    return "fuse" if fstype.startswith("fuse.") and fstype not in _LOCAL_FUSE else None


def network_mounts(mountinfo: str) -> list[Mount]:
    """Return each network file system of /proc/<pid>/mountinfo once, in the order of mounting.

    A file system that is mounted or bound in several places (one volume in thirty pods) has one device number, and
    its counters would be counted once per place. Source: proc_pid_mountinfo(5).
    """
    found: dict[str, Mount] = {}
    for device, point, fstype, source in _mount_lines(mountinfo):
        if (kind := mount_kind(fstype)) is not None:
            found.setdefault(device, Mount(point, kind, source))
    return list(found.values())


def uncounted_mounts(mountinfo: str) -> list[str]:
    """Return the types of the network file systems that are mounted and tell no bytes."""
    return sorted({fstype for _, _, fstype, _ in _mount_lines(mountinfo) if fstype in _UNCOUNTED})


def _mount_lines(mountinfo: str) -> list[tuple[str, str, str, str]]:
    """Return device number, mount point, type and source of every line that is one."""
    found: list[tuple[str, str, str, str]] = []
    for line in mountinfo.splitlines():
        place, _, filesystem = line.partition(" - ")
        fields, (fstype, _, rest) = place.split(), filesystem.partition(" ")
        if len(fields) >= 5 and fstype:
            found.append((fields[2], unescaped(fields[4]), fstype, unescaped(rest.partition(" ")[0])))
    return found


# What one network file system has moved over the wire.
@dataclass(frozen=True, slots=True)
class MountCounters:
    """What went over the wire since the file system was mounted; None is what its client does not count."""

    read_bytes: int
    written_bytes: int
    reads: int | None
    writes: int | None
    read_microseconds: int | None  # queue and round trip together, as a reader waits for both
    age_seconds: int | None = None  # since it was mounted


def _at_mounts(
    mounts: Sequence[Mount], kind: str, counted: Mapping[str, MountCounters], name: Callable[[str], str]
) -> dict[str, MountCounters]:
    """Return by mount point what is counted by name, for the mounts of this kind; `name` is that of what is mounted.

    What is mounted twice is told at its first mount: its counters do not tell the mounts apart.
    """
    found: dict[str, MountCounters] = {}
    left = dict(counted)
    for mount in mounts:
        if mount.kind == kind and (key := name(mount.source)) in left:
            found[mount.point] = left.pop(key)
    return found


_SMB_SHARE = re.compile(r"^\d+\) (\\\\\S+)", re.MULTILINE)
_SMB_BYTES = re.compile(r"Bytes read: (\d+)\s+Bytes written: (\d+)")
_SMB_READS = re.compile(r"^Reads: (\d+) total", re.MULTILINE)
_SMB_WRITES = re.compile(r"^Writes: (\d+) total", re.MULTILINE)


# What SMB shares (Azure Files among them) moved over the wire, from /proc/fs/cifs/Stats.
def cifs_counters(stats: str) -> dict[str, MountCounters]:
    r"""Return the counters of each share, named as it is mounted: //server/share.

    The kernel writes \\server\share. Source: cifs_stats_proc_show and smb2_print_stats of fs/smb/client.
    """
    shares = list(_SMB_SHARE.finditer(stats))
    ends = [share.start() for share in shares[1:]] + [len(stats)]
    found: dict[str, MountCounters] = {}
    for heading, end in zip(shares, ends, strict=True):
        block = stats[heading.end() : end]
        if (moved := _SMB_BYTES.search(block)) is not None:
            name = _share_name(heading[1].replace("\\", "/"))
            found.setdefault(name, MountCounters(int(moved[1]), int(moved[2]), *_smb_calls(block), None))
    return found


def _share_name(source: str) -> str:
    """Return //server/share of what is mounted, which may be a directory within it."""
    return "/".join(source.split("/")[:4]).lower()


def _smb_calls(block: str) -> tuple[int | None, int | None]:
    reads, writes = _SMB_READS.search(block), _SMB_WRITES.search(block)
    return int(reads[1]) if reads else None, int(writes[1]) if writes else None


_LUSTRE_TARGETS_MAX = 4096  # of all file systems; each is one small file

# <file system>-OST0000-osc-<client>, <file system>-MDT0000-mdc-<client>; a server's own end with -MDT0000.
_LUSTRE_TARGET = re.compile(r"^(.+)-(?:OST|MDT)[0-9a-fA-F]{4}-(?:osc|mdc)-(?!MDT)[^/]+$")
_LUSTRE_LINE = re.compile(r"^(\w+)\s+(\d+) samples \[(\w+)\] \d+ \d+ (\d+)", re.MULTILINE)


# What Lustre clients moved over the wire, from the statistics of their requests to the servers.
#
# The statistics that `llite` keeps of a mount count what programs asked for, page-cache hits as well: a data set that
# is read from memory would pass for traffic. Those of `osc` and `mdc` count the requests that went out.
def lustre_places(proc: Path, sys: Path) -> list[Path]:
    """Return where the clients' statistics are: debugfs as of Lustre 2.12, which only root can enter, else procfs."""
    roots = (proc / "fs/lustre", sys / "kernel/debug/lustre")
    return [root / kind for root in roots for kind in ("osc", "mdc")]


def lustre_counters(places: Sequence[Path]) -> dict[str, MountCounters]:
    """Return the counters of each Lustre file system by its name, summed over its storage targets.

    Where those of one target cannot be read the sum is not known: what the others moved would pass for the whole, and
    the target's whole past for the next interval's.
    """
    found: dict[str, list[MountCounters]] = {}
    unread: set[str] = set()
    for target in _lustre_targets(places)[:_LUSTRE_TARGETS_MAX]:
        match = _LUSTRE_TARGET.match(target.name)
        if match is None:
            continue
        if (stats := text(target / "stats")) is not None:
            found.setdefault(match[1], []).append(lustre_target_counters(stats))
        elif (target / "stats").exists():
            unread.add(match[1])
    return {name: _lustre_sum(targets) for name, targets in found.items() if name not in unread}


def lustre_target_counters(stats: str) -> MountCounters:
    """Return the counters of one storage target's `stats`. A line that is not there counts what never happened.

    Source: lprocfs_stats_seq_show of Lustre: name, count, unit, least, most, sum.
    """
    lines = {
        (name, unit.rstrip("s")): (int(count), int(total)) for name, count, unit, total in _LUSTRE_LINE.findall(stats)
    }
    reads, waited = lines.get(("ost_read", "usec"), (0, 0))
    writes, _ = lines.get(("ost_write", "usec"), (0, 0))
    return MountCounters(
        read_bytes=lines.get(("read_bytes", "byte"), (0, 0))[1],
        written_bytes=lines.get(("write_bytes", "byte"), (0, 0))[1],
        reads=reads,
        writes=writes,
        read_microseconds=waited,
    )


def _lustre_system(source: str) -> str:
    """Return the file system's name of what is mounted: `10.0.0.1@o2ib:10.0.0.2@o2ib:/name/directory`."""
    return source.rpartition(":/")[2].partition("/")[0]


def _lustre_targets(places: Sequence[Path]) -> list[Path]:
    found: list[Path] = []
    for place in places:
        try:
            found += sorted(place.iterdir())
        except OSError:  # no Lustre, or not ours to see
            continue
    return found


def _lustre_sum(targets: Sequence[MountCounters]) -> MountCounters:
    return MountCounters(
        read_bytes=sum(target.read_bytes for target in targets),
        written_bytes=sum(target.written_bytes for target in targets),
        reads=sum(target.reads or 0 for target in targets),
        writes=sum(target.writes or 0 for target in targets),
        read_microseconds=sum(target.read_microseconds or 0 for target in targets),
    )


_NFS_HEADER = re.compile(r"^device (?:.+) mounted on (\S+) with fstype (\S+)", re.MULTILINE)
_NFS_AGE = re.compile(r"^\s*age:\s+(\d+)$", re.MULTILINE)
_NFS_BYTES = re.compile(r"^\s*bytes:\s+(.+)$", re.MULTILINE)
_NFS_OPERATION = re.compile(r"^\s*(READ|WRITE):\s+(.+)$", re.MULTILINE)


# What NFS says of its traffic, from /proc/<pid>/mountstats.
def nfs_counters(mountstats: str) -> dict[str, MountCounters]:
    """Return the counters of each NFS mount point of /proc/<pid>/mountstats.

    Raises:
        ValueError: a number is none.

    Source: include/linux/nfs_iostat.h (bytes: normal, direct and server, each read and written) and
    rpc_print_iostats of net/sunrpc/stats.c (operations, transmissions, timeouts, bytes sent and received,
    milliseconds in queue, of round trip, in all).
    """
    headers = list(_NFS_HEADER.finditer(mountstats))
    ends = [header.start() for header in headers[1:]] + [len(mountstats)]
    found: dict[str, MountCounters] = {}
    for header, end in zip(headers, ends, strict=True):
        if mount_kind(header[2]) == "nfs":
            counters = _nfs_block(mountstats[header.end() : end])
            if counters is not None:
                found[unescaped(header[1])] = counters
    return found


def _nfs_block(block: str) -> MountCounters | None:
    match = _NFS_BYTES.search(block)
    moved = [int(field) for field in match[1].split()] if match else []
    if len(moved) < 6:
        return None
    operations = {name: [int(field) for field in fields.split()] for name, fields in _NFS_OPERATION.findall(block)}
    read, write = operations.get("READ", []), operations.get("WRITE", [])
    return MountCounters(
        read_bytes=moved[4],
        written_bytes=moved[5],
        reads=read[0] if read else None,
        writes=write[0] if write else None,
        read_microseconds=read[7] * MILLISECOND_US if len(read) > 7 else None,
        age_seconds=int(age[1]) if (age := _NFS_AGE.search(block)) else None,
    )


_MILLISECONDS = 1000
DEVICES_MAX = 64
_BLOCK_DEVICES_MAX = 4096
_MOUNTS_MAX = 64

_AMOUNTS = ("read_bytes", "written_bytes", "reads", "writes")
_TIMES = ("busy_milliseconds", "read_milliseconds")  # which the kernel counts in 32 bits, its sectors in 64


@dataclass(frozen=True, slots=True)
class BlockCounters:
    """What one disk has done since boot."""

    reads: int
    read_bytes: int
    read_milliseconds: int
    writes: int
    written_bytes: int
    busy_milliseconds: int


_COUNTS = ("read_count", "read_bytes", "read_time", "write_count", "write_bytes", "busy_time")  # psutil's names
_UNUSED = BlockCounters(0, 0, 0, 0, 0, 0)

# Devices that show again what disks below them show, or none at all, whatever sysfs says of them: device mapper, RAID,
# loops, caches, volumes of ZFS, memory, and drives for what people put in.
_NO_DISK = re.compile(r"(?:dm-|md_?d?|loop|bcache|drbd|zd|ram|zram|sr|fd)\d.*|md_.*|emcpower[a-z]+\d*")
# Partitions, where sysfs does not tell: behind the letters of a disk, or behind a p where the disk ends in a number.
_PARTITION = re.compile(r"(?:sd|x?vd|hd|dasd)[a-z]+\d+|.+\dp\d+")
# One of several ways to a disk of NVMe (subsystem 0, controller 1, namespace 2), which are hidden below nvme0n2.
_PATH = re.compile(r"nvme(\d+)c\d+n(\d+)")
_NUMBERS = re.compile(r"^\s*(\d+)\s+(\d+)\s+(\S+)", re.MULTILINE)
_BLOCK = "class/block"


@dataclass(frozen=True, slots=True)
class DiskNumbers:
    """How a cgroup's io.stat calls block devices: `disks` are whole ones, and what moves on `others` moves on them."""

    disks: Set[str] = frozenset()
    others: Set[str] = frozenset()


class BlockDevices:
    """The disks of a host: what is no partition, and shows no other disk again, as sysfs tells it.

    Where sysfs does not show a device, its name tells. They are looked at anew when one came or went.
    """

    def __init__(self, proc: Path, sys: Path) -> None:
        self._proc = proc
        self._sys = sys
        self._disks: dict[str, bool] = {}

    def counters(self) -> dict[str, BlockCounters] | None:
        """Return the counters of every disk by its kernel name, or None where procfs tells of no disks.

        What kernels before 6.4 do not count for a disk of NVMe with several ways is the sum of its ways.

        Raises:
            SourceError: it tells of them in a form that is not known.
        """
        told = disk_counts(self._proc)
        if told is None:
            return None
        self._look(told)
        parts: dict[str, list[Any]] = {name: [told[name]] for name in told if self._disks[name]}
        for path in filter(None, map(_PATH.fullmatch, told)):
            head = f"nvme{path[1]}n{path[2]}"
            if head in parts and not told[head].read_count + told[head].write_count:
                parts[head].append(told[path[0]])
        found = {
            name: BlockCounters(*(sum(getattr(part, count) for part in each) for count in _COUNTS))
            for name, each in parts.items()
        }
        return {name: counters for name, counters in found.items() if counters != _UNUSED or self._has_size(name)}

    def numbers(self) -> DiskNumbers:
        """Return the major:minor of every block device."""
        found = {
            name: f"{major}:{minor}" for major, minor, name in _NUMBERS.findall(text(self._proc / "diskstats") or "")
        }
        for place in islice((self._sys / _BLOCK).glob("*"), _BLOCK_DEVICES_MAX):
            name = place.name.replace("!", "/")
            if name not in found and (told := text(place / "dev")):
                found[name] = told.strip()
        self._look(found)
        disks = {number for name, number in found.items() if self._disks[name]}
        return DiskNumbers(disks, set(found.values()) - disks)

    def _look(self, names: Collection[str]) -> None:
        if self._disks.keys() != set(names):
            self._disks = {name: _is_disk(name, self._place(name)) for name in names}

    def _has_size(self, name: str) -> bool:
        """Return whether there is a disk: a slot for one of the network has none as long as it is not connected."""
        return (text(self._place(name) / "size") or "").strip() != "0"

    def _place(self, name: str) -> Path:
        return self._sys / _BLOCK / name.replace("/", "!")


def _is_disk(name: str, place: Path) -> bool:
    if _NO_DISK.fullmatch(name) or _PATH.fullmatch(name) or (text(place / "hidden") or "").strip() == "1":
        return False
    if any((place / kind).exists() for kind in ("partition", "dm", "md", "loop")):
        return False
    try:
        if any((place / "slaves").iterdir()):
            return False
    except OSError:  # it has none, or sysfs does not show it
        pass
    return (place / "queue").exists() or not _PARTITION.fullmatch(name)


@dataclass(frozen=True, slots=True)
class _DiskCounters:
    read_at: float  # monotonic seconds
    blocks: dict[str, BlockCounters]
    mounts: list[Mount]
    counted: dict[str, MountCounters]  # by mount point


class DiskSource:
    """Reads disks and network mounts; one row of `disk_samples` for each.

    FUSE mounts are named without numbers: their clients show none. `devices_left_out` counts what the last reading
    left out for being too many.
    """

    name = "disk"
    period_seconds = 0.0

    def __init__(
        self, proc: Path = Path("/proc"), monotonic: Callable[[], float] = time.monotonic, sys: Path = Path("/sys")
    ) -> None:
        self.devices_left_out = 0
        self._proc = proc
        self._devices = BlockDevices(proc, sys)
        self._lustre = lustre_places(proc, sys)
        self._monotonic = monotonic
        self._last: _DiskCounters | None = None

    def read(self) -> Reading:
        """Return a row per device; the amounts come with a device's second reading.

        Raises:
            SourceError: neither the disks nor the mounts can be read.
        """
        with understanding(self._proc):
            now = self._counters()
        last = self._last or _DiskCounters(now.read_at, {}, [], {})
        elapsed = now.read_at - last.read_at
        # The disks that have moved most stay in, so that a shelf of a hundred cold ones hides no scratch disk.
        disks = sorted(now.blocks, key=lambda name: (-_moved(now.blocks[name]), name))
        rows = [_block_row(name, last.blocks.get(name), now.blocks[name], elapsed) for name in disks[:DEVICES_MAX]]
        rows += [
            _mount_row(mount, last.counted.get(mount.point), now.counted.get(mount.point))
            for mount in now.mounts[:_MOUNTS_MAX]
        ]
        self.devices_left_out = len(disks) + len(now.mounts) - len(rows)
        self._last = now
        return {"disk_samples": rows}

    def _counters(self) -> _DiskCounters:
        blocks, mountinfo = self._devices.counters(), text(self._proc / "self" / "mountinfo")
        if blocks is None and mountinfo is None:
            raise SourceError(f"{self._proc} lists no disks and no mounts; mount procfs there, or set its path")
        mounts = network_mounts(mountinfo or "")
        return _DiskCounters(self._monotonic(), blocks or {}, mounts, self._counted(mounts))

    def _counted(self, mounts: Sequence[Mount]) -> dict[str, MountCounters]:
        kinds = {mount.kind for mount in mounts}
        found: dict[str, MountCounters] = {}
        if "nfs" in kinds:
            found |= nfs_counters(text(self._proc / "self" / "mountstats") or "")
        if "lustre" in kinds:
            found |= _at_mounts(mounts, "lustre", lustre_counters(self._lustre), _lustre_system)
        if "cifs" in kinds:
            shares = cifs_counters(text(self._proc / "fs" / "cifs" / "Stats") or "")
            found |= _at_mounts(mounts, "cifs", shares, _share_name)
        return found

    def coverage(self) -> list[str]:
        """Return what of this host's disks and mounts is not seen, in words. To be asked after a reading."""
        mounts = self._last.mounts if self._last else []
        counted = self._last.counted if self._last else {}
        told = {_name(mount) for mount in mounts if mount.point in counted}
        lines = [_uncounted(mount) for mount in mounts if _name(mount) not in told]
        others = uncounted_mounts(text(self._proc / "self" / "mountinfo") or "")
        lines += [f"mounts of {fstype} are not reported: the client exposes no byte counts" for fstype in others]
        if self.devices_left_out:
            lines.append(f"{self.devices_left_out} disks and mounts exceed the limit and are not reported")
        return lines


def _moved(counters: BlockCounters) -> int:
    return counters.read_bytes + counters.written_bytes


def _block_row(name: str, before: BlockCounters | None, now: BlockCounters, elapsed_seconds: float) -> Row:
    """Return the row of one disk; amounts are None on its first reading and across a reset."""
    row: dict[str, str | int | float | None] = {"device": name, "mount_kind": "block"}
    if before is None:
        return row
    moved = differences(before, now, (*_AMOUNTS, *_TIMES), narrow=_TIMES)
    busy = moved.pop("busy_milliseconds")
    row["busy_ratio"] = share(busy, elapsed_seconds * _MILLISECONDS)
    row["read_wait_seconds"] = _seconds(moved.pop("read_milliseconds"), _MILLISECONDS)
    return row | moved


def _name(mount: Mount) -> tuple[str, str]:
    """Return what is mounted there; of what shares its counters, all mounts have one name."""
    names = {"lustre": _lustre_system, "cifs": _share_name}
    return mount.kind, names[mount.kind](mount.source) if mount.kind in names else mount.point


def _uncounted(mount: Mount) -> str:
    if mount.kind == "lustre":
        return (
            f"{mount.point} (lustre) is reported without bytes: its counters are in /sys/kernel/debug, which only root "
            "may enter; remount it with gid= and mode=0750 for the agent's group"
        )
    return f"{mount.point} ({mount.kind}) is reported without bytes: its client does not count them"


def _mount_row(mount: Mount, before: MountCounters | None, now: MountCounters | None) -> Row:
    """Return the row of one network mount; amounts are None on its first reading and where it was mounted anew."""
    row: dict[str, str | int | float | None] = {"device": mount.point, "mount_kind": mount.kind}
    if before is None or now is None:
        return row
    moved = differences(before, now, (*_AMOUNTS, "age_seconds", "read_microseconds"))
    del moved["age_seconds"]  # only shows whether it is the same mount
    row["read_wait_seconds"] = _seconds(moved.pop("read_microseconds"), SECOND_US)
    return row | moved


def _seconds(count: int | None, per_second: int) -> float | None:
    return None if count is None else count / per_second
