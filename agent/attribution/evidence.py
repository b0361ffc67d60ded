"""What this host shows of one process that tells its run, read once in the life of the process.

Its cgroup, its user, its environment (which is never sent), what it says itself, and what Ray and Slurm started it.
"""

import pwd
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from agent.procfs import short, text

# What the environment of a process says of its run. Read on this host where permitted, and never sent.
# All that is ever kept of an environment.
KEYS = frozenset({
    "CUDA_VISIBLE_DEVICES", "GPULEDGER_RUN_ID", "HOSTNAME", "MASTER_PORT", "OMPI_COMM_WORLD_RANK", "PMIX_NAMESPACE",
    "RANK", "RAY_JOB_ID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_HET_JOB_ID", "SLURM_HET_JOB_OFFSET",
    "SLURM_JOB_GPUS", "SLURM_JOB_ID", "SLURM_JOB_NUM_NODES", "SLURM_PROCID", "SLURM_RESTART_COUNT",
    "SLURM_SHARDS_ON_NODE", "SLURM_STEP_GPUS", "TORCHELASTIC_RUN_ID", "WORLD_SIZE",
})  # fmt: skip
_VALUE_CHARACTERS_MAX = 1024  # sixteen UUIDs of MIG instances are 656
_NUMBER_DIGITS_MAX = 18  # anyone can write an environment: what follows stays within 64 bits


def allowed(environ: str) -> dict[str, str]:
    """Return the allow-listed variables of the text of /proc/<pid>/environ; all others are forgotten here."""
    pairs = (entry.partition("=") for entry in environ.split("\0"))
    return {key: value for key, _, value in pairs if key in KEYS and 0 < len(value) <= _VALUE_CHARACTERS_MAX}


def slurm_job_id(environment: Mapping[str, str]) -> str | None:
    """Return the job that the process says it belongs to, or None."""
    job_id = environment.get("SLURM_JOB_ID", "")
    return job_id if is_number(job_id) else None


def slurm_name(job_id: str, environment: Mapping[str, str]) -> str:
    """Return a job's id as people write it: 81234_7 of an array, 81234+1 of a heterogeneous job, else as it is.

    The variables count only where they speak of this very job: a shell carries those of an older one along.
    """
    if environment.get("SLURM_JOB_ID") != job_id:
        return job_id
    for first, separator, second in (
        ("SLURM_ARRAY_JOB_ID", "_", "SLURM_ARRAY_TASK_ID"),
        ("SLURM_HET_JOB_ID", "+", "SLURM_HET_JOB_OFFSET"),
    ):
        of, part = environment.get(first, ""), environment.get(second, "")
        if is_number(of) and is_number(part):
            return f"{of}{separator}{part}"
    return job_id


def slurm_attempt(job_id: str, environment: Mapping[str, str]) -> int | None:
    """Return how often this job was requeued, from 0, or None where the environment is not known to be the job's.

    Slurm sets SLURM_RESTART_COUNT from the first requeue on.
    """
    if environment.get("SLURM_JOB_ID") != job_id:
        return None
    return number(environment.get("SLURM_RESTART_COUNT", "0"))


def number(value: str) -> int | None:
    """Return the whole number that a variable holds, or None where it is none or needs more than 64 bits."""
    return int(value) if is_number(value) else None


def is_number(value: str) -> bool:
    """Return whether a variable holds a whole number of at most 18 digits."""
    return value.isascii() and value.isdigit() and len(value) <= _NUMBER_DIGITS_MAX


# Runs that no scheduler knows: named by who starts them, and never anybody else's, since the user is in the name.
#
# `gpuledger run` names its command by GPULEDGER_RUN_ID, people name what they like by it, torchrun, mpirun and Ray name
# theirs by other means. What a process says of itself can be said by anybody; whose it is the kernel says.
VARIABLE = "GPULEDGER_RUN_ID"
_NAME_CHARACTERS_MAX = 128
_DECLARED = "declared"

_RUN_ID = re.compile(r"[a-z]+(?:/[A-Za-z0-9._+:-]+){2,3}")
_OWN = re.compile(rf"{_DECLARED}/([A-Za-z0-9._+:-]+)/(?:([0-9]+)/)?([A-Za-z0-9._+:-]+)")
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9._+:-]")


def users_run_id(place: str, uid: int, name: str) -> str:
    """Return the run that a user calls so: `declared/<node or cluster>/<uid>/<name>`, odd characters dashes."""
    return f"{_DECLARED}/{place}/{uid}/{plain_name(name)}"


def declared_run_id(environment: Mapping[str, str], node: str, uid: int) -> str | None:
    """Return the run that a process of this user says it belongs to, or None where it says nothing.

    `declared/<place>/<name>` is the user's run of that name there, and so one over hosts where all say the same place,
    as their cluster's name. Anything else is a name on this host, the ids of schedulers and of other users too.
    """
    value = environment.get(VARIABLE, "")
    if not value:
        return None
    said = _OWN.fullmatch(value)
    if said is None or said[2] not in (None, str(uid)):
        return users_run_id(node, uid, value)
    return users_run_id(said[1], uid, said[3])


def named_run_id(name: str, node: str) -> str | None:
    """Return the run that the settings name: a whole id as it is, else one of this host's; None without a name."""
    return None if not name else name if _RUN_ID.fullmatch(name) else f"{_DECLARED}/{node}/{plain_name(name)}"


def plain_name(name: str) -> str:
    """Return a name as a run id may bear it: its odd characters dashes, and not too long."""
    return _NOT_IN_A_NAME.sub("-", name)[:_NAME_CHARACTERS_MAX]


# What a Ray worker shows of itself: the title of its process, its job, and the Ray cluster of the raylet above it.
#
# Seen on Ray 2.60: workers are children of the raylet, call themselves `ray::Actor`, `ray::Actor.method` while they
# work, `ray::function`, `ray::ServeReplica:<application>:<deployment>`, and `ray::IDLE`; the title leaves the
# environment whole (SPT_NOENV). RAY_JOB_ID is in the environment of workers that were started for a job; those that
# wait for one beforehand have ffffffff for ever. Job ids count from 1 in every Ray cluster, so that a run's name needs
# the cluster's id, which the raylet has among its arguments on every host.
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


Identity = tuple[int, int]  # pid and start, in ticks since boot

_UID = re.compile(r"^Uid:\s+(\d+)", re.MULTILINE)
_PARENT = re.compile(r"^PPid:\s+([1-9]\d*)", re.MULTILINE)
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
    starter: Identity | None = None  # HTCondor's process above it, which is there for one job
    slurm_job: str | None = None  # the number of the job whose step, a process of root's, has started it


def read_process(proc: Path, pid: int, started_ticks: int, above: Sequence[Identity] = ()) -> Process | None:
    """Return what is seen of a process, or None where it has ended meanwhile. `above` is its parent, and theirs."""
    here = proc / str(pid)
    status = text(here / "status")
    if status is None:
        return None
    environ, cgroup = text(here / "environ"), text(here / "cgroup") or ""
    uid, cores = user_in(status), _CORES.search(status)
    return Process(
        pid=pid,
        started_ticks=started_ticks,
        cgroup=cgroup,
        environment=None if environ is None else allowed(environ),
        uid=uid,
        owner=None if uid is None else user_name(uid),
        cores=list_length(cores[1]) if cores else None,
        parent=above[0] if above else None,
        ray=ray_worker(proc, [pid, *(elder for elder, _ in above)]),
        starter=_starter_above(proc, above) if "condor" in cgroup else None,
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


def parents(proc: Path, pid: int) -> list[Identity]:
    """Return the processes above one, the nearest first, as their status files tell them; without their starts."""
    found: list[Identity] = []
    while len(found) < _ANCESTORS_MAX and (parent := _PARENT.search(text(proc / str(pid) / "status") or "")):
        pid = int(parent[1])
        found.append((pid, 0))
    return found


def _starter_above(proc: Path, above: Sequence[Identity]) -> Identity | None:
    """Return the nearest process of HTCondor that starts jobs."""
    return next((one for one in above if (short(f"{proc}/{one[0]}/comm") or b"").strip() == b"condor_starter"), None)


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
