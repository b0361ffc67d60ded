"""What one network file system has moved over the wire."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from agent.sources.mounts.table import Mount


@dataclass(frozen=True, slots=True)
class MountCounters:
    """What went over the wire since the file system was mounted; None is what its client does not count."""

    read_bytes: int
    written_bytes: int
    reads: int | None
    writes: int | None
    read_microseconds: int | None  # queue and round trip together, as a reader waits for both
    age_seconds: int | None = None  # since it was mounted


def at_mounts(
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
