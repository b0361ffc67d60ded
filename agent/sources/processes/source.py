"""The runs of this host: what holds each GPU, and the processes and cgroups behind it."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.attribution.evidence import Process
from agent.attribution.gpu_process import GpuProcess, Holding
from agent.attribution.run import Attribution
from agent.procfs import understanding
from agent.source import Reading
from agent.sources.disk import disk_numbers
from agent.sources.processes.claims import Claim, Claims
from agent.sources.processes.holders import Holders
from agent.sources.processes.io import IoTable, read_io
from agent.sources.processes.register import Register, gpu_processes
from agent.sources.processes.rows import Row, Spent, amount_columns, gpu_columns, run_columns, worker_columns
from agent.sources.processes.run_counters import RunCounters, cores_allotted, run_counters
from agent.sources.processes.spending import Changes, changes, cpu_spent
from agent.sources.processes.submissions import Submissions
from agent.sources.processes.table import ProcessTable, read_table
from agent.sources.processes.tree import RunOnGpu, Tree, home_gpus, trees
from agent.state_file import StateFile

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
        self._claims = Claims(proc, attribution)
        self._register = register or Register()
        self._submissions = Submissions(proc, self._register.place.cluster)
        self._last: _Pass | None = None
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
        if self.unseen:
            lines.append(
                f"processes on GPUs that {self._proc} does not show: {self.unseen}; whose they are is not known"
            )
        if self.left_out:
            lines.append(f"processes that are too many and are not looked at: {self.left_out}")
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
        self.unseen, self.left_out = len(roots - claims.keys()), left_out + table.left_out
        rows = {
            "process_samples": [
                _tree_row(key, tree, claims[tree.root], held.get(key, ()), table, spending)
                for key, tree in found.items()
            ],
            "run_samples": self._run_rows(claims, now, spending.elapsed_seconds),
            **self._register.update(
                gpu_processes(holders, claims), self._now(), self._submissions.names(table.processes)
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
        disks = disk_numbers(self._sys)
        return {run_id: run_counters(self._sys, directories, disks) for run_id, directories in owned.items()}

    def _run_rows(self, claims: dict[int, Claim], now: _Pass, elapsed_seconds: float) -> list[Row]:
        rows: dict[str, Row] = {}
        for claim in claims.values():
            run_id = claim.attribution.run_id
            if run_id not in rows:
                before = self._last.runs.get(run_id) if self._last else None
                counters = now.runs.get(run_id)
                columns = run_columns(before, counters, elapsed_seconds) if counters else {}
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
    key: RunOnGpu,
    tree: Tree,
    claim: Claim,
    held: Sequence[GpuProcess],
    table: ProcessTable,
    spending: _Spending,
) -> Row:
    run_id, gpu = key
    return {
        "run_id": run_id,
        "gpu_uuid": gpu,
        "pid": tree.root,
        "owner": claim.attribution.owner,
        **(gpu_columns(held) if held else {}),
        **worker_columns(tree, table.processes, spending.own_ticks, spending.elapsed_seconds),
        **amount_columns(tree, spending.ticks, spending.read, spending.written),
    }
