"""The runs of this host: what holds each GPU, and the processes and cgroups behind it."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from agent.attribution.devices import GpuProcess, Holding
from agent.attribution.evidence import Process, list_length
from agent.attribution.run import V2, Attribution, controller_root, unified_root
from agent.files import StateFile
from agent.procfs import difference, differences, number, share, text, understanding
from agent.source import Reading, Value
from agent.sources.claims import Claim, Claims, Submissions
from agent.sources.disk import BlockDevices, DiskNumbers
from agent.sources.host import PRESSURES, stalled_microseconds
from agent.sources.process_table import (
    TICKS_PER_SECOND,
    Changes,
    IoTable,
    ProcessTable,
    RunOnGpu,
    Stat,
    Tree,
    changes,
    cpu_spent,
    home_gpus,
    read_io,
    read_table,
    trees,
)
from agent.sources.register import Holders, Register, gpu_processes
from agent.wire.units import SECOND_US

# What a run's cgroup says of it, under cgroup v2 and v1.
_NANOSECONDS_PER_MICROSECOND = 1000


@dataclass(frozen=True, slots=True)
class RunCounters:
    """What a run has used since its cgroup was made; None is what this kernel or this cgroup does not count."""

    read_bytes: int | None = None
    written_bytes: int | None = None
    cpu_microseconds: int | None = None
    throttled_microseconds: int | None = None
    memory_used_bytes: int | None = None
    stalled_microseconds: Mapping[str, int | None] = field(default_factory=dict)


_FIGURES = ("read_bytes", "written_bytes", "cpu_microseconds", "throttled_microseconds", "memory_used_bytes")


_Moved = tuple[int | None, int | None]  # bytes read and written


def io_bytes(io_stat: str, disks: DiskNumbers) -> _Moved:
    """Return bytes read and written of a cgroup v2 `io.stat`, over the disks ("8:0").

    Other devices are left out: a volume of LVM shows again what its disks show. No line means that nothing moved. What
    moved on a device that nobody knows makes the sum unknown.
    Source: Documentation/admin-guide/cgroup-v2.rst.
    """
    moved: list[tuple[str, str, int]] = []
    for line in io_stat.splitlines():
        device, _, rest = line.partition(" ")
        fields = dict(field.split("=", 1) for field in rest.split() if "=" in field)
        moved += [(device, what, int(fields.get(what, 0))) for what in ("rbytes", "wbytes")]
    return _sums(moved, ("rbytes", "wbytes"), disks)


def blkio_bytes(service_bytes: str, disks: DiskNumbers) -> _Moved:
    """Return bytes read and written of a cgroup v1 `blkio.throttle.io_service_bytes_recursive`."""
    lines = [fields for fields in map(str.split, service_bytes.splitlines()) if len(fields) == 3]
    return _sums([(device, what, int(count)) for device, what, count in lines], ("Read", "Write"), disks)


def _sums(moved: Iterable[tuple[str, str, int]], names: tuple[str, str], disks: DiskNumbers) -> _Moved:
    sums = dict.fromkeys(names, 0)
    for device, what, count in moved:
        if what not in sums or device in disks.others:
            continue
        if device not in disks.disks and count:
            return None, None
        sums[what] += count
    return sums[names[0]], sums[names[1]]


def stat_fields(stat: str | None) -> dict[str, int]:
    """Return the "name value" lines of a cgroup's `cpu.stat`."""
    pairs = (line.partition(" ") for line in (stat or "").splitlines())
    return {name: int(value) for name, _, value in pairs if value.isdigit()}


def run_counters(sys: Path, directories: Mapping[str, str], disks: DiskNumbers) -> RunCounters:
    """Return the counters of the run whose cgroups these are, by controller.

    A hybrid host has both versions, and each controller in one of them: each figure is that of v2, else of v1. Where no
    disk of the host is known none of its bytes are: 0 would be told, and then all that it ever moved.
    """
    legacy = _legacy(sys, directories, disks)
    if V2 not in directories:
        return legacy
    unified = _unified(_below(unified_root(sys), directories[V2]), disks)
    figures = {name: getattr(unified, name) for name in _FIGURES}
    missing = [name for name, value in figures.items() if value is None]
    return replace(unified, **{name: getattr(legacy, name) for name in missing})


def _unified(cgroup: Path, disks: DiskNumbers) -> RunCounters:
    io_stat, cpu = text(cgroup / "io.stat"), stat_fields(text(cgroup / "cpu.stat"))
    read, written = io_bytes(io_stat, disks) if io_stat is not None and disks.disks else (None, None)
    return RunCounters(
        read_bytes=read,
        written_bytes=written,
        cpu_microseconds=cpu.get("usage_usec"),
        throttled_microseconds=cpu.get("throttled_usec"),
        memory_used_bytes=number(cgroup / "memory.current"),
        stalled_microseconds={what: stalled_microseconds(text(cgroup / f"{what}.pressure")) for what in PRESSURES},
    )


def _legacy(sys: Path, directories: Mapping[str, str], disks: DiskNumbers) -> RunCounters:
    def at(controller: str, file: str) -> Path | None:
        path = directories.get(controller)
        return None if path is None else _below(controller_root(sys, controller), path) / file

    def counted(controller: str, file: str) -> int | None:
        place = at(controller, file)
        return None if place is None else number(place)

    blkio, cpu = at("blkio", "blkio.throttle.io_service_bytes_recursive"), at("cpu", "cpu.stat")
    service_bytes = text(blkio) if blkio else None
    read, written = blkio_bytes(service_bytes, disks) if service_bytes is not None and disks.disks else (None, None)
    throttled = stat_fields(text(cpu)).get("throttled_time") if cpu else None
    return RunCounters(
        read_bytes=read,
        written_bytes=written,
        cpu_microseconds=_microseconds(counted("cpuacct", "cpuacct.usage")),
        throttled_microseconds=_microseconds(throttled),
        memory_used_bytes=counted("memory", "memory.usage_in_bytes"),
    )


def cores_allotted(sys: Path, paths: Mapping[str, str], affinity: int | None) -> float | None:
    """Return how many cores a process in these cgroups may use: its cpuset, or less where a quota binds sooner.

    `affinity` is how many cores the process itself may run on, for where the cpuset cannot be read. Quotas bind
    from above too: the smallest on the way up counts.
    """
    quotas = [quota for directory in _upwards(sys, paths, V2, "cpu") if (quota := _quota(directory)) is not None]
    cpusets = (_cpuset(directory) for directory in _upwards(sys, paths, V2, "cpuset"))
    cores = next((count for count in cpusets if count is not None), affinity)
    limits = [*quotas, *([] if cores is None else [float(cores)])]
    return min(limits, default=None)


def _upwards(sys: Path, paths: Mapping[str, str], *controllers: str) -> list[Path]:
    found: list[Path] = []
    for controller in controllers:
        if (path := paths.get(controller)) is not None:
            root = unified_root(sys) if controller == V2 else controller_root(sys, controller)
            inner = PurePosixPath(path.strip("/"))
            found += [root / step for step in (inner, *inner.parents)]
    return found


def _quota(cgroup: Path) -> float | None:
    quota, _, period = (text(cgroup / "cpu.max") or "").strip().partition(" ")
    if quota.isdigit() and period.isdigit():
        return int(quota) / int(period)
    v1_quota, v1_period = number(cgroup / "cpu.cfs_quota_us"), number(cgroup / "cpu.cfs_period_us")
    # v1 writes -1 where there is no quota.
    return v1_quota / v1_period if v1_quota and v1_period and v1_quota > 0 else None


def _cpuset(cgroup: Path) -> int | None:
    for name in ("cpuset.cpus.effective", "cpuset.effective_cpus"):
        if content := (text(cgroup / name) or "").strip():
            return list_length(content)
    return None


def _below(root: Path, path: str) -> Path:
    return root / path.strip("/")


def _microseconds(nanoseconds: int | None) -> int | None:
    return None if nanoseconds is None else nanoseconds // _NANOSECONDS_PER_MICROSECOND


def seconds(microseconds: int | None) -> float | None:
    """Return microseconds as seconds."""
    return None if microseconds is None else microseconds / SECOND_US


_WAITING = "D"  # uninterruptible sleep: for a disk or a network mount, mostly

_RUN_COUNTERS = _FIGURES[:4]

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


def _worker_columns(tree: Tree, processes: Mapping[int, Stat], own_ticks: Spent, elapsed_seconds: float) -> Row:
    """Return how many workers the tree has, and how busy and how blocked they are. Without workers, no shares."""
    workers = tree.workers
    busiest = max((ticks for pid in workers if (ticks := own_ticks.get(pid)) is not None), default=None)
    waiting = sum(processes[pid].state == _WAITING for pid in workers)
    return {
        "workers": len(workers),
        "workers_busiest_cpu_ratio": share(busiest, elapsed_seconds * TICKS_PER_SECOND),
        "workers_waiting_ratio": share(waiting, len(workers)),
    }


def _amount_columns(tree: Tree, ticks: Spent, read: Spent, written: Spent) -> Row:
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


def _run_columns(before: RunCounters | None, now: RunCounters, elapsed_seconds: float) -> Row:
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


_HOLDERS_MAX = 4096  # (process, GPU) pairs looked at; the rest is counted


@dataclass(frozen=True, slots=True)
class _Pass:
    read_at: float  # monotonic seconds
    table: ProcessTable
    io: IoTable
    runs: dict[str, RunCounters]


@dataclass(frozen=True, slots=True)
class _Spending:
    elapsed_seconds: float
    ticks: Spent
    own_ticks: Spent
    read: Spent
    written: Spent


class ProcessSource:
    """Reads the processes behind each GPU: rows of `process_samples`, `run_samples` and `allocations`.

    `holding` is what the driver says of who holds which GPU, None before its first word: of what it does not say, what
    it said before stands for the processes that still live. `watched` names further roots that may hold no GPU
    (`gpuledger run`). `now` is the wall clock in microseconds UTC. A host whose GPUs nobody holds costs no pass over
    /proc. `unseen` counts the holders of the last reading that /proc does not show: ended meanwhile, or in a PID
    namespace that is hidden from the agent. `left_out` counts what was too much for one reading.
    """

    name = "process"

    def __init__(
        self,
        holding: Callable[[], Holding | None],
        attribution: Callable[[Process], Attribution],
        now: Callable[[], int],
        watched: Callable[[], Sequence[int]] = tuple,
        proc: Path = Path("/proc"),
        sys: Path = Path("/sys"),
        period_seconds: float = 10.0,
        monotonic: Callable[[], float] = time.monotonic,
        register: Register | None = None,
        state_file: StateFile | None = None,
    ) -> None:
        self.period_seconds = period_seconds
        self.unseen = 0
        self.left_out = 0
        self._holding = holding
        self._watched = watched
        self._now = now
        self._proc = proc
        self._sys = sys
        self._monotonic = monotonic
        self._disks = BlockDevices(proc, sys)
        self._claims = Claims(proc, attribution)
        self._register = register or Register()
        self._submissions = Submissions(proc, self._register.place.cluster)
        self._last: _Pass | None = None
        self._unseen: frozenset[int] = frozenset()
        self._holders = Holders(proc, state_file)

    def read(self) -> Reading:
        """Return the rows of the trees and runs that are there now; amounts come with the second pass.

        Raises:
            SourceError: /proc cannot be listed.
        """
        told = self._holding()
        if told is None and not self._holders.are_known:
            return {}
        holders, watched = self._holders.asserted(told or Holding()), frozenset(self._watched())
        kept = self._holders.seen_first(holders)[:_HOLDERS_MAX] if len(holders) > _HOLDERS_MAX else holders
        if not kept and not watched:
            self.unseen = self.left_out = 0
            self._last = None
            self._holders.forget()
            return self._register.update((), self._now())
        with understanding(self._proc):
            return self._reading(kept, watched, len(holders) - len(kept))

    def coverage(self) -> list[str]:
        """Return what of who holds GPUs is not seen, in words. To be asked after a reading."""
        lines = []
        if self.left_out:
            lines.append(f"processes beyond the limit, not read: {self.left_out}")
        return lines

    def _reading(self, holders: list[GpuProcess], watched: frozenset[int], left_out: int) -> Reading:
        pids = watched.union(held.pid for held in holders)
        read_at, table = self._monotonic(), read_table(self._proc, wanted=pids)
        self._holders.look_for_blindness(table.processes)
        holders = self._holders.living(holders, table.processes)
        roots = watched.union(held.pid for held in holders)
        claims = self._claims.update(table.processes, roots & table.processes.keys())
        held: dict[RunOnGpu, list[GpuProcess]] = {}
        for one in holders:
            if one.pid in claims:
                held.setdefault((claims[one.pid].attribution.run_id, one.gpu_uuid), []).append(one)
        found = self._trees(table, claims, held, home_gpus(holders))
        booked = frozenset[int]().union(*(tree.booked for tree in found.values()))
        now = _Pass(read_at, table, read_io(self._proc, booked), self._run_counters(claims))
        spending = _spending(self._last, now)
        unseen, before = roots - claims.keys(), self._unseen
        self.unseen, self.left_out, self._unseen = len(unseen), left_out + table.left_out, unseen
        hidden = {one.gpu_uuid for one in holders if one.pid in unseen & before}  # others may just have ended
        rows = {
            "process_samples": [
                _tree_row(key, tree, claims[tree.root], held.get(key, ()), table, spending)
                for key, tree in found.items()
            ],
            "run_samples": self._run_rows(claims, now, spending.elapsed_seconds),
            **self._register.update(
                gpu_processes(holders, claims), self._now(), self._submissions.names(table.processes), hidden
            ),
        }
        self._last = now
        return rows

    def _trees(
        self,
        table: ProcessTable,
        claims: dict[int, Claim],
        held: dict[RunOnGpu, list[GpuProcess]],
        homes: dict[int, str],
    ) -> dict[RunOnGpu, Tree]:
        pids: dict[RunOnGpu, set[int]] = {key: {one.pid for one in ones} for key, ones in held.items()}
        for pid in claims.keys() - homes.keys():  # watched, and holding no GPU
            pids.setdefault((claims[pid].attribution.run_id, None), set()).add(pid)
        return trees(table.processes, {key: frozenset(group) for key, group in pids.items()}, homes)

    def _run_counters(self, claims: dict[int, Claim]) -> dict[str, RunCounters]:
        owned = {claim.attribution.run_id: claim.run_directories for claim in claims.values() if claim.run_directories}
        if not owned:
            return {}
        disks = self._disks.numbers()
        return {run_id: run_counters(self._sys, directories, disks) for run_id, directories in owned.items()}

    def _run_rows(self, claims: dict[int, Claim], now: _Pass, elapsed_seconds: float) -> list[Row]:
        rows: dict[str, Row] = {}
        for claim in claims.values():
            run_id = claim.attribution.run_id
            if run_id not in rows:
                before = self._last.runs.get(run_id) if self._last else None
                counters = now.runs.get(run_id)
                columns = _run_columns(before, counters, elapsed_seconds) if counters else {}
                cores = cores_allotted(self._sys, {**claim.limit_paths, **claim.run_directories}, claim.cores)
                rows[run_id] = {"run_id": run_id, **columns, "cores_allotted": cores}
        return list(rows.values())


def _spending(last: _Pass | None, now: _Pass) -> _Spending:
    # A pass that was cut short proves no process young: what each spent is then unknown.
    if last is None or last.table.left_out:
        return _Spending(0.0, {}, {}, {}, {})
    before, after = last.table.processes, now.table.processes
    change = changes(before, after)
    return _Spending(
        elapsed_seconds=now.read_at - last.read_at,
        ticks=cpu_spent(
            {pid: (stat.own, stat.reaped) for pid, stat in before.items()},
            {pid: (stat.own, stat.reaped) for pid, stat in after.items()},
            change,
        ),
        own_ticks=cpu_spent(
            {pid: (stat.own, 0) for pid, stat in before.items()},
            {pid: (stat.own, 0) for pid, stat in after.items()},
            Changes(change.born, {}),
        ),
        read=cpu_spent(last.io.read, now.io.read, change),
        written=cpu_spent(last.io.written, now.io.written, change),
    )


def _tree_row(
    key: RunOnGpu, tree: Tree, claim: Claim, held: Sequence[GpuProcess], table: ProcessTable, spending: _Spending
) -> Row:
    run_id, gpu = key
    return {
        "run_id": run_id,
        "gpu_uuid": gpu,
        "pid": tree.root,
        "owner": claim.attribution.owner,
        **(gpu_columns(held) if held else {}),
        **_worker_columns(tree, table.processes, spending.own_ticks, spending.elapsed_seconds),
        **_amount_columns(tree, spending.ticks, spending.read, spending.written),
    }
