"""Who holds GPUs while the driver cannot say it: whom it named last, as long as those processes live.

A list that cannot be read, a GPU that is lost and a driver that is silent are no word on who holds what: the process
that was there has given nothing back. It is known by pid and start, since a pid is used again, and across a restart of
the agent by the boot too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agent.attribution.gpu_process import GpuProcess, Holding
from agent.errors import SourceError
from agent.procfs import boot_id
from agent.sources.processes.lineage import read_stat
from agent.sources.processes.table import Stat
from agent.state_file import StateFile

_SECTION = "holders"
_ENDED = ("Z", "X")  # states in /proc/<pid>/stat of a process that holds nothing any more


@dataclass(frozen=True, slots=True)
class _Seen:
    process: GpuProcess
    started_ticks: int


class Holders:
    """Remembers who held which GPU, and takes the driver's word where it has one."""

    def __init__(self, proc: Path, state_file: StateFile | None = None) -> None:
        self._proc = proc
        self._state_file = state_file or StateFile(None)
        self._boot = boot_id(proc)
        self._seen = _kept(self._state_file.section(_SECTION), self._boot)

    @property
    def are_known(self) -> bool:
        """Whether anybody was ever named that may still hold a GPU."""
        return bool(self._seen)

    def asserted(self, told: Holding) -> list[GpuProcess]:
        """Return who holds a GPU by this word, and then who held one of which it says nothing."""
        silent = told.unanswered(one.process for one in self._seen)
        return [*told.processes, *(replace(one, sm_utilization_ratio=None, is_listed=False) for one in silent)]

    def seen_first(self, asserted: Sequence[GpuProcess]) -> list[GpuProcess]:
        """Return the same in an order in which nobody who comes takes the place of one who was there."""
        seen = {(one.process.gpu_uuid, one.process.pid) for one in self._seen}
        return sorted(asserted, key=lambda one: (one.gpu_uuid, one.pid) not in seen)

    def look_for_blindness(self, processes: Mapping[int, Stat]) -> None:
        """See to it that who is missing in this pass over /proc has ended.

        Raises:
            SourceError: one that was seen before is there still, and cannot be read.
        """
        for one in self._seen:
            pid = one.process.pid
            here = self._proc / str(pid)
            if pid in processes or not here.exists():
                continue
            stat = read_stat(self._proc, pid)  # of a thread of somebody else's, where the number is used again
            if stat is None or stat.started_ticks == one.started_ticks:
                raise SourceError(f"{here}/stat cannot be read now; who holds GPUs stays as it was until it can")

    def living(self, asserted: Sequence[GpuProcess], processes: Mapping[int, Stat]) -> list[GpuProcess]:
        """Return the same without those of an earlier word that have ended, and remember who is there.

        Whom the driver lists now it knows better than this host's /proc, which may not show everybody.
        """
        starts = {(one.process.gpu_uuid, one.process.pid): one.started_ticks for one in self._seen}
        found = [
            one for one in asserted if one.is_listed or _is_still(processes.get(one.pid), starts[one.gpu_uuid, one.pid])
        ]
        self._seen = [_Seen(one, processes[one.pid].started_ticks) for one in found if one.pid in processes]
        self._keep()
        return found

    def forget(self) -> None:
        """Note that nobody holds a GPU."""
        self._seen = []
        self._keep()

    def _keep(self) -> None:
        held = [
            [one.process.gpu_uuid, one.process.pid, one.started_ticks, one.process.memory_used_bytes]
            for one in self._seen
        ]
        self._state_file.keep(_SECTION, {"boot": self._boot, "held": held})


def _is_still(stat: Stat | None, started_ticks: int) -> bool:
    return stat is not None and stat.started_ticks == started_ticks and stat.state not in _ENDED


def _kept(section: Mapping[str, Any], boot: str | None) -> list[_Seen]:
    """Return whom an earlier agent of this boot saw; what it did not write so is passed over."""
    entries = section.get("held")
    if boot is None or section.get("boot") != boot or not isinstance(entries, list):
        return []
    return [seen for entry in entries if (seen := _believed(entry)) is not None]


def _believed(entry: object) -> _Seen | None:
    match entry:
        case [str(gpu_uuid), int(pid), int(started_ticks), int() | None as memory_used_bytes]:
            return _Seen(GpuProcess(gpu_uuid, pid, memory_used_bytes), started_ticks)
    return None
