"""What a Ray worker shows of itself: the title of its process, its job, and the Ray cluster of the raylet above it.

Seen on Ray 2.60: workers are children of the raylet, call themselves `ray::Actor`, `ray::Actor.method` while they work,
`ray::function`, `ray::ServeReplica:<application>:<deployment>`, and `ray::IDLE`; the title leaves the environment
whole (SPT_NOENV). RAY_JOB_ID is in the environment of workers that were started for a job; those that wait for one
beforehand have ffffffff for ever. Job ids count from 1 in every Ray cluster, so that a run's name needs the cluster's
id, which the raylet has among its arguments on every host.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.attribution.declared import plain_name
from agent.procfs import short, text

_TITLE = "ray::"
_RAYLET = "raylet"
_NO_JOB = "ffffffff"
_CLUSTER_CHARACTERS = 8  # of 56: as many as tell the clusters of a site apart
_ANCESTORS_MAX = 8  # between a process that holds a GPU and its raylet

_JOB = re.compile(r"[0-9a-f]{8}")
_CLUSTER = re.compile(r"--cluster-id=([0-9a-f]{8,})")
_SESSION = re.compile(r"--session-name=([\w.:-]+)")  # Ray before 2.5 has no cluster id
_METHOD = re.compile(r"\.[A-Za-z_]\w*$")
_NOBODY = "IDLE"  # waiting for work, or spilling objects (IDLE_SpillWorker)


@dataclass(frozen=True, slots=True)
class RayWorker:
    """A Ray worker as its host shows it. `title` is without `ray::`; `cluster` names the Ray cluster."""

    title: str
    cluster: str | None


def ray_worker(proc: Path, lineage: Sequence[int]) -> RayWorker | None:
    """Return the Ray worker that a process is or lives below, or None. `lineage` is the process and those above it.

    Names and arguments can be read of any user's processes, unless /proc is mounted with hidepid.
    """
    title: str | None = None
    for pid in lineage[: _ANCESTORS_MAX + 1]:
        name = (short(f"{proc}/{pid}/comm") or b"").decode("utf-8", "replace").rstrip("\n")
        if title is None and name.startswith(_TITLE):
            title = _arguments(proc, pid).removeprefix(_TITLE)
        elif name == _RAYLET:
            return RayWorker(title or "", cluster_name(_arguments(proc, pid)))
    return None if title is None else RayWorker(title, None)


def _arguments(proc: Path, pid: int) -> str:
    return (text(proc / str(pid) / "cmdline") or "").rstrip("\0").replace("\0", " ")


def cluster_name(raylet_arguments: str) -> str | None:
    """Return the name of the Ray cluster that a raylet belongs to, the same on all of its hosts."""
    if found := _CLUSTER.search(raylet_arguments):
        return found[1][:_CLUSTER_CHARACTERS]
    found = _SESSION.search(raylet_arguments)
    return plain_name(found[1]) if found else None


def ray_job(environment: Mapping[str, str]) -> str | None:
    """Return the id of the Ray job that a worker was started for, or None where it is not known."""
    job = environment.get("RAY_JOB_ID", "")
    return job if _JOB.fullmatch(job) and job != _NO_JOB else None


def ray_run_id(worker: RayWorker, job: str | None, cluster: str, uid: int) -> str | None:
    """Return the run of a user's Ray worker, or None where its Ray cluster is not known.

    Where the job is not known the Ray cluster is the run: `ray/alpha/1001/f6d86b18`, else
    `ray/alpha/1001/f6d86b18.02000000`. Anybody can give a process the title and arguments of a worker of others.
    """
    if worker.cluster is None:
        return None
    return f"ray/{cluster}/{uid}/{worker.cluster}" + (f".{job}" if job else "")


def ray_labels(worker: RayWorker, job: str | None) -> dict[str, str]:
    """Return what a Ray worker is called: job, cluster, and actor or Serve application and deployment."""
    found = {"ray_job": job, "ray_cluster": worker.cluster, **_names(worker.title)}
    return {key: plain_name(value) for key, value in found.items() if value}


def ray_member(worker: RayWorker, pid: int) -> str | None:
    """Return which part of its run a Ray worker is: `chat/LLM/26723` of a Serve replica, `Trainer/26765` of an actor.

    The pid tells replicas and actors of one host apart: Ray's own name of a replica is not in its title.
    """
    names = [plain_name(name) for name in _names(worker.title).values()]
    return "/".join([*names, str(pid)]) if names else None


def _names(title: str) -> dict[str, str]:
    kind, _, rest = title.partition(":")
    if kind == "ServeReplica" and rest:
        application, colon, deployment = _METHOD.sub("", rest).partition(":")
        # Ray before 2.7 knew no applications: the title has the deployment alone.
        return (
            {"ray_application": application, "ray_deployment": deployment} if colon else {"ray_deployment": application}
        )
    name = _METHOD.sub("", title)
    return {"ray_actor": name} if name and not name.startswith(_NOBODY) else {}
