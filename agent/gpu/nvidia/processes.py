"""Which processes hold a GPU, how much of its memory, and how much of its SM time they take."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pynvml

from agent.attribution.gpu_process import GpuProcess, Holding
from agent.gpu.nvidia.calls import Calls

MOST_PROCESSES = 4096  # of one GPU and one reading; a longer list is not known whole


class Processes:
    """The processes of one GPU or MIG instance, and how far the driver's record of their SM time was read."""

    def __init__(self, uuid: str, calls: Calls) -> None:
        self._uuid = uuid
        self._calls = calls
        self._read_until: int | None = None
        self._has_mps = False  # its clients were listed once: a refusal is then no proof that there are none

    def read(self, handle: object) -> Holding:
        """Return who holds the GPU now, by pid; where a list cannot be read it is not known whole.

        Raises:
            SourceLostError: the GPU is gone until it is reset.
            DriverChangedError: the driver was replaced under this process.
        """
        lists = (self._listed(handle), self._listed_by_mps(handle))
        memory = _memory(entry for entries in lists for entry in entries or ())
        kept = sorted(memory)[:MOST_PROCESSES]
        shares = self._shares(handle, set(memory)) if memory else {}
        is_whole = None not in lists and len(kept) == len(memory)
        return Holding(
            tuple(GpuProcess(self._uuid, pid, memory[pid], shares.get(pid)) for pid in kept),
            frozenset((self._uuid,)) if is_whole else frozenset(),
        )

    def _listed(self, handle: object) -> Sequence[Any] | None:
        """Ask in the driver's newest form; drivers before 510 know only the older one."""
        newest = pynvml.nvmlDeviceGetComputeRunningProcesses_v3
        listed = self._list(newest, handle)
        if listed is None and not self._calls.supports(newest.__name__):
            listed = self._list(pynvml.nvmlDeviceGetComputeRunningProcesses_v2, handle)
        return listed

    def _listed_by_mps(self, handle: object) -> Sequence[Any] | None:
        """Ask for the clients of MPS, which a driver that never knew any does not have."""
        question = pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v3
        listed = self._list(question, handle)
        self._has_mps = self._has_mps or bool(listed)
        return listed if listed is not None or self._has_mps or self._calls.supports(question.__name__) else ()

    def _list(self, question: Callable[[Any], Sequence[Any]], handle: object) -> Sequence[Any] | None:
        """Return a list of the driver's, or None where it could not be read: that is not an empty one."""
        listed = self._calls.ask(question, handle)
        return () if listed is None and self._calls.refusal(question.__name__) is None else listed

    def _shares(self, handle: object, holders: set[int]) -> dict[int, float]:
        """Return pid to share of SM time, for all holders or for none."""
        since, question = self._read_until, pynvml.nvmlDeviceGetProcessUtilization
        samples = self._calls.ask(question, handle, since or 0)
        if samples is None and self._calls.refusal(question.__name__) is not None:
            return {}
        samples = samples or ()  # the binding raises an error of code 0 where there is nothing new
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


def _memory(entries: Iterable[Any]) -> dict[int, int | None]:
    """Return pid to bytes; a process with several contexts is one process."""
    found: dict[int, int | None] = {}
    for entry in entries:
        found[entry.pid] = _larger(found.get(entry.pid), entry.usedGpuMemory)
    return found


def _larger(first: int | None, second: int | None) -> int | None:
    return max((value for value in (first, second) if value is not None), default=None)
