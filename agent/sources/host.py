"""The host's processors, memory and pressure, and what else its kernel counts, as psutil reads it from procfs.

The only module that imports psutil. The pass over all processes is not psutil's but ours (process_table.py): of two
hundred it takes 0.51 ms, psutil 3.0.
"""

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from agent.errors import SourceError
from agent.procfs import difference, share, text, understanding
from agent.source import Reading
from agent.wire.units import SECOND_US

# What psutil ends in where a file has another form than it knows; it promises nothing of that.
_FORM = (ArithmeticError, AssertionError, LookupError, NotImplementedError, RuntimeError, TypeError, ValueError)


def _processor_ticks(proc: Path) -> dict[str, int]:
    """Return the ticks of all cores since boot by what they went to (user, idle, iowait, …).

    Raises:
        SourceError: procfs does not tell them.
    """
    with _below(proc):
        told = psutil.cpu_times()._asdict()
    # psutil has divided by it; whole numbers again, two readings differ by whole numbers.
    return {what: round(seconds * os.sysconf("SC_CLK_TCK")) for what, seconds in told.items()}


def host_memory(proc: Path) -> tuple[int, int] | None:
    """Return the host's memory and what of it can be had without swapping, in bytes, or None where it is not told."""
    try:
        with _below(proc):
            found = psutil.virtual_memory()
    except SourceError:
        return None
    return found.total, found.available


def interface_counts(proc: Path) -> Mapping[str, Any]:
    """Return psutil's counters of every network interface.

    Raises:
        SourceError: procfs does not tell them.
    """
    with _below(proc):
        return psutil.net_io_counters(pernic=True, nowrap=False)


def disk_counts(proc: Path) -> Mapping[str, Any] | None:
    """Return psutil's counters of every disk and partition, or None where procfs tells of none.

    Raises:
        SourceError: it tells them in a form that is not known.
    """
    if not (proc / "diskstats").exists():  # psutil would then tell those of its own /sys
        return None
    with _below(proc):
        return psutil.disk_io_counters(perdisk=True, nowrap=False)


@contextmanager
def _below(proc: Path) -> Iterator[None]:
    # There is one such place in a process, and one procfs in an agent: no thread ever finds that of another here.
    psutil.PROCFS_PATH = str(proc)
    try:
        yield
    except OSError as error:
        raise SourceError(f"{error.filename or proc} cannot be read; mount procfs there, or set its path") from error
    except _FORM as error:
        raise SourceError(f"a file under {proc} has an unknown format ({error}); please report it") from error


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
    ticks = _processor_ticks(proc)
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
    period_seconds = 0.0

    def __init__(self, proc: Path = Path("/proc"), monotonic: Callable[[], float] = time.monotonic) -> None:
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
        total, available = host_memory(self._proc) or (None, None)
        row["memory_used_bytes"] = difference(available, total)  # what cannot be had without swapping
        row["memory_available_bytes"] = available
        self._last = now
        return {"host_samples": [row]}

    def _counters(self) -> _HostCounters:
        ticks = cpu_ticks(self._proc)
        stalled = {what: stalled_microseconds(text(self._proc / "pressure" / what)) for what in PRESSURES}
        return _HostCounters(self._monotonic(), ticks, stalled)
