"""Which run each holder of a GPU belongs to: asked once in the life of a process."""

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from pathlib import Path

from agent.attribution.cgroup import controller_paths, job
from agent.attribution.evidence import Identity, Process, read_process
from agent.attribution.run import Attribution
from agent.sources.processes.table import Stat
from agent.sources.processes.tree import nearest_roots

_ANCESTORS_MAX = 16


@dataclass(frozen=True, slots=True)
class Claim:
    """A process's run, and the cgroups in which the run's counters and limits are found."""

    attribution: Attribution
    run_directories: Mapping[str, str]  # the run's own cgroups; empty where it has none
    limit_paths: Mapping[str, str]  # the cgroups that bind it
    cores: int | None
    plain_run_id: str | None = None  # of a Slurm job by its number, where people know it by another name
    hostname: str | None = None  # of a process in a pod, where it may be read


class Claims:
    """Remembers the claim of each root process for as long as it lives and is a root."""

    def __init__(self, proc: Path, attribution: Callable[[Process], Attribution]) -> None:
        self._proc = proc
        self._attribution = attribution
        self._known: dict[Identity, Claim] = {}

    def update(self, processes: Mapping[int, Stat], roots: Set[int]) -> dict[int, Claim]:
        """Return the claim of each of these processes that still lives.

        One that nobody claims belongs to the run of the nearest root above it: a worker of a server that holds a
        GPU itself, a rank below the command that `gpuledger run` watches.
        """
        known: dict[Identity, Claim] = {}
        claims: dict[int, Claim] = {}
        for stat in sorted((processes[pid] for pid in roots), key=lambda stat: (stat.started_ticks, stat.pid)):
            key = (stat.pid, stat.started_ticks)
            claim = self._known.get(key) or self._ask(stat, processes, claims)
            if claim is not None:
                claims[stat.pid] = known[key] = claim
        self._known = known
        return claims

    def _ask(self, stat: Stat, processes: Mapping[int, Stat], elders: Mapping[int, Claim]) -> Claim | None:
        process = read_process(self._proc, stat.pid, stat.started_ticks, _above(stat, processes))
        if process is None:
            return None
        attribution = self._attribution(process)
        if attribution.scheduler == "process":
            above = nearest_roots(processes, elders.keys()).get(stat.parent)
            attribution = attribution if above is None else elders[above].attribution
        found = job(process.cgroup) if attribution.scheduler == "cgroup" else None
        return Claim(
            attribution=attribution,
            run_directories=found.directories if found else {},
            limit_paths=controller_paths(process.cgroup),
            cores=process.cores,
            plain_run_id=_plain_run_id(process, attribution),
            hostname=(process.environment or {}).get("HOSTNAME"),
        )


def _above(stat: Stat, processes: Mapping[int, Stat]) -> list[Identity]:
    found: list[Identity] = []
    while (parent := processes.get(stat.parent)) is not None and len(found) < _ANCESTORS_MAX:
        found.append((parent.pid, parent.started_ticks))
        stat = parent
    return found


def _plain_run_id(process: Process, attribution: Attribution) -> str | None:
    scheduler, cluster, _ = attribution.run_id.split("/", 2)
    found = job(process.cgroup)
    number = found.id if found else (process.environment or {}).get("SLURM_JOB_ID")
    return f"slurm/{cluster}/{number}" if scheduler == "slurm" and number else None
