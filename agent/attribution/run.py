"""Process to run: the scheduler's word (its cgroup) first, then the process's own, then the process itself."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from agent.attribution.evidence import (
    Process,
    declared_run_id,
    is_number,
    number,
    plain_name,
    ray_job,
    ray_labels,
    ray_member,
    ray_run_id,
    slurm_attempt,
    slurm_job_id,
    slurm_name,
    users_run_id,
)

# Cgroups, version 1 and 2: where they are, and the run that a scheduler's one names (Slurm jobs, Kubernetes pods).
V2 = ""  # stands for cgroup v2 among the controllers

# What stands under a scheduler's scope is a job, also one whose name is of a form that is not known here.
#
# Slurm: v2 /system.slice/[<node>_]slurmstepd.scope/job_81234/step_0/user/task_0 (the slice is a setting, and beside the
#        jobs there is one directory called system)
#        v1 /slurm[_<node>]/uid_1000/job_81234/step_0/task_0
# (the node stands there where several slurmd share a host; some builds write it before, not behind). A job's directory
# may be named by another id than its number, which its slurmstepd says then.
# PBS: /pbs_jobs.service/jobid/81234.server (v1; what stands before .service is a setting),
#      /pbs_jobs.service/jobs/… (v2), /pbspro.slice/pbspro-81234.server.slice
# LSF: /lsf/<cluster>/job.81234.<pid>.<time>
# Flux: …/user@<flux>.service/imp-shell-<rank>-<job>.service
# HTCondor: /htcondor/condor_<execute directory>_slot1_2@<host>, also below condor.service: the slot, not the job (slots
#      have other names where the pool says so, and so has the directory above)
#
# Kubernetes: cgroupfs /kubepods/burstable/pod<uid>/<container>
#             systemd  /kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid>.slice/cri-containerd-….scope
#             older    /system.slice/containerd.service/kubepods-burstable-pod<uid>.slice:cri-containerd:<container>
# systemd writes the dashes of a uid as underscores; the uid of a static pod is a hash of 32 digits. The first pod of a
# path is taken: its kubelet is this host's. From within a container with a cgroup namespace of its own the path begins
# with dots (/../../pod<uid>/<container>) and may have lost the part that says kubepods.
_Scheduler = Literal["slurm", "pbs", "lsf", "flux", "htcondor", "kubernetes", "container"]

# In the order in which they are looked for: the narrower first, a job before the pod in which its daemon runs.
_SCHEDULERS: Mapping[_Scheduler, re.Pattern[str]] = {
    "slurm": re.compile(
        r"^.*?/(?:[^/]*slurmstepd[^/]*\.scope(?:/uid_\d+)?/(?!system(?:/|$)|uid_)|(?:[^/]+_)?slurm(?:_[^/]+)?/uid_\d+/)"
        r"(?:job_)?(?P<id>[^/]+)(?:/step_(?P<step>[^/]+))?(?=/|$)"
    ),
    "pbs": re.compile(
        r"^.*?(?:\.service/jobid/|/[^/]*pbs[^/]*\.(?:service/jobs/|slice/[^/-]+-))(?P<id>[^/]+?)(?:\.slice)?(?=/|$)"
    ),
    "lsf": re.compile(r"^.*?/lsf/[^/]+/job\.(?P<id>\d+(?:\[\d+\])?)[^/]*(?=/|$)"),
    "flux": re.compile(r"^.*?/(?:imp-)?shell-\d+-(?P<id>[^/]+)\.service(?=/|$)"),
    "htcondor": re.compile(r"^.*?condor(?:.*/)?(?:[^/@]*?_)??(?P<id>[^/@_]*\d(?:_\d+)?)@[^/]*(?=/|$)"),
    "kubernetes": re.compile(
        r"^(?:.*?kubepods.*?|(?:/\.\.)+/)pod(?P<id>[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})"
        r"(?:\.slice(?::[^/]*)?)?(?=/|$)"
    ),
}
# In every such path.
_WORDS: Mapping[_Scheduler, str] = {"pbs": ".s", "flux": "shell-", "htcondor": "condor", "kubernetes": "pod"}
# A container of Docker, Podman or containerd, which no scheduler made: /docker/<id>, …/docker-<id>.scope, libpod-<id>,
# libpod-payload-<id> below a service, nerdctl-<id>, or the id alone below whatever directory its user chose; what
# watches it (libpod-conmon-<id>) is none.
_CONTAINER = re.compile(r"^.*/(?:(?![a-z]+-conmon-)[a-z-]+-)?(?P<id>[0-9a-f]{64})(?:\.scope)?(?=/|$)")
# What a user may make cgroups in (systemd delegates it): no scheduler's, but Flux runs its jobs there.
_OF_A_USER = re.compile(r"/user@\d+\.service/")
_ESCAPED = re.compile(r"\\x([0-9a-f]{2})")  # as systemd writes what no name of a unit may have
CONTAINERS = "container/"  # begins the run of what a container's processes do not declare
_CONTAINER_ID_CHARACTERS = 12  # as the engines show it


@dataclass(frozen=True, slots=True)
class Job:
    """A scheduler's run as its cgroup names it; `id` may be another name than the one that people know.

    `directories` are the whole run's cgroups, below the mount of each controller or of V2. `step` is
    Slurm's name of the part of the job that the process belongs to ("batch", "0"), where the cgroup says it.
    """

    scheduler: _Scheduler
    id: str
    directories: Mapping[str, str]
    step: str | None = None


def controller_paths(cgroup: str) -> dict[str, str]:
    """Return the path of each controller in the text of /proc/<pid>/cgroup, and of V2.

    Source: cgroups(7). Co-mounted controllers ("cpu,cpuacct") are told one by one.
    """
    found: dict[str, str] = {}
    for line in cgroup.splitlines():
        _, colon, rest = line.partition(":")
        controllers, second, path = rest.partition(":")
        if colon and second:
            found.update((controller, path) for controller in controllers.split(","))
    return found


def unified_root(sys: Path) -> Path:
    """Return where cgroup v2 is mounted: at the top, or beside the v1 controllers of a hybrid host."""
    top = sys / "fs/cgroup"
    return top if (top / "cgroup.controllers").exists() else top / "unified"


def controller_root(sys: Path, controller: str) -> Path:
    """Return where a controller of cgroup v1 is mounted: under its name, or that of several that are mounted as one."""
    top = sys / "fs/cgroup"
    if not (top / controller).exists():
        try:
            together = (place for place in top.iterdir() if controller in place.name.split(","))
            return next(together, top / controller)
        except OSError:  # no cgroups here
            pass
    return top / controller


def job(cgroup: str) -> Job | None:
    """Return the run that the text of /proc/<pid>/cgroup names, or None where no scheduler made the cgroup.

    Slurm comes first: where its daemon runs within a pod, the job is what people know.
    """
    paths = controller_paths(cgroup)
    asked = ((name, pattern) for name, pattern in _SCHEDULERS.items() if _WORDS.get(name, name) in cgroup)
    return next((found for name, pattern in asked if (found := _job(name, pattern, paths))), None)


def container(cgroup: str) -> Job | None:
    """Return the container that the text of /proc/<pid>/cgroup names, or None where the process is in none."""
    return _job("container", _CONTAINER, controller_paths(cgroup))


def _job(scheduler: _Scheduler, pattern: re.Pattern[str], paths: Mapping[str, str]) -> Job | None:
    matches = {controller: match for controller, path in paths.items() if (match := pattern.search(path))}
    if scheduler not in ("flux", "container"):
        matches = {where: match for where, match in matches.items() if not _OF_A_USER.search(match[0])}
    if not matches:
        return None
    found = next(iter(matches.values()))
    if scheduler == "kubernetes":
        name = found["id"].replace("_", "-")
    else:
        name = plain_name(_ESCAPED.sub(lambda code: chr(int(code[1], 16)), found["id"]))
    if scheduler != "slurm":
        return Job(scheduler, name, {where: match[0] for where, match in matches.items()})
    step = next((match["step"] for match in matches.values() if match["step"]), None)
    directories = {where: match[0][: match.end("id")] for where, match in matches.items()}
    return Job(scheduler, name, directories, step)


# Ranks that a launcher started without a scheduler: torchrun, deepspeed, accelerate, mpirun.
#
# Each rank is a process of its own, and together they are one run. torchrun tells all of them the id of the rendezvous
# (TORCHELASTIC_RUN_ID, from --rdzv-id, drawn at random by --standalone), Open MPI the name of the job (PMIX_NAMESPACE):
# with these a user's run is one across hosts. Where there is none ("none" is torchrun's default), the ranks below one
# parent are one run on this host. Source: torch.distributed.elastic, "Environment Variables"; mpirun(1).
_NO_RENDEZVOUS = ("", "none")
_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID")  # the launcher's own before that of what it runs within
_INIT = 1  # ranks whose launcher is gone hang below it, of whatever run


def rank(environment: Mapping[str, str]) -> int | None:
    """Return the position of a process among the ranks of its run, from 0, or None where it is no rank."""
    return next((found for name in _RANKS if (found := number(environment.get(name, ""))) is not None), None)


def _ranks_run_id(
    environment: Mapping[str, str], node: str, cluster: str, uid: int, parent: tuple[int, int] | None
) -> str | None:
    """Return the run that a rank belongs to, or None where the process is no rank or nothing tells its run.

    `parent` is the launcher's pid and start, None where it is not known.
    """
    if is_number(environment.get("RANK", "")) and is_number(environment.get("WORLD_SIZE", "")):
        return _torch(environment, node, cluster, uid, parent)
    if is_number(environment.get("OMPI_COMM_WORLD_RANK", "")):
        namespace = environment.get("PMIX_NAMESPACE", "")
        return users_run_id(cluster, uid, f"mpi-{namespace}") if namespace else _below("mpi", node, uid, parent)
    return None


def _torch(
    environment: Mapping[str, str], node: str, cluster: str, uid: int, parent: tuple[int, int] | None
) -> str | None:
    rendezvous = environment.get("TORCHELASTIC_RUN_ID", "")
    if rendezvous not in _NO_RENDEZVOUS:
        return users_run_id(cluster, uid, f"torchrun-{rendezvous}")
    if rendezvous:
        return _below("torchrun", node, uid, parent)
    port = environment.get("MASTER_PORT", "")  # tells launches apart that one shell made
    return _below("ranks", node, uid, parent, f"-{port}" if is_number(port) else "")


def _below(launcher: str, node: str, uid: int, parent: tuple[int, int] | None, rest: str = "") -> str | None:
    if parent is None or parent[0] <= _INIT:
        return None
    return users_run_id(node, uid, f"{launcher}-{parent[0]}.{parent[1]}{rest}")


# Process to run: the scheduler's word first, then the process's own, then the process itself.
Authority = Literal["kubernetes", "cgroup", "declared", "process"]
SHARDS = "slurm_shards"  # label: parts of a GPU that a Slurm job asked for; of how many, only slurm.conf knows


@dataclass(frozen=True, slots=True)
class HostIdentity:
    """Where the agent runs: its host, and the name of the cluster that its schedulers' runs bear."""

    node: str
    cluster: str = "default"


@dataclass(frozen=True, slots=True)
class Attribution:
    """The run of a process. `scheduler` is how it is known here, and so how much its word weighs."""

    run_id: str
    scheduler: Authority
    attempt: int | None = None  # None where it is not known
    owner: str | None = None  # the user, where no scheduler knows one
    member: str | None = None  # pod, task or replica within the run
    rank: int | None = None  # position among the run's ranks
    labels: Mapping[str, str] = field(default_factory=dict)


def attribute(process: Process, place: HostIdentity) -> Attribution:
    """Return the run of a process: by its scheduler's cgroup, else as declared, else the process alone.

    An environment's SLURM_JOB_ID counts where a step of that job has started the process, as on hosts without Slurm's
    cgroups: anybody can set it, and a shell may carry it out of its job. Whatever else a process says of itself names a
    run of its user's, and no scheduler's or other user's. Ray within a Slurm job or a
    pod is what runs there, not who holds it: job or pod is the run, and Ray's names are member and labels.
    """
    environment: Mapping[str, str] = process.environment or {}
    found = (
        _by_cgroup(process, environment, place)
        or _declared(process, environment, place)
        or _by_container(process, place)
        or _alone(process, place)
    )
    ray, shards = process.ray, environment.get("SLURM_SHARDS_ON_NODE")
    labels = ray_labels(ray, ray_job(environment)) if ray else {}
    return replace(
        found,
        member=ray_member(ray, process.pid) if ray else None,
        rank=rank(environment),
        labels=labels | ({SHARDS: shards} if shards else {}),
    )


def _by_cgroup(process: Process, environment: Mapping[str, str], place: HostIdentity) -> Attribution | None:
    found = job(process.cgroup)
    if found is None:
        return None
    if found.scheduler == "kubernetes":
        return Attribution(f"kubernetes/{place.cluster}/{found.id}", "cgroup")
    if found.scheduler == "slurm":
        number = found.id if is_number(found.id) else process.slurm_job or found.id
        name = slurm_name(number, environment)
        return Attribution(f"slurm/{place.cluster}/{name}", "cgroup", slurm_attempt(number, environment))
    if found.scheduler == "htcondor":  # one slot has many jobs in turn, each below a starter of its own
        if process.starter is None:
            return None
        pid, started_ticks = process.starter
        return Attribution(f"htcondor/{place.node}/{found.id}.{pid}.{started_ticks}", "cgroup", owner=process.owner)
    return Attribution(f"{found.scheduler}/{place.cluster}/{found.id}", "cgroup", owner=process.owner)


def _by_container(process: Process, place: HostIdentity) -> Attribution | None:
    """Return the container of a process; it weighs no more than the process itself, since a job may have started it."""
    found = container(process.cgroup)
    if found is None:
        return None
    run_id = f"{CONTAINERS}{place.node}/{found.id[:_CONTAINER_ID_CHARACTERS]}"
    return Attribution(run_id, "process", owner=process.owner)


def _declared(process: Process, environment: Mapping[str, str], place: HostIdentity) -> Attribution | None:
    job_id = slurm_job_id(environment)
    if job_id is not None and job_id == process.slurm_job:
        run_id = f"slurm/{place.cluster}/{slurm_name(job_id, environment)}"
        return Attribution(run_id, "declared", slurm_attempt(job_id, environment), process.owner)
    if (uid := process.uid) is None:
        return None
    found = declared_run_id(environment, place.node, uid)
    if found is None and process.ray is not None:
        found = ray_run_id(process.ray, ray_job(environment), place.cluster, uid)
    if found is None:
        found = _ranks_run_id(environment, place.node, place.cluster, uid, process.parent)
    if found is None and job_id is not None:
        found = users_run_id(place.node, uid, f"slurm-{slurm_name(job_id, environment)}")
    return Attribution(found, "declared", owner=process.owner) if found else None


def _alone(process: Process, place: HostIdentity) -> Attribution:
    run_id = f"process/{place.node}/{process.pid}.{process.started_ticks}"
    return Attribution(run_id, "process", owner=process.owner)
