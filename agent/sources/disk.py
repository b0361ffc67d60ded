"""Block devices and network mounts of the host."""

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.errors import SourceError
from agent.procfs import differences, share, text, understanding
from agent.source import Reading, Row
from agent.sources.counters import disks
from agent.sources.mounts import Mount, MountCounters, cifs_counters, lustre_counters, network_mounts, nfs_counters
from agent.sources.mounts.cifs import share_name
from agent.sources.mounts.counters import at_mounts
from agent.sources.mounts.lustre import lustre_places, system_name
from agent.sources.mounts.table import uncounted_mounts
from agent.wire.units import SECOND_US

_MILLISECONDS = 1000
DEVICES_MAX = 64
_MOUNTS_MAX = 64

_AMOUNTS = ("read_bytes", "written_bytes", "reads", "writes")

# Whole disks. Partitions, loop, ram, dm and md devices show again what a disk under them shows.
_WHOLE = re.compile(r"nvme\d+n\d+|sd[a-z]+|x?vd[a-z]+")


@dataclass(frozen=True, slots=True)
class BlockCounters:
    """What one disk has done since boot."""

    reads: int
    read_bytes: int
    read_milliseconds: int
    writes: int
    written_bytes: int
    busy_milliseconds: int


def block_counters(proc: Path) -> dict[str, BlockCounters] | None:
    """Return the counters of every whole disk by its kernel name, or None where procfs tells of no disks.

    Raises:
        SourceError: it tells of them in a form that is not known.
    """
    told = disks(proc)
    if told is None:
        return None
    return {
        name: BlockCounters(
            one.read_count, one.read_bytes, one.read_time, one.write_count, one.write_bytes, one.busy_time
        )
        for name, one in told.items()
        if _WHOLE.fullmatch(name)
    }


def disk_numbers(sys: Path) -> set[str]:
    """Return every whole disk's major:minor, by which a cgroup's io.stat calls it."""
    try:
        names = [place.name for place in (sys / "class/block").iterdir() if _WHOLE.fullmatch(place.name)]
    except OSError:
        return set()
    return {told.strip() for name in names if (told := text(sys / "class/block" / name / "dev"))}


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

    def __init__(
        self,
        proc: Path = Path("/proc"),
        period_seconds: float = 0.0,
        monotonic: Callable[[], float] = time.monotonic,
        sys: Path = Path("/sys"),
    ) -> None:
        self.period_seconds = period_seconds
        self.devices_left_out = 0
        self._proc = proc
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
        blocks, mountinfo = block_counters(self._proc), text(self._proc / "self" / "mountinfo")
        if blocks is None and mountinfo is None:
            raise SourceError(f"{self._proc} names no disks and no mounts; mount procfs there or name its place")
        mounts = network_mounts(mountinfo or "")
        return _DiskCounters(self._monotonic(), blocks or {}, mounts, self._counted(mounts))

    def _counted(self, mounts: Sequence[Mount]) -> dict[str, MountCounters]:
        kinds = {mount.kind for mount in mounts}
        found: dict[str, MountCounters] = {}
        if "nfs" in kinds:
            found |= nfs_counters(text(self._proc / "self" / "mountstats") or "")
        if "lustre" in kinds:
            found |= at_mounts(mounts, "lustre", lustre_counters(self._lustre), system_name)
        if "cifs" in kinds:
            shares = cifs_counters(text(self._proc / "fs" / "cifs" / "Stats") or "")
            found |= at_mounts(mounts, "cifs", shares, share_name)
        return found

    def coverage(self) -> list[str]:
        """Return what of this host's disks and mounts is not seen, in words. To be asked after a reading."""
        mounts = self._last.mounts if self._last else []
        counted = self._last.counted if self._last else {}
        told = {_name(mount) for mount in mounts if mount.point in counted}
        lines = [_uncounted(mount) for mount in mounts if _name(mount) not in told]
        others = uncounted_mounts(text(self._proc / "self" / "mountinfo") or "")
        lines += [f"mounts of {fstype} are not told: their client shows no bytes" for fstype in others]
        if self.devices_left_out:
            lines.append(f"{self.devices_left_out} disks and mounts are too many and are not told")
        return lines


def _moved(counters: BlockCounters) -> int:
    return counters.read_bytes + counters.written_bytes


def _block_row(name: str, before: BlockCounters | None, now: BlockCounters, elapsed_seconds: float) -> Row:
    """Return the row of one disk; amounts are None on its first reading and across a reset."""
    row: dict[str, str | int | float | None] = {"device": name, "mount_kind": "block"}
    if before is None:
        return row
    moved = differences(before, now, (*_AMOUNTS, "busy_milliseconds", "read_milliseconds"))
    busy = moved.pop("busy_milliseconds")
    row["busy_ratio"] = share(busy, elapsed_seconds * _MILLISECONDS)
    row["read_wait_seconds"] = _seconds(moved.pop("read_milliseconds"), _MILLISECONDS)
    return row | moved


def _name(mount: Mount) -> tuple[str, str]:
    """Return what is mounted there; of what shares its counters, all mounts have one name."""
    names = {"lustre": system_name, "cifs": share_name}
    return mount.kind, names[mount.kind](mount.source) if mount.kind in names else mount.point


def _uncounted(mount: Mount) -> str:
    if mount.kind == "lustre":
        return (
            f"{mount.point} (lustre) is told without bytes: its counters are in /sys/kernel/debug, which only root may"
            " enter; remount it with gid= and mode=0750 for the agent's group"
        )
    return f"{mount.point} ({mount.kind}) is told without bytes: its client counts none"


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
