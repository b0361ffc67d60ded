"""The run that a scheduler's cgroup names: Slurm jobs and Kubernetes pods, under cgroup v1 and v2."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

# Slurm: v2 /system.slice/[<node>_]slurmstepd.scope/job_81234/step_0/user/task_0
#        v1 /slurm[_<node>]/uid_1000/job_81234/step_0/task_0
# (the node stands there where several slurmd share a host).
_SLURM = re.compile(r"^.*?/(?:[^/]*slurmstepd\.scope|slurm(?:_[^/]+)?/uid_\d+)/job_(\d+)(?=/|$)")

# Kubernetes: cgroupfs /kubepods/burstable/pod<uid>/<container>
#             systemd  /kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid>.slice/cri-containerd-….scope
#             older    /system.slice/containerd.service/kubepods-burstable-pod<uid>.slice:cri-containerd:<container>
# systemd writes the dashes of a uid as underscores; the uid of a static pod is a hash of 32 digits. The first pod of a
# path is taken: its kubelet is this host's.
_POD = re.compile(
    r"^.*?kubepods.*?pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?:\.slice(?::[^/]*)?)?(?=/|$)"
)


@dataclass(frozen=True, slots=True)
class Job:
    """A scheduler's run as its cgroup names it.

    `directories` are the whole run's cgroups, below the mount of each controller; "" stands for cgroup v2.
    """

    scheduler: Literal["slurm", "kubernetes"]
    id: str
    directories: Mapping[str, str]


def controller_paths(cgroup: str) -> dict[str, str]:
    """Return the path of each controller in the text of /proc/<pid>/cgroup; "" stands for cgroup v2.

    Source: cgroups(7). Co-mounted controllers ("cpu,cpuacct") are told one by one.
    """
    found: dict[str, str] = {}
    for line in cgroup.splitlines():
        _, colon, rest = line.partition(":")
        controllers, second, path = rest.partition(":")
        if colon and second:
            found.update((controller, path) for controller in controllers.split(","))
    return found


def job(cgroup: str) -> Job | None:
    """Return the run that the text of /proc/<pid>/cgroup names, or None where no scheduler made the cgroup.

    Slurm comes first: where its daemon runs within a pod, the job is what people know.
    """
    paths = controller_paths(cgroup)
    return _job("slurm", _SLURM, paths) or _job("kubernetes", _POD, paths)


def _job(scheduler: Literal["slurm", "kubernetes"], pattern: re.Pattern[str], paths: Mapping[str, str]) -> Job | None:
    matches = {controller: match for controller, path in paths.items() if (match := pattern.search(path))}
    if not matches:
        return None
    found = next(iter(matches.values()))[1].replace("_", "-")
    directories = {controller: match[0] for controller, match in matches.items()}
    return Job(scheduler, found, directories)
