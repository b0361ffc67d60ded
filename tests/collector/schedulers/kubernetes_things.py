"""Objects as an API server tells them, with what a test does not care about filled in."""

from datetime import UTC, datetime
from typing import Any

from tests.analyzer.ledger.fleet import MINUTE, MONDAY

T = MONDAY
PODS, NODES = "/api/v1/pods", "/api/v1/nodes"
Thing = dict[str, Any]


def stamp(at: int) -> str:
    """Return a time as the API writes it."""
    return datetime.fromtimestamp(at / 1e6, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def meta(name: str, namespace: str = "ml", owner: Thing | None = None, **more: Any) -> Thing:
    """Return the metadata of an object; its uid is made of its name."""
    found: Thing = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "creationTimestamp": stamp(T)}
    if owner is not None:
        found["ownerReferences"] = [reference(owner)]
    return found | more


def reference(owner: Thing, controller: bool = True) -> Thing:
    """Return a reference to an object."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": controller,
    }


def owning(kind: str, api_version: str, name: str, owner: Thing | None = None, **more: Any) -> Thing:
    """Return an object that owns others."""
    return {"apiVersion": api_version, "kind": kind, "metadata": meta(name, owner=owner, **more)}


def waiting(name: str = "trainer-0", gpus: int = 2, owner: Thing | None = None, **more: Any) -> Thing:
    """Return a pod that no node has room for."""
    resources = {"limits": {"nvidia.com/gpu": str(gpus)}, "requests": {"nvidia.com/gpu": str(gpus)}}
    return {
        "metadata": meta(name, owner=owner, **more),
        "spec": {"containers": [{"name": "main", "resources": resources}], "priority": 10},
        "status": {
            "phase": "Pending",
            "conditions": [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "Unschedulable",
                    "message": "0/3 nodes are available: 3 Insufficient nvidia.com/gpu. preemption: 0/3 are helpful",
                }
            ],
        },
    }


def running(
    name: str = "trainer-0", gpus: int = 2, owner: Thing | None = None, at: int = T + MINUTE, **more: Any
) -> Thing:
    """Return the pod on n1."""
    thing = waiting(name, gpus, owner, **more)
    thing["spec"]["nodeName"] = "n1"
    thing["status"] = {
        "phase": "Running",
        "startTime": stamp(at),
        "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": stamp(at)}],
        "containerStatuses": [{"name": "main", "state": {"running": {"startedAt": stamp(at)}}}],
    }
    return thing


def over(
    name: str = "trainer-0",
    gpus: int = 2,
    owner: Thing | None = None,
    at: int = T + 10 * MINUTE,
    code: int = 0,
    why: str = "",
    **more: Any,
) -> Thing:
    """Return the pod after its container has ended."""
    thing = running(name, gpus, owner, **more)
    ended = {"exitCode": code, "reason": why or ("Error" if code else "Completed"), "finishedAt": stamp(at)}
    thing["status"]["phase"] = "Failed" if code else "Succeeded"
    thing["status"]["containerStatuses"][0]["state"] = {"terminated": ended}
    return thing


def host(name: str = "n1", ready: str = "True", cordoned: bool = False, labels: Thing | None = None) -> Thing:
    """Return a GPU node."""
    spec: Thing = {}
    if cordoned:
        taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": stamp(T - 30 * MINUTE)}
        spec = {"unschedulable": True, "taints": [taint]}
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels or {}},
        "spec": spec,
        "status": {
            "capacity": {"cpu": "128", "nvidia.com/gpu": "8"},
            "conditions": [
                {
                    "type": "Ready",
                    "status": ready,
                    "reason": "KubeletReady" if ready == "True" else "NodeStatusUnknown",
                    "message": "kubelet stopped posting" if ready != "True" else "ok",
                    "lastTransitionTime": stamp(T - 20 * MINUTE),
                }
            ],
        },
    }
