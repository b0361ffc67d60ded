"""Which run each holder of a GPU belongs to: asked once in the life of a process."""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from agent.attribution.evidence import (
    Identity,
    Process,
    RayWorker,
    plain_name,
    ray_run_id,
    ray_worker,
    read_process,
    user_in,
)
from agent.attribution.providers import Meant
from agent.attribution.run import CONTAINERS, Attribution, container, controller_paths, job
from agent.procfs import text
from agent.sources.process_table import Stat, nearest_roots

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
        if attribution.run_id.startswith(CONTAINERS):
            found = container(process.cgroup)
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


# Which Ray job was submitted under which name: known where the job's driver runs, and there alone.
#
# Workers know their job by number, people by the name of its submission. The driver of `ray job submit` runs below a
# `ray::JobSupervisor`, has the submission in its environment, and its number in the name of its log. Seen on Ray 2.60.
_SUPERVISOR = "ray::JobSupervisor"[:15]  # as the kernel cuts it
_DRIVERS_MAX = 256
_FILES_MAX = 1024  # of one driver
_SUPERVISED_ANCESTORS_MAX = 4  # the shell that the supervisor starts, and what it starts

_SUBMISSION = re.compile(r"(?:^|\0)RAY_JOB_CONFIG_JSON_ENV_VAR=[^\0]*\"job_submission_id\": *\"([^\"\0]{1,128})\"")
_LOG = re.compile(r"/python-core-driver-([0-9a-f]{8})[0-9a-f]*_\d+\.log$")


class Submissions:
    """Remembers the drivers of this host for as long as they live."""

    def __init__(self, proc: Path, cluster: str) -> None:
        self._proc = proc
        self._cluster = cluster
        self._known: dict[Identity, tuple[str, Meant]] = {}

    def names(self, processes: Mapping[int, Stat]) -> dict[str, Meant]:
        """Return of each job that was submitted here the run by its number, and the one that people know."""
        drivers = islice(_below_supervisors(processes), _DRIVERS_MAX)
        found = {key: self._known.get(key) or self._ask(lineage) for key, lineage in drivers}
        self._known = {key: names for key, names in found.items() if names is not None}
        return dict(self._known.values())

    def _ask(self, lineage: list[int]) -> tuple[str, Meant] | None:
        job, environ = self._job(lineage[0]), text(self._proc / str(lineage[0]) / "environ")
        submission = _SUBMISSION.search(environ or "")
        uid = user_in(text(self._proc / str(lineage[0]) / "status") or "")
        if job is None or submission is None or uid is None:
            return None  # a shell on the way, a driver that is not yet connected, or one that may not be read
        worker = ray_worker(self._proc, lineage) or RayWorker("", None)
        by_number = ray_run_id(worker, job, self._cluster, uid)
        by_name = ray_run_id(worker, plain_name(submission[1]), self._cluster, uid)
        return (by_number, Meant(by_name)) if by_number and by_name else None

    def _job(self, pid: int) -> str | None:
        directory = f"{self._proc}/{pid}/fd"
        try:
            for name in islice(os.listdir(directory), _FILES_MAX):  # noqa: PTH208  (names alone are needed)
                if found := _LOG.search(os.readlink(f"{directory}/{name}")):  # noqa: PTH115
                    return found[1]
        except OSError:
            return None  # ended, or another user's
        return None


def _below_supervisors(processes: Mapping[int, Stat]) -> Iterator[tuple[Identity, list[int]]]:
    supervisors = {pid for pid, stat in processes.items() if stat.name == _SUPERVISOR}
    for stat in processes.values() if supervisors else ():
        lineage = list(islice(_upwards(stat, processes), 2 * _SUPERVISED_ANCESTORS_MAX))
        if supervisors.intersection(lineage[1 : 1 + _SUPERVISED_ANCESTORS_MAX]):
            yield (stat.pid, stat.started_ticks), lineage


def _upwards(stat: Stat, processes: Mapping[int, Stat]) -> Iterator[int]:
    step: Stat | None = stat
    while step is not None:
        yield step.pid
        step = processes.get(step.parent)
