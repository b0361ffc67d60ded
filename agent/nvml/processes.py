"""Which processes hold a GPU, how much of its memory, and how much of its SM time they take."""

from collections import defaultdict
from typing import Any

import pynvml

from agent.gpu_process import GpuProcess
from agent.nvml.calls import Calls

MOST_PROCESSES = 4096  # of one GPU and one reading; what is beyond is counted as a failure of the listing


class Processes:
    """The processes of one GPU or MIG instance, and how far the driver's record of their SM time was read."""

    def __init__(self, uuid: str, calls: Calls) -> None:
        self._uuid = uuid
        self._calls = calls
        self._read_until: int | None = None

    def read(self, handle: object) -> list[GpuProcess]:
        """Return who holds the GPU now, by pid.

        Raises:
            SourceLostError: the GPU is gone until it is reset.
            DriverChangedError: the driver was replaced under this process.
        """
        memory = self._memory(handle)
        shares = self._shares(handle, set(memory)) if memory else {}
        return [GpuProcess(self._uuid, pid, memory[pid], shares.get(pid)) for pid in sorted(memory)]

    def _memory(self, handle: object) -> dict[int, int | None]:
        """Return pid to bytes; a process with several contexts is one process."""
        found: dict[int, int | None] = {}
        for entry in (*self._listed(handle), *self._listed_by_mps(handle)):
            if len(found) < MOST_PROCESSES:
                found[entry.pid] = _larger(found.get(entry.pid), entry.usedGpuMemory)
        return found

    def _listed(self, handle: object) -> list[Any]:
        """Ask in the driver's newest form; drivers before 510 know only the older one."""
        newest = pynvml.nvmlDeviceGetComputeRunningProcesses_v3
        listed = self._calls.ask(newest, handle)
        if listed is None and not self._calls.supports(newest.__name__):
            listed = self._calls.ask(pynvml.nvmlDeviceGetComputeRunningProcesses_v2, handle)
        return listed or []

    def _listed_by_mps(self, handle: object) -> list[Any]:
        return self._calls.ask(pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v3, handle) or []

    def _shares(self, handle: object, holders: set[int]) -> dict[int, float]:
        """Return pid to share of SM time, for all holders or for none."""
        since = self._read_until
        samples = self._calls.ask(pynvml.nvmlDeviceGetProcessUtilization, handle, since or 0) or []
        new = [sample for sample in samples if sample.timeStamp > (since or 0)]
        self._read_until = max((sample.timeStamp for sample in new), default=since or 0)
        if since is None:  # asked from the beginning of time, the driver answers with samples of any age
            return {}
        busy: dict[int, list[int]] = defaultdict(list)
        for sample in new:
            if sample.smUtil <= 100:  # the driver is known to return garbage above 100 %
                busy[sample.pid].append(sample.smUtil)
        if not holders.intersection(busy):
            return {}
        return {pid: sum(busy[pid]) / len(busy[pid]) / 100 if pid in busy else 0.0 for pid in holders}


def _larger(first: int | None, second: int | None) -> int | None:
    return max((value for value in (first, second) if value is not None), default=None)
