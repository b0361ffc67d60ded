"""Process to run: the scheduler's word first, then the process's own, then the process itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from agent.attribution.cgroup import job
from agent.attribution.declared import declared_run_id, users_run_id
from agent.attribution.environment import slurm_attempt, slurm_job_id, slurm_name
from agent.attribution.evidence import Process
from agent.attribution.ranks import rank, ranks_run_id
from agent.attribution.ray import ray_job, ray_labels, ray_member, ray_run_id

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
    found = _by_cgroup(process, environment, place) or _declared(process, environment, place) or _alone(process, place)
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
    name = slurm_name(found.id, environment)
    return Attribution(f"slurm/{place.cluster}/{name}", "cgroup", slurm_attempt(found.id, environment))


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
        found = ranks_run_id(environment, place.node, place.cluster, uid, process.parent)
    if found is None and job_id is not None:
        found = users_run_id(place.node, uid, f"slurm-{slurm_name(job_id, environment)}")
    return Attribution(found, "declared", owner=process.owner) if found else None


def _alone(process: Process, place: HostIdentity) -> Attribution:
    run_id = f"process/{place.node}/{process.pid}.{process.started_ticks}"
    return Attribution(run_id, "process", owner=process.owner)
