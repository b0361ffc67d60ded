"""What NFS says of its traffic, from /proc/<pid>/mountstats."""

import re

from agent.procfs import unescaped
from agent.sources.mounts.counters import MountCounters
from agent.sources.mounts.table import mount_kind
from agent.wire.units import MILLISECOND_US

_HEADER = re.compile(r"^device (?:.+) mounted on (\S+) with fstype (\S+)", re.MULTILINE)
_AGE = re.compile(r"^\s*age:\s+(\d+)$", re.MULTILINE)
_BYTES = re.compile(r"^\s*bytes:\s+(.+)$", re.MULTILINE)
_OPERATION = re.compile(r"^\s*(READ|WRITE):\s+(.+)$", re.MULTILINE)


def nfs_counters(mountstats: str) -> dict[str, MountCounters]:
    """Return the counters of each NFS mount point of /proc/<pid>/mountstats.

    Raises:
        ValueError: a number is none.

    Source: include/linux/nfs_iostat.h (bytes: normal, direct and server, each read and written) and
    rpc_print_iostats of net/sunrpc/stats.c (operations, transmissions, timeouts, bytes sent and received,
    milliseconds in queue, of round trip, in all).
    """
    headers = list(_HEADER.finditer(mountstats))
    ends = [header.start() for header in headers[1:]] + [len(mountstats)]
    found: dict[str, MountCounters] = {}
    for header, end in zip(headers, ends, strict=True):
        if mount_kind(header[2]) == "nfs":
            counters = _counters(mountstats[header.end() : end])
            if counters is not None:
                found[unescaped(header[1])] = counters
    return found


def _counters(block: str) -> MountCounters | None:
    match = _BYTES.search(block)
    moved = [int(field) for field in match[1].split()] if match else []
    if len(moved) < 6:
        return None
    operations = {name: [int(field) for field in fields.split()] for name, fields in _OPERATION.findall(block)}
    read, write = operations.get("READ", []), operations.get("WRITE", [])
    return MountCounters(
        read_bytes=moved[4],
        written_bytes=moved[5],
        reads=read[0] if read else None,
        writes=write[0] if write else None,
        read_microseconds=read[7] * MILLISECOND_US if len(read) > 7 else None,
        age_seconds=int(age[1]) if (age := _AGE.search(block)) else None,
    )
