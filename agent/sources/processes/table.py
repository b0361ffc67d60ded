"""Every process of the host in one pass over /proc: one read of `stat` a process, and nothing else."""

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from agent.errors import SourceError
from agent.procfs import short

_PROCESSES_MAX = 65_536
TICKS_PER_SECOND = 100  # USER_HZ, the unit of /proc/<pid>/stat, is 100 on every architecture with NVIDIA's driver


@dataclass(frozen=True, slots=True)
class Stat:
    """One process at one moment. `own` is its CPU ticks, `reaped` those of its children that it has waited for."""

    pid: int
    parent: int
    state: str
    started_ticks: int
    own: int
    reaped: int
    name: str = ""  # 15 characters at most, and whatever the process calls itself


@dataclass(frozen=True, slots=True)
class ProcessTable:
    """The processes of one pass. Where `left_out` is above 0, the pass was cut short and proves no absence."""

    processes: Mapping[int, Stat]
    left_out: int


def parse_stat(line: bytes) -> Stat | None:
    """Return what one /proc/<pid>/stat says, or None where it is not one.

    The name stands in brackets and may hold anything, brackets and line breaks too: the last one closes it.
    Source: proc_pid_stat(5), fields 1, 3, 4, 14 to 17 and 22.
    """
    head, closing, rest = line.rpartition(b")")
    fields = rest.split(maxsplit=20)
    if not closing or len(fields) < 20:
        return None
    return Stat(
        pid=int(head[: head.index(b" ")]),
        parent=int(fields[1]),
        state=fields[0].decode("ascii", "replace"),
        started_ticks=int(fields[19]),
        own=int(fields[11]) + int(fields[12]),
        reaped=int(fields[13]) + int(fields[14]),
        name=head[head.index(b"(") + 1 :].decode("utf-8", "replace"),
    )


def read_table(proc: Path, limit: int = _PROCESSES_MAX, wanted: Collection[int] = ()) -> ProcessTable:
    """Return the processes of the host; one that ends during the pass is simply not there.

    Those in `wanted` come first, so that a pass that is cut short still tells whether they live.

    Raises:
        SourceError: /proc cannot be listed.
    """
    try:
        pids = [entry for entry in os.listdir(proc) if entry.isdigit()]  # noqa: PTH208 (a Path for each costs as much as the reading)
    except OSError as error:
        raise SourceError(f"{proc} cannot be listed ({error}); mount procfs there or name its place") from error
    if len(pids) > limit:
        first = {str(pid) for pid in wanted}
        pids.sort(key=lambda pid: pid not in first)
    lines = (short(f"{proc}/{pid}/stat") for pid in islice(pids, limit))
    stats = (parse_stat(line) for line in lines if line is not None)
    return ProcessTable({stat.pid: stat for stat in stats if stat is not None}, max(0, len(pids) - limit))
