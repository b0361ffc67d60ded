"""The host's processors, memory and pressure, from procfs."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agent.clock import MICROSECONDS
from agent.errors import SourceError
from agent.procfs import difference, share, text, understanding
from agent.source import Reading

BYTES_PER_KIB = 1024
PRESSURES = ("cpu", "io", "memory")

_SOME = re.compile(r"^some .*\btotal=(\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class CpuTicks:
    """Ticks of all cores since boot. Busy is all but idle and iowait, so that time stolen by a hypervisor is busy."""

    busy: int
    idle: int
    iowait: int


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of host memory. Used is what cannot be had without swapping."""

    used_bytes: int
    available_bytes: int


@dataclass(frozen=True, slots=True)
class _HostCounters:
    read_at: float  # monotonic seconds
    ticks: CpuTicks
    stalled: dict[str, int | None]


def cpu_ticks(stat: str) -> CpuTicks | None:
    """Return the ticks of the first line of /proc/stat, or None where the text is not one.

    Source: proc_stat(5). Guest time (fields 9 and 10) is already within user and nice.
    """
    fields = stat.partition("\n")[0].split()
    if len(fields) < 5 or fields[0] != "cpu":
        return None
    ticks = [int(field) for field in fields[1:9]]
    idle, iowait = ticks[3], ticks[4] if len(ticks) > 4 else 0
    return CpuTicks(sum(ticks) - idle - iowait, idle, iowait)


def cpu_ratios(before: CpuTicks, now: CpuTicks) -> tuple[float | None, float | None]:
    """Return the busy and the iowait share of all cores' time between two readings.

    proc_stat(5) warns that iowait may go back: then it is unknown, and the busy share is taken without it.
    """
    busy, idle = difference(before.busy, now.busy), difference(before.idle, now.idle)
    if busy is None or idle is None:
        return None, None
    iowait = difference(before.iowait, now.iowait)
    whole = busy + idle + (iowait or 0)
    return share(busy, whole), share(iowait, whole)


def memory(meminfo: str) -> Memory | None:
    """Return what /proc/meminfo says, or None before Linux 3.14, which does not tell what is available."""
    kib = dict(re.findall(r"^(MemTotal|MemAvailable):\s+(\d+) kB$", meminfo, re.MULTILINE))
    if len(kib) < 2:
        return None
    total, available = (int(kib[name]) * BYTES_PER_KIB for name in ("MemTotal", "MemAvailable"))
    return Memory(total - available, available)


def stalled_microseconds(pressure: str | None) -> int | None:
    """Return for how long some task has waited, from a PSI file of the host or of a cgroup.

    Source: Documentation/accounting/psi.rst; the total is used, since the averages have windows of their own.
    """
    match = _SOME.search(pressure or "")
    return int(match[1]) if match else None


class HostSource:
    """Reads the host; one row of `host_samples` a reading."""

    name = "host"

    def __init__(
        self,
        proc: Path = Path("/proc"),
        period_seconds: float = 0.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.period_seconds = period_seconds
        self._proc = proc
        self._monotonic = monotonic
        self._last: _HostCounters | None = None

    def read(self) -> Reading:
        """Return the host's row; the ratios come with the second reading.

        Raises:
            SourceError: /proc/stat cannot be read.
        """
        with understanding(self._proc):
            now = self._counters()
        row: dict[str, float | int | None] = {}
        if (last := self._last) is not None:
            row["cpu_busy_ratio"], row["cpu_iowait_ratio"] = cpu_ratios(last.ticks, now.ticks)
            elapsed = (now.read_at - last.read_at) * MICROSECONDS
            for what in PRESSURES:
                stalled = difference(last.stalled[what], now.stalled[what])
                row[f"pressure_{what}_some_ratio"] = share(stalled, elapsed)
        found = memory(text(self._proc / "meminfo") or "")
        row["memory_used_bytes"] = found.used_bytes if found else None
        row["memory_available_bytes"] = found.available_bytes if found else None
        self._last = now
        return {"host_samples": [row]}

    def _counters(self) -> _HostCounters:
        ticks = cpu_ticks(text(self._proc / "stat") or "")
        if ticks is None:
            raise SourceError(f"{self._proc / 'stat'} has no processor times; mount procfs there or name its place")
        stalled = {what: stalled_microseconds(text(self._proc / "pressure" / what)) for what in PRESSURES}
        return _HostCounters(self._monotonic(), ticks, stalled)
