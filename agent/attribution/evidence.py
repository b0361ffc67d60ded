"""What this host shows of one process that tells its run, read once in the life of the process."""

import pwd
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from agent.attribution.environment import allowed
from agent.attribution.ray import RayWorker, ray_worker
from agent.procfs import text

Identity = tuple[int, int]  # pid and start, in ticks since boot

_UID = re.compile(r"^Uid:\s+(\d+)", re.MULTILINE)
_STEP = re.compile(r"slurmstepd: \[([0-9]+)[.+_]")
_CORES = re.compile(r"^Cpus_allowed_list:\s+(\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Process:
    """One process: pid and start make it one, since a pid is used again."""

    pid: int
    started_ticks: int  # since boot
    cgroup: str = ""  # the text of /proc/<pid>/cgroup
    environment: Mapping[str, str] | None = None  # allow-listed keys; None where it may not be read
    uid: int | None = None
    owner: str | None = None  # the user's name
    cores: int | None = None  # that it may run on
    parent: Identity | None = None
    ray: RayWorker | None = None
    slurm_job: str | None = None  # the number of the job whose step, a process of root's, has started it


def read_process(proc: Path, pid: int, started_ticks: int, above: Sequence[Identity] = ()) -> Process | None:
    """Return what is seen of a process, or None where it has ended meanwhile. `above` is its parent, and theirs."""
    here = proc / str(pid)
    status = text(here / "status")
    if status is None:
        return None
    environ = text(here / "environ")
    uid, cores = user_in(status), _CORES.search(status)
    return Process(
        pid=pid,
        started_ticks=started_ticks,
        cgroup=text(here / "cgroup") or "",
        environment=None if environ is None else allowed(environ),
        uid=uid,
        owner=None if uid is None else user_name(uid),
        cores=list_length(cores[1]) if cores else None,
        parent=above[0] if above else None,
        ray=ray_worker(proc, [pid, *(elder for elder, _ in above)]),
        slurm_job=slurm_job_above(proc, above),
    )


def user_in(status: str) -> int | None:
    """Return the user who has started a process, by the text of its /proc/<pid>/status."""
    found = _UID.search(status)
    return int(found[1]) if found else None


def slurm_job_above(proc: Path, above: Sequence[Identity], root: int = 0) -> str | None:
    """Return the job of the nearest slurmstepd above a process; one that is not root's could be anybody's of that name.

    It says its step in its title: slurmstepd: [81234.batch].
    """
    for pid, _ in above:
        found = _STEP.match(text(proc / str(pid) / "cmdline") or "")
        try:
            if found is not None and (proc / str(pid)).stat().st_uid == root:
                return found[1]
        except OSError:  # it has ended
            return None
    return None


@lru_cache(maxsize=4096)
def user_name(uid: int) -> str:
    """Return the name of a user, or the number where this host has no name for it.

    Asked once for each user: a directory server may be behind it.
    """
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def list_length(cpu_list: str) -> int | None:
    """Return how many cores a list such as "0-3,8" names, or None where it is not one. Source: cpuset(7)."""
    total = 0
    for part in cpu_list.strip().split(","):
        first, dash, last = part.partition("-")
        if not (first.isdigit() and (last.isdigit() or not dash)):
            return None
        total += int(last or first) - int(first) + 1
    return total
