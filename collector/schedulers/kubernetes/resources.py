"""What the API says of single pods, workloads and nodes, as far as the ledger needs to know it.

Of a pod: how many GPUs it asks for, who made it, where it stands and how it ended, in the contract's words. Of Kueue's
Workload: work that waits for quota has no pods yet. Of a GPU node: its state as its scheduler sees it, and where its
labels say that it stands.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from collector.schedulers.books import NodeState
from collector.schedulers.kubernetes.api import (
    Json,
    at,
    condition,
    holds,
    objects,
    text,
    texts,
    timestamp_us,
    whole_number,
)

# Whole GPUs, time-sliced or renamed ones (gpu.shared), and MIG instances (mig-1g.10gb): each counts as one unit, as the
# device plugin hands them out. What else the vendor's domain holds (pgpu for virtual machines) is no unit of ours.
_UNIT = re.compile(r"nvidia\.com/(?:gpu(?:\.shared)?|[A-Za-z0-9.]+\.shared|mig-[0-9]+g\.[0-9]+gb(?:\.[a-z.]+)?)")
_UNITS_MAX = 1_000_000


def gpus(spec: Json) -> int:
    """Return the units that a pod's specification asks for.

    Containers run side by side and add up; so do init containers that stay (restartPolicy Always). Other init
    containers run one by one before them and count only where one asks for more than all those.
    Source: Kubernetes documentation, "Init Containers", resource sharing within containers.
    """
    before = list(objects(spec, "initContainers"))
    staying = [one for one in before if one.get("restartPolicy") == "Always"]
    side_by_side = sum(map(_asked, [*objects(spec, "containers"), *staying]))
    return max([side_by_side, *(_asked(one) for one in before if one not in staying)])


def claims(spec: Json) -> bool:
    """Return whether a pod holds claims of Dynamic Resource Allocation; of what, only its ResourceClaims say."""
    return any(True for _ in objects(spec, "resourceClaims"))


def _is_unit(name: str) -> bool:
    """Return whether a resource is a GPU or a part of one."""
    return _UNIT.fullmatch(name) is not None


def _units(amounts: object) -> int:
    """Return the units in an object of resource names and amounts."""
    if not isinstance(amounts, dict):
        return 0
    return _total(amount for name, amount in amounts.items() if isinstance(name, str) and _is_unit(name))


def _asked(container: Json) -> int:
    # Extended resources have equal requests and limits; either may be left out.
    return max(_units(at(container, "resources", "limits")), _units(at(container, "resources", "requests")))


def _total(amounts: Iterable[object]) -> int:
    found = (str(amount) for amount in amounts if isinstance(amount, (str, int)) and not isinstance(amount, bool))
    return min(_UNITS_MAX, sum(int(amount) for amount in found if amount.isdecimal() and len(amount) < 10))


# Why the cluster itself took a pod away (condition DisruptionTarget), and why its node did (status.reason).
_DISRUPTIONS = {
    "PreemptionByScheduler": "preempted",
    "PreemptionByKubeScheduler": "preempted",
    "EvictionByEvictionAPI": "preempted",
    "TerminationByKubelet": "preempted",
    "DeletionByTaintManager": "node_failed",
    "DeletionByPodGC": "node_failed",
}
_REASONS = {
    "DeadlineExceeded": "timeout",
    "Evicted": "preempted",
    "Preempting": "preempted",
    "Preempted": "preempted",
    "NodeLost": "node_failed",
    "NodeShutdown": "node_failed",
    "Shutdown": "node_failed",
    "Terminated": "node_failed",  # of a node that was shut down in order
}
_OUT_OF_MEMORY = "OOMKilled"


def exit_status(pod: Json) -> str | None:
    """Return how a pod ended that has ended: None where nobody says.

    A reason of the cluster or the node goes before what the containers' exit codes say, since those follow from it.
    A pod that was deleted while its containers worked was cancelled by somebody's word, and accuses nobody.
    """
    if (found := _taken_away(pod)) is not None:
        return found
    ends = [one for container in _containers(pod) if (one := _terminated(container)) is not None]
    if any(text(end, "reason") == _OUT_OF_MEMORY for end in ends):
        return "out_of_memory"
    phase = text(pod, "status", "phase")
    if phase == "Succeeded":
        return "completed"
    if text(pod, "metadata", "deletionTimestamp") is not None:
        return "cancelled"
    if phase == "Failed" or any(whole_number(end, "exitCode") for end in ends):
        return "failed"
    return None


def ended_at(pod: Json) -> Json | None:
    """Return the last end of a container, where all of them have ended."""
    ends = [_terminated(container) for container in _containers(pod)]
    known = [end for end in ends if end is not None]
    if not known or len(known) < len(ends):
        return None
    return max(known, key=lambda end: text(end, "finishedAt") or "")


def _taken_away(pod: Json) -> str | None:
    if holds(pod, "DisruptionTarget"):
        found = _DISRUPTIONS.get(text(condition(pod, "DisruptionTarget"), "reason") or "")
        if found is not None:
            return found
    return _REASONS.get(text(pod, "status", "reason") or "")


def _containers(pod: Json) -> list[Json]:
    return list(objects(pod, "status", "containerStatuses"))


def _terminated(container: Json) -> Json | None:
    state = container.get("state")
    found = state.get("terminated") if isinstance(state, dict) else None
    return found if isinstance(found, dict) else None


_Phase = Literal["waiting", "holding", "ended"]
_REASON_MAX = 200  # characters of why a pod waits


@dataclass(frozen=True, slots=True)
class Owner:
    """A reference to what made an object, enough to ask for it."""

    api_version: str
    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Pod:
    """What is known of a pod. Times are microseconds UTC; None is not known.

    `gpus` counts units as the device plugin hands them out; it is None for a pod that holds resource claims alone.
    """

    uid: str
    namespace: str
    name: str
    phase: _Phase
    gpus: int | None
    owner: Owner | None = None
    labels: Mapping[str, str] | None = None
    node: str | None = None
    priority: float | None = None
    priority_class: str | None = None
    pending_reason: str | None = None
    time_limit_seconds: float | None = None
    submitted_at: int | None = None
    started_at: int | None = None
    ended_at: int | None = None
    exit_status: str | None = None

    @property
    def member(self) -> str:
        """How a pod is called within its run."""
        return f"{self.namespace}/{self.name}"


def pod(thing: Json) -> Pod | None:
    """Return a pod, or None where it asks for no GPU or is not one."""
    uid, name, namespace = (text(thing, "metadata", key) for key in ("uid", "name", "namespace"))
    spec = at(thing, "spec")
    if uid is None or name is None or namespace is None or not isinstance(spec, dict):
        return None
    units, claimed = gpus(spec), claims(spec)
    if not units and not claimed:
        return None
    phase = _phase(thing)
    limit, priority = whole_number(spec, "activeDeadlineSeconds"), whole_number(spec, "priority")
    return Pod(
        uid=uid,
        namespace=namespace,
        name=name,
        phase=phase,
        gpus=units or None,
        owner=controller(thing),
        labels=texts(thing, "metadata", "labels"),
        node=text(spec, "nodeName"),
        priority=None if priority is None else float(priority),
        priority_class=text(spec, "priorityClassName"),
        pending_reason=_pending_reason(thing) if phase == "waiting" else None,
        time_limit_seconds=None if limit is None else float(limit),
        submitted_at=timestamp_us(thing, "metadata", "creationTimestamp"),
        started_at=_started_at(thing),
        ended_at=_ended_at(thing) if phase == "ended" else None,
        exit_status=exit_status(thing) if phase == "ended" else None,
    )


def controller(thing: Json) -> Owner | None:
    """Return who controls an object; where nobody does, its only owner."""
    references = [_owner(one) for one in objects(thing, "metadata", "ownerReferences")]
    controllers = [
        _owner(one) for one in objects(thing, "metadata", "ownerReferences") if one.get("controller") is True
    ]
    found = [one for one in controllers or references if one is not None]
    return found[0] if found and (controllers or len(found) == 1) else None


def _owner(reference: Json) -> Owner | None:
    api_version, kind, name, uid = (text(reference, key) for key in ("apiVersion", "kind", "name", "uid"))
    if api_version is None or kind is None or name is None or uid is None:
        return None
    return Owner(api_version, kind, name, uid)


def _phase(thing: Json) -> _Phase:
    """Return where a pod stands. One that is being deleted holds its GPUs until its containers have ended."""
    if text(thing, "status", "phase") in ("Succeeded", "Failed"):
        return "ended"
    if text(thing, "metadata", "deletionTimestamp") is not None and ended_at(thing) is not None:
        return "ended"
    return "holding" if _started_at(thing) is not None else "waiting"


def _started_at(thing: Json) -> int | None:
    """Return when the pod took its GPUs: its kubelet hands them out as it takes the pod in, and then pulls images."""
    if text(thing, "spec", "nodeName") is None:
        return None
    began = timestamp_us(thing, "status", "startTime")
    if began is not None:
        return began
    scheduled = condition(thing, "PodScheduled")
    return timestamp_us(scheduled, "lastTransitionTime") if holds(thing, "PodScheduled") else None


def _ended_at(thing: Json) -> int | None:
    """Return when the last container ended; of a pod without any, when its last condition changed."""
    if (last := ended_at(thing)) is not None and (finished := timestamp_us(last, "finishedAt")) is not None:
        return finished
    changes = [timestamp_us(one, "lastTransitionTime") for one in objects(thing, "status", "conditions")]
    known = [at_us for at_us in changes if at_us is not None]
    return max(known) if known else timestamp_us(thing, "metadata", "deletionTimestamp")


def _pending_reason(thing: Json) -> str | None:
    """Return why a pod waits: the scheduler's word, of its message the first sentence, which counts the nodes."""
    gates = [text(gate, "name") for gate in objects(thing, "spec", "schedulingGates")]
    if gates:
        return f"SchedulingGated: {', '.join(gate for gate in gates if gate)}"[:_REASON_MAX]
    scheduled = condition(thing, "PodScheduled")
    if scheduled is None or holds(thing, "PodScheduled"):
        return None
    reason, message = text(scheduled, "reason"), text(scheduled, "message")
    first = message.split(". ", 1)[0].rstrip(".") if message else None
    return ": ".join(part for part in (reason, first) if part)[:_REASON_MAX] or None


PATHS = ("/apis/kueue.x-k8s.io/v1beta2/workloads", "/apis/kueue.x-k8s.io/v1beta1/workloads")
_PODS_MAX = 1_000_000


@dataclass(frozen=True, slots=True)
class Workload:
    """Work that waits for its quota. Times are microseconds UTC."""

    namespace: str
    owner: Owner
    queue: str | None
    gpus: int
    labels: dict[str, str]
    priority: float | None
    priority_class: str | None
    submitted_at: int | None
    pending_reason: str | None


def workload(thing: Json) -> Workload | None:
    """Return a Workload that waits and asks for GPUs; None for any other.

    One of a group of plain pods has many owners: its pods are there themselves, and say that they are gated.
    """
    owner, namespace = controller(thing), text(thing, "metadata", "namespace")
    if owner is None or namespace is None or holds(thing, "Admitted") or holds(thing, "Finished"):
        return None
    asked = sum(_asked_by_set(one) for one in objects(thing, "spec", "podSets"))
    if not asked:
        return None
    priority = whole_number(thing, "spec", "priority")
    return Workload(
        namespace=namespace,
        owner=owner,
        queue=text(thing, "spec", "queueName"),
        gpus=asked,
        labels=texts(thing, "metadata", "labels"),
        priority=None if priority is None else float(priority),
        priority_class=text(thing, "spec", "priorityClassName") or text(thing, "spec", "priorityClassRef", "name"),
        submitted_at=timestamp_us(thing, "metadata", "creationTimestamp"),
        pending_reason=_why(thing),
    )


def _asked_by_set(pods: Json) -> int:
    spec = at(pods, "template", "spec")
    count = min(_PODS_MAX, max(0, whole_number(pods, "count") or 0))
    return count * gpus(spec) if isinstance(spec, dict) else 0


def _why(thing: Json) -> str | None:
    evicted, reserved = condition(thing, "Evicted"), condition(thing, "QuotaReserved")
    if holds(thing, "QuotaReserved"):
        return "quota is reserved, admission checks are not through"
    if reserved is not None and (said := text(reserved, "message")):
        return said[:_REASON_MAX]
    if holds(thing, "Evicted"):
        return f"evicted: {text(evicted, 'reason')}"[:_REASON_MAX]
    return text(reserved, "reason")


_CORDON = "node.kubernetes.io/unschedulable"
_HAS_GPUS = "nvidia.com/gpu.present"  # set by GPU feature discovery
# The switch nearest to the node, and the next one above, as node groups, Topograph and the clouds label them.
_RACK = (
    "topology.kubernetes.io/rack",
    "network.topology.nvidia.com/leaf",
    "fabric.topograph.run/tier-0",
    "oci.oraclecloud.com/host.rack_id",
    "cloud.google.com/gce-topology-subblock",
    "topology.k8s.aws/network-node-layer-3",
)
_BLOCK = (
    "topology.kubernetes.io/block",
    "network.topology.nvidia.com/spine",
    "fabric.topograph.run/tier-1",
    "oci.oraclecloud.com/host.network_block_id",
    "cloud.google.com/gce-topology-block",
    "topology.k8s.aws/network-node-layer-2",
)
_ZONE = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
_REGION = ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region")
_INSTANCE_TYPE = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
_NODE_GROUP = (
    "eks.amazonaws.com/nodegroup",
    "cloud.google.com/gke-nodepool",
    "kubernetes.azure.com/agentpool",
    "karpenter.sh/nodepool",
)


@dataclass(frozen=True, slots=True)
class Node:
    """One GPU node."""

    state: NodeState
    labels: Mapping[str, str]


def node(thing: Json) -> Node | None:
    """Return a node, or None where it has no GPU.

    One whose device plugin is gone keeps its capacity for a while and its label for ever.
    """
    name, labels = text(thing, "metadata", "name"), texts(thing, "metadata", "labels")
    capacity = at(thing, "status", "capacity")
    has_gpus = isinstance(capacity, dict) and any(isinstance(key, str) and _is_unit(key) for key in capacity)
    if name is None or not (has_gpus or labels.get(_HAS_GPUS) == "true"):
        return None
    return Node(_state(name, thing), labels)


def node_location(
    labels: Mapping[str, str], rack: Sequence[str] = (), block: Sequence[str] = ()
) -> dict[str, str | None]:
    """Return the columns of `inventory` that a node's labels tell. `rack` and `block` are looked at before the usual
    labels; the first that is there counts.
    """
    rack_label, block_label = _first(labels, (*rack, *_RACK)), _first(labels, (*block, *_BLOCK))
    found = [label for label in (rack_label, block_label) if label]
    return {
        "rack": labels.get(rack_label or ""),
        "block": labels.get(block_label or ""),
        "zone": labels.get(_first(labels, _ZONE) or ""),
        "region": labels.get(_first(labels, _REGION) or ""),
        "node_group": labels.get(_first(labels, _NODE_GROUP) or ""),
        "instance_type": labels.get(_first(labels, _INSTANCE_TYPE) or ""),
        "topology_source": f"labels {', '.join(found)}" if found else None,
    }


def _first(labels: Mapping[str, str], names: Sequence[str]) -> str | None:
    return next((name for name in names if labels.get(name)), None)


def _state(name: str, thing: Json) -> NodeState:
    """Return down where the node is not ready, else drained where it is cordoned, else up."""
    ready = condition(thing, "Ready")
    if not holds(thing, "Ready"):
        said = [text(ready, "reason"), text(ready, "message")]
        reason = ": ".join(part for part in said if part)[:_REASON_MAX] or "no word of its kubelet"
        return NodeState(name, "down", reason, timestamp_us(ready, "lastTransitionTime"))
    if at(thing, "spec", "unschedulable") is True:
        cordons = (taint for taint in objects(thing, "spec", "taints") if taint.get("key") == _CORDON)
        return NodeState(name, "drained", "cordoned", timestamp_us(next(cordons, None), "timeAdded"))
    return NodeState(name, "up")
