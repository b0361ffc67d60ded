"""Which network file systems are mounted, from /proc/<pid>/mountinfo."""

from dataclasses import dataclass

from agent.procfs import unescaped

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
    for device, point, fstype, source in _mounts(mountinfo):
        if (kind := mount_kind(fstype)) is not None:
            found.setdefault(device, Mount(point, kind, source))
    return list(found.values())


def uncounted_mounts(mountinfo: str) -> list[str]:
    """Return the types of the network file systems that are mounted and tell no bytes."""
    return sorted({fstype for _, _, fstype, _ in _mounts(mountinfo) if fstype in _UNCOUNTED})


def _mounts(mountinfo: str) -> list[tuple[str, str, str, str]]:
    """Return device number, mount point, type and source of every line that is one."""
    found: list[tuple[str, str, str, str]] = []
    for line in mountinfo.splitlines():
        place, _, filesystem = line.partition(" - ")
        fields, (fstype, _, rest) = place.split(), filesystem.partition(" ")
        if len(fields) >= 5 and fstype:
            found.append((fields[2], unescaped(fields[4]), fstype, unescaped(rest.partition(" ")[0])))
    return found
