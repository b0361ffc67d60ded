"""The host's processors, memory and pressure."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agent.procfs import difference, share, text, understanding
from agent.source import Reading
from agent.sources.counters import memory, processor_ticks
from agent.wire.units import SECOND_US

PRESSURES = ("cpu", "io", "memory")

_SOME = re.compile(r"^some .*\btotal=(\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class CpuTicks:
    """Ticks of all cores since boot. Busy is all but idle and iowait, so that time stolen by a hypervisor is busy."""

    busy: int
    idle: int
    iowait: int


@dataclass(frozen=True, slots=True)
class _HostCounters:
    read_at: float  # monotonic seconds
    ticks: CpuTicks
    stalled: dict[str, int | None]


def cpu_ticks(proc: Path) -> CpuTicks:
    """Return the ticks of all cores; guest time is already within user and nice (proc_stat(5)).

    Raises:
        SourceError: procfs does not tell them.
    """
    ticks = processor_ticks(proc)
    idle, iowait = ticks.pop("idle"), ticks.pop("iowait")
    return CpuTicks(sum(spent for what, spent in ticks.items() if not what.startswith("guest")), idle, iowait)


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
            SourceError: procfs does not tell the processors' time.
        """
        with understanding(self._proc):
            now = self._counters()
        row: dict[str, float | int | None] = {}
        if (last := self._last) is not None:
            row["cpu_busy_ratio"], row["cpu_iowait_ratio"] = cpu_ratios(last.ticks, now.ticks)
            elapsed = (now.read_at - last.read_at) * SECOND_US
            for what in PRESSURES:
                stalled = difference(last.stalled[what], now.stalled[what])
                row[f"pressure_{what}_some_ratio"] = share(stalled, elapsed)
        total, available = memory(self._proc) or (None, None)
        row["memory_used_bytes"] = difference(available, total)  # what cannot be had without swapping
        row["memory_available_bytes"] = available
        self._last = now
        return {"host_samples": [row]}

    def _counters(self) -> _HostCounters:
        ticks = cpu_ticks(self._proc)
        stalled = {what: stalled_microseconds(text(self._proc / "pressure" / what)) for what in PRESSURES}
        return _HostCounters(self._monotonic(), ticks, stalled)
