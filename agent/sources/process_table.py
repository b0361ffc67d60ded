"""The processes of the host: one pass over /proc, what each spent since the last, and the trees behind the GPUs."""

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from agent.attribution.devices import GpuProcess
from agent.attribution.evidence import Identity, Process, read_process
from agent.errors import SourceError
from agent.procfs import short

# Every process of the host in one pass over /proc: one read of `stat` a process, and nothing else.
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
        raise SourceError(f"{proc} cannot be listed ({error}); mount procfs there, or set its path") from error
    if len(pids) > limit:
        first = {str(pid) for pid in wanted}
        pids.sort(key=lambda pid: pid not in first)
    lines = (short(f"{proc}/{pid}/stat") for pid in islice(pids, limit))
    stats = (parse_stat(line) for line in lines if line is not None)
    return ProcessTable({stat.pid: stat for stat in stats if stat is not None}, max(0, len(pids) - limit))


# One process and those above it, as /proc shows them now: for the few that are asked about, without a whole pass.
_ANCESTORS_MAX = 64


def lineage(proc: Path, pid: int) -> list[Identity]:
    """Return a process, its parent, and so on up; empty where /proc does not show it."""
    line: list[Identity] = []
    while len(line) < _ANCESTORS_MAX and (stat := read_stat(proc, pid)) is not None:
        line.append((pid, stat.started_ticks))
        pid = stat.parent
    return line


def process_of(proc: Path, line: Sequence[Identity]) -> Process | None:
    """Return what is seen of the process that a lineage begins with, or None where there is none any more."""
    return read_process(proc, *line[0], above=line[1:]) if line else None


def lives(proc: Path, identity: Identity) -> bool:
    """Return whether this process, and not another of its number, is still there."""
    stat = read_stat(proc, identity[0])
    return stat is not None and stat.started_ticks == identity[1] and stat.state != "Z"


def read_stat(proc: Path, pid: int) -> Stat | None:
    """Return what /proc says of a process now, or None where there is none of this number."""
    line = short(f"{proc}/{pid}/stat") if pid > 0 else None
    return None if line is None else parse_stat(line)


# What each process spent between two passes, where children end and hand their counters to their parents.
Counter = tuple[int, int]  # own, and taken over from the children that it waited for


@dataclass(frozen=True, slots=True)
class Changes:
    """Who came and who went between two complete passes over /proc."""

    born: frozenset[int]
    departed: Mapping[int, int]  # to the nearest ancestor that lives: whoever waited for it, waited last


def changes(before: Mapping[int, Stat], now: Mapping[int, Stat]) -> Changes:
    """Return the difference of two passes; a pid with another start is another process."""
    same = {pid for pid, stat in now.items() if pid in before and before[pid].started_ticks == stat.started_ticks}
    departed = {pid: _heir(pid, before, same) for pid in before if pid not in same}
    return Changes(frozenset(now.keys() - same), departed)


def _heir(pid: int, before: Mapping[int, Stat], living: set[int]) -> int:
    seen = {pid}
    while (parent := before[pid].parent) not in living and parent in before and parent not in seen:
        pid = parent
        seen.add(pid)
    return parent


def cpu_spent(before: Mapping[int, Counter], now: Mapping[int, Counter], change: Changes) -> dict[int, int | None]:
    """Return what each process of `now` spent, children included that came and went meanwhile.

    When a child is waited for, the kernel adds all it ever spent to its parent's counter. What it had spent by the
    last pass was told then, and is taken off here; a parent that ignores its children takes nothing over, and then
    nothing is below 0. A process that is older than the last pass but was not read then is unknown.
    """
    told: dict[int, int] = {}
    for pid, heir in change.departed.items():
        told[heir] = told.get(heir, 0) + sum(before.get(pid, (0, 0)))
    return {pid: _one(pid, before, counter, told.get(pid, 0), change) for pid, counter in now.items()}


def _one(pid: int, before: Mapping[int, Counter], now: Counter, told: int, change: Changes) -> int | None:
    if pid in change.born:
        return now[0] + now[1]
    if pid not in before:
        return None
    own, reaped = now[0] - before[pid][0], now[1] - before[pid][1]
    return max(0, own) + max(0, reaped - told)


_FIELD = re.compile(rb"^(read_bytes|write_bytes): (\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class IoTable:
    """Bytes by pid. The kernel adds a reaped child's bytes to its parent's, so that all count as taken over."""

    read: dict[int, Counter]
    written: dict[int, Counter]


def read_io(proc: Path, pids: Iterable[int]) -> IoTable:
    """Return the bytes of these processes; one that may not be looked at, or has ended, is left out.

    Other users' processes need CAP_SYS_PTRACE. Source: proc_pid_io(5); what was fetched from and sent to storage,
    not what was served from the page cache.
    """
    table = IoTable({}, {})
    for pid in pids:
        fields = dict(_FIELD.findall(short(f"{proc}/{pid}/io") or b""))
        if len(fields) == 2:
            table.read[pid] = (0, int(fields[b"read_bytes"]))
            table.written[pid] = (0, int(fields[b"write_bytes"]))
    return table


# Which processes stand behind one run on one GPU.
RunOnGpu = tuple[str, str | None]  # run id, and the GPU's UUID or None for a tree that holds none


@dataclass(frozen=True, slots=True)
class Tree:
    """The processes behind one run on one GPU; sets of pids.

    Where some of the holders are at home on this GPU, the tree is theirs: a rank's small context on GPU 0 does not
    make its workers those of rank 0. `booked` are those whose amounts are told with this GPU: a process that holds
    several GPUs is told once, at home.
    """

    root: int
    workers: frozenset[int]
    booked: frozenset[int]


def nearest_roots(processes: Mapping[int, Stat], roots: Set[int]) -> dict[int, int]:
    """Return for every process below a root, and for each root, the nearest root at or above it.

    The pass over /proc is not one moment: where it shows a circle of parents, none of them is below a root.
    """
    found: dict[int, int | None] = {root: root for root in roots}
    for pid in processes:
        path: list[int] = []
        step: int | None = pid
        while step is not None and step not in found:
            found[step] = None  # until known; a circle ends here
            path.append(step)
            step = processes[step].parent if step in processes else None
        root = found.get(step) if step is not None else None
        found.update(dict.fromkeys(path, root))
    return {pid: root for pid, root in found.items() if root is not None}


def home_gpus(holders: Sequence[GpuProcess]) -> dict[int, str]:
    """Return for each process the GPU on which it holds most memory, where its amounts are told.

    Ranks often leave a small context on GPU 0 as well; the memory tells which one they work on.
    """
    eldest = sorted(holders, key=lambda held: (-(held.memory_used_bytes or 0), held.gpu_uuid))
    homes: dict[int, str] = {}
    for held in eldest:
        homes.setdefault(held.pid, held.gpu_uuid)
    return homes


def trees(
    processes: Mapping[int, Stat], holders: Mapping[RunOnGpu, frozenset[int]], homes: Mapping[int, str]
) -> dict[RunOnGpu, Tree]:
    """Return the tree of each run on each GPU, from the pids that hold it (or, with no GPU, that are watched).

    Every process belongs to the nearest holder above it, so that no two trees of different holders overlap.
    """
    roots = frozenset().union(*holders.values())
    nearest = nearest_roots(processes, roots)
    members: dict[int, set[int]] = {}
    for pid, root in nearest.items():
        members.setdefault(root, set()).add(pid)
    return {key: _tree(key[1], pids, members, homes, processes) for key, pids in holders.items()}


def _tree(
    gpu: str | None,
    pids: frozenset[int],
    members: Mapping[int, set[int]],
    homes: Mapping[int, str],
    processes: Mapping[int, Stat],
) -> Tree:
    at_home = frozenset(pid for pid in pids if homes.get(pid) == gpu)
    holders = at_home or pids
    everyone = frozenset().union(*(members.get(pid, ()) for pid in holders))
    heads = {pid for pid in holders if processes[pid].parent not in everyone}
    root = min(heads or holders, key=lambda pid: (processes[pid].started_ticks, pid))
    return Tree(root, everyone - heads, everyone if at_home else frozenset())
