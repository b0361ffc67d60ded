"""What SMB shares (Azure Files among them) moved over the wire, from /proc/fs/cifs/Stats."""

import re

from agent.sources.mounts.counters import MountCounters

_SHARE = re.compile(r"^\d+\) (\\\\\S+)", re.MULTILINE)
_BYTES = re.compile(r"Bytes read: (\d+)\s+Bytes written: (\d+)")
_READS = re.compile(r"^Reads: (\d+) total", re.MULTILINE)
_WRITES = re.compile(r"^Writes: (\d+) total", re.MULTILINE)


def cifs_counters(stats: str) -> dict[str, MountCounters]:
    r"""Return the counters of each share, named as it is mounted: //server/share.

    The kernel writes \\server\share. Source: cifs_stats_proc_show and smb2_print_stats of fs/smb/client.
    """
    shares = list(_SHARE.finditer(stats))
    ends = [share.start() for share in shares[1:]] + [len(stats)]
    found: dict[str, MountCounters] = {}
    for share, end in zip(shares, ends, strict=True):
        block = stats[share.end() : end]
        if (moved := _BYTES.search(block)) is not None:
            name = share_name(share[1].replace("\\", "/"))
            found.setdefault(name, MountCounters(int(moved[1]), int(moved[2]), *_calls(block), None))
    return found


def share_name(source: str) -> str:
    """Return //server/share of what is mounted, which may be a directory within it."""
    return "/".join(source.split("/")[:4]).lower()


def _calls(block: str) -> tuple[int | None, int | None]:
    reads, writes = _READS.search(block), _WRITES.search(block)
    return int(reads[1]) if reads else None, int(writes[1]) if writes else None
