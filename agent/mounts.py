"""Network mounts (NFS, Lustre, FUSE) and what NFS says of its traffic, from procfs."""

import re
from dataclasses import dataclass

from agent.procfs import unescaped

# File systems of FUSE that hold no data of a run: they would only crowd the rows.
LOCAL_FUSE = frozenset({"fuse.lxcfs", "fuse.gvfsd-fuse", "fuse.portal", "fuse.snapfuse", "fuse.fuse-overlayfs"})

_HEADER = re.compile(r"^device (?:.+) mounted on (\S+) with fstype (\S+)", re.MULTILINE)
_AGE = re.compile(r"^\s*age:\s+(\d+)$", re.MULTILINE)
_BYTES = re.compile(r"^\s*bytes:\s+(.+)$", re.MULTILINE)
_OPERATION = re.compile(r"^\s*(READ|WRITE):\s+(.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Mount:
    """One network file system where it is mounted first; further mounts of it show the same traffic."""

    point: str
    kind: str  # nfs, lustre or fuse


@dataclass(frozen=True, slots=True)
class NfsCounters:
    """What went over the wire since the file system was mounted."""

    read_bytes: int
    written_bytes: int
    reads: int | None
    writes: int | None
    age_seconds: int | None  # since it was mounted
    read_milliseconds: int | None  # queue and round trip together, as a reader waits for both


def mount_kind(fstype: str) -> str | None:
    """Return nfs, lustre or fuse, or None for a file system that is local or not known."""
    if fstype in ("nfs", "nfs4"):
        return "nfs"
    if fstype == "lustre":
        return "lustre"
    return "fuse" if fstype.startswith("fuse.") and fstype not in LOCAL_FUSE else None


def network_mounts(mountinfo: str) -> list[Mount]:
    """Return each network file system of /proc/<pid>/mountinfo once, in the order of mounting.

    A file system that is mounted or bound in several places (one volume in thirty pods) has one device number, and
    its counters would be counted once per place. Source: proc_pid_mountinfo(5).
    """
    found: dict[str, Mount] = {}
    for line in mountinfo.splitlines():
        place, _, filesystem = line.partition(" - ")
        fields, kind = place.split(), mount_kind(filesystem.partition(" ")[0])
        if kind is not None and len(fields) >= 5:
            found.setdefault(fields[2], Mount(unescaped(fields[4]), kind))
    return list(found.values())


def nfs_counters(mountstats: str) -> dict[str, NfsCounters]:
    """Return the counters of each NFS mount point of /proc/<pid>/mountstats.

    Source: include/linux/nfs_iostat.h (bytes: normal, direct and server, each read and written) and
    rpc_print_iostats of net/sunrpc/stats.c (operations, transmissions, timeouts, bytes sent and received,
    milliseconds in queue, of round trip, in all).
    """
    headers = list(_HEADER.finditer(mountstats))
    ends = [header.start() for header in headers[1:]] + [len(mountstats)]
    found: dict[str, NfsCounters] = {}
    for header, end in zip(headers, ends, strict=True):
        if mount_kind(header[2]) == "nfs":
            counters = _nfs_counters(mountstats[header.end() : end])
            if counters is not None:
                found[unescaped(header[1])] = counters
    return found


def _nfs_counters(block: str) -> NfsCounters | None:
    match = _BYTES.search(block)
    moved = [int(field) for field in match[1].split()] if match else []
    if len(moved) < 6:
        return None
    operations = {name: [int(field) for field in fields.split()] for name, fields in _OPERATION.findall(block)}
    read, write = operations.get("READ", []), operations.get("WRITE", [])
    return NfsCounters(
        read_bytes=moved[4],
        written_bytes=moved[5],
        reads=read[0] if read else None,
        writes=write[0] if write else None,
        age_seconds=int(age[1]) if (age := _AGE.search(block)) else None,
        read_milliseconds=read[7] if len(read) > 7 else None,
    )
