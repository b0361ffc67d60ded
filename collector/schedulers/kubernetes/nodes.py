"""GPU nodes: their state as their scheduler sees it, and where their labels say that they stand."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from collector.schedulers.kubernetes.fields import Json, at, condition, objects, text, texts, timestamp_us
from collector.schedulers.kubernetes.resources import is_unit
from collector.schedulers.node_book import NodeState

_REASON_MAX = 200
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
    has_gpus = isinstance(capacity, dict) and any(isinstance(key, str) and is_unit(key) for key in capacity)
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
    if ready is None or ready.get("status") != "True":
        said = [text(ready, "reason"), text(ready, "message")]
        reason = ": ".join(part for part in said if part)[:_REASON_MAX] or "no word of its kubelet"
        return NodeState(name, "down", reason, timestamp_us(ready, "lastTransitionTime"))
    if at(thing, "spec", "unschedulable") is True:
        cordons = (taint for taint in objects(thing, "spec", "taints") if taint.get("key") == _CORDON)
        return NodeState(name, "drained", "cordoned", timestamp_us(next(cordons, None), "timeAdded"))
    return NodeState(name, "up")
