"""Which processes stand behind one run on one GPU."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from agent.attribution.gpu_process import GpuProcess
from agent.sources.processes.table import Stat

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
    processes: Mapping[int, Stat],
    holders: Mapping[RunOnGpu, frozenset[int]],
    homes: Mapping[int, str],
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
