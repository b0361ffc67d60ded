"""The rows of one reading: a process tree on a GPU, and a run on this host."""

from collections.abc import Iterable, Mapping, Sequence

from agent.attribution.gpu_process import GpuProcess
from agent.procfs import difference, differences, share
from agent.source import Value
from agent.sources.host import PRESSURES
from agent.sources.processes.run_counters import RunCounters, seconds
from agent.sources.processes.table import TICKS_PER_SECOND, Stat
from agent.sources.processes.tree import Tree
from agent.wire.units import SECOND_US

_WAITING = "D"  # uninterruptible sleep: for a disk or a network mount, mostly

_RUN_COUNTERS = ("read_bytes", "written_bytes", "cpu_microseconds", "throttled_microseconds")

Row = dict[str, Value]
Spent = Mapping[int, int | None]


def gpu_columns(held: Sequence[GpuProcess]) -> Row:
    """Return what a run's processes hold of one GPU.

    Memory is unknown where it is for any of them, or cannot be read now; SM shares are those that the driver told, as
    it leaves out processes that have done nothing lately.
    """
    shares = [one.sm_utilization_ratio for one in held if one.sm_utilization_ratio is not None]
    return {
        "memory_used_bytes": _total(one.memory_used_bytes if one.is_listed else None for one in held),
        "sm_utilization_ratio": min(1.0, sum(shares)) if shares else None,
    }


def worker_columns(tree: Tree, processes: Mapping[int, Stat], own_ticks: Spent, elapsed_seconds: float) -> Row:
    """Return how many workers the tree has, and how busy and how blocked they are. Without workers, no shares."""
    workers = tree.workers
    busiest = max((ticks for pid in workers if (ticks := own_ticks.get(pid)) is not None), default=None)
    waiting = sum(processes[pid].state == _WAITING for pid in workers)
    return {
        "workers": len(workers),
        "workers_busiest_cpu_ratio": share(busiest, elapsed_seconds * TICKS_PER_SECOND),
        "workers_waiting_ratio": share(waiting, len(workers)),
    }


def amount_columns(tree: Tree, ticks: Spent, read: Spent, written: Spent) -> Row:
    """Return what the tree spent, where it is told with this GPU; unknown where it is for any process of it."""
    cpu = _booked_total(tree, ticks)
    return {
        "cpu_seconds": None if cpu is None else cpu / TICKS_PER_SECOND,
        "read_bytes": _booked_total(tree, read),
        "written_bytes": _booked_total(tree, written),
    }


def _booked_total(tree: Tree, spent: Spent) -> int | None:
    """Return the sum over the tree's booked processes, or None where there are none or one is unknown."""
    return _total(spent.get(pid) for pid in tree.booked) if tree.booked else None


def _total(parts: Iterable[int | None]) -> int | None:
    """Return the sum, or None where a part is unknown: a sum of some would pass for the whole."""
    known = 0
    for part in parts:
        if part is None:
            return None
        known += part
    return known


def run_columns(before: RunCounters | None, now: RunCounters, elapsed_seconds: float) -> Row:
    """Return what a run used between two readings of its cgroup; amounts are None on the first and across a reset."""
    row: Row = {"memory_used_bytes": now.memory_used_bytes}
    if before is None:
        return row
    moved = differences(before, now, _RUN_COUNTERS)
    row["read_bytes"], row["written_bytes"] = moved["read_bytes"], moved["written_bytes"]
    row["cpu_seconds"] = seconds(moved["cpu_microseconds"])
    row["cpu_throttled_seconds"] = seconds(moved["throttled_microseconds"])
    for what in PRESSURES:
        stalled = difference(before.stalled_microseconds.get(what), now.stalled_microseconds.get(what))
        row[f"pressure_{what}_some_ratio"] = share(stalled, elapsed_seconds * SECOND_US)
    return row
