"""Cgroups, version 1 and 2: where they are, and the run that a scheduler's one names (Slurm jobs, Kubernetes pods)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

V2 = ""  # stands for cgroup v2 among the controllers

# Slurm: v2 /system.slice/[<node>_]slurmstepd.scope/job_81234/step_0/user/task_0
#        v1 /slurm[_<node>]/uid_1000/job_81234/step_0/task_0
# (the node stands there where several slurmd share a host; some builds write it before, not behind).
_SLURM = re.compile(
    r"^.*?/(?:[^/]*slurmstepd\.scope|(?:[^/]+_)?slurm(?:_[^/]+)?/uid_\d+)/job_(\d+)(?:/step_([^/]+))?(?=/|$)"
)

# Kubernetes: cgroupfs /kubepods/burstable/pod<uid>/<container>
#             systemd  /kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid>.slice/cri-containerd-….scope
#             older    /system.slice/containerd.service/kubepods-burstable-pod<uid>.slice:cri-containerd:<container>
# systemd writes the dashes of a uid as underscores; the uid of a static pod is a hash of 32 digits. The first pod of a
# path is taken: its kubelet is this host's. From within a container with a cgroup namespace of its own the path begins
# with dots (/../../pod<uid>/<container>) and may have lost the part that says kubepods.
_POD = re.compile(
    r"^(?:.*?kubepods.*?|(?:/\.\.)+/)pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?:\.slice(?::[^/]*)?)?(?=/|$)"
)


@dataclass(frozen=True, slots=True)
class Job:
    """A scheduler's run as its cgroup names it.

    `directories` are the whole run's cgroups, below the mount of each controller or of V2. `step` is
    Slurm's name of the part of the job that the process belongs to ("batch", "0"), where the cgroup says it.
    """

    scheduler: Literal["slurm", "kubernetes"]
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
    found = next(iter(matches.values()))
    if scheduler == "kubernetes":
        return Job(scheduler, found[1].replace("_", "-"), {where: match[0] for where, match in matches.items()})
    step = next((match[2] for match in matches.values() if match[2]), None)
    directories = {where: match[0][: match.end(1)] for where, match in matches.items()}
    return Job(scheduler, found[1], directories, step)
