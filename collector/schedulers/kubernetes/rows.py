"""A pod becomes rows of `allocations` and `run_aliases`. The API knows no GPU by name: its host's agent does."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from collector.schedulers.kubernetes.owners import Top
from collector.schedulers.kubernetes.pod import Pod
from collector.schedulers.kubernetes.workload import Workload
from collector.schedulers.poll import Row

QUEUES = ("kueue.x-k8s.io/queue-name", "volcano.sh/queue-name", "kai.scheduler/queue", "runai/queue")
_RAY = {"ray.io/cluster": "ray_cluster", "ray.io/node-type": "ray_node_type", "ray.io/group": "ray_group"}
# Owners that keep so many replicas alive. One of them that is replaced had no work to lose: it is said to be cancelled,
# and how it really ended stands in its labels.
STANDING = frozenset(
    {
        "DaemonSet",
        "Deployment",
        "InferenceService",
        "LeaderWorkerSet",
        "Notebook",
        "RayCluster",
        "RayService",
        "ReplicaSet",
        "ReplicationController",
        "Rollout",
        "StatefulSet",
    }
)


@dataclass(frozen=True, slots=True)
class Labels:
    """Which labels of pods, and of their owners, tell what: of `user` and `project` the first that is there counts,
    and `further` ones are kept as they are.
    """

    user: tuple[str, ...] = ()
    project: tuple[str, ...] = ()
    further: tuple[str, ...] = ()


def allocation(pod: Pod, top: Top, prefix: str, labels: Labels, requested: int | None) -> Row:
    """Return the row of a pod as it is now. `prefix` is kubernetes/<cluster>/, `requested` is of the whole run."""
    known = {**top.labels, **(pod.labels or {})}
    status = _status(pod, top)
    told = {"kind": top.kind, "priority_class": pod.priority_class, "ray_submission": top.submission}
    told |= {"ended": pod.exit_status} if status != pod.exit_status else {}
    return {
        "run_id": f"{prefix}{top.uid}",
        "member": pod.member,
        "node": pod.node if pod.started_at is not None else None,
        "submitted_at": pod.submitted_at,
        "started_at": pod.started_at,
        "ended_at": None if pod.ended_at is None else max(pod.ended_at, pod.started_at or pod.ended_at),
        "exit_status": status,
        "pending_reason": pod.pending_reason,
        "requested_gpus": requested,
        "time_limit_seconds": pod.time_limit_seconds,
        "priority": pod.priority,
        "account": pod.namespace,
        "name": top.name,
        **_said(known, told, labels),
    }


def awaited(work: Workload, top: Top, prefix: str, labels: Labels) -> Row:
    """Return the row of work that waits for quota, and has no pods yet."""
    told = {"kind": top.kind, "priority_class": work.priority_class, "ray_submission": top.submission}
    row: Row = {
        "run_id": f"{prefix}{top.uid}",
        "submitted_at": work.submitted_at,
        "pending_reason": work.pending_reason,
        "requested_gpus": work.gpus,
        "priority": work.priority,
        "account": work.namespace,
        "name": top.name,
        **_said({**work.labels, **top.labels}, told, labels),
    }
    return row | {"queue": work.queue or row["queue"]}


def aliases(pod: Pod, top: Top, prefix: str) -> list[Row]:
    """Return the names that hosts have for a pod: its uid, from its cgroup, and its name, from the kubelet.

    The uid of a pod without an owner stands for itself: what it tells then is the member.
    """
    told = {"run_id": f"{prefix}{top.uid}", "member": pod.member}
    return [{"alias_run_id": f"{prefix}{name}", **told} for name in (pod.uid, f"{pod.namespace}.{pod.name}")]


def _status(pod: Pod, top: Top) -> str | None:
    if top.kind in STANDING and pod.exit_status not in (None, "completed"):
        return "cancelled"
    return pod.exit_status


def _said(known: Mapping[str, str], told: Mapping[str, str | None], labels: Labels) -> Row:
    ray = {column: known.get(label) for label, column in _RAY.items()}
    further = {name: known.get(name) for name in labels.further}
    kept = {name: value for name, value in sorted({**further, **ray, **told}.items()) if value}
    return {
        "scheduler": "kubernetes",
        "user": _first(known, labels.user),
        "project": _first(known, labels.project),
        "queue": _first(known, QUEUES),
        "labels": json.dumps(kept) if kept else None,
    }


def _first(known: Mapping[str, str], names: Iterable[str]) -> str | None:
    return next((known[name] for name in names if known.get(name)), None)
