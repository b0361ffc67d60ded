"""Patches and commands for Kubernetes: affinity, topology-aware scheduling, resources.

Sources: Kubernetes documentation, "Update API Objects in Place Using kubectl patch" (strategic merge), "Assigning Pods
to Nodes"; kubectl reference, set resources, scale, cordon; Kueue, Topology Aware Scheduling (podset-required-topology).
The store knows a run's owner by kind, namespace and name, and no container by name: what is set on containers is set on
all of a template, and says so.
"""

from collections.abc import Mapping, Sequence

from analyzer.recommendations.artefacts.owner import native
from analyzer.recommendations.artefacts.quoting import remark, shell_word, words
from analyzer.recommendations.artefacts.yaml_text import Yaml, as_yaml
from analyzer.recommendations.recommendation import Artefact
from analyzer.recommendations.site import Host, Placed

# Owners whose pod template can change while they run; a Job's cannot, and others keep it elsewhere in their manifest.
_ROLLING = frozenset({"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"})
SCALABLE = frozenset({"Deployment", "StatefulSet", "ReplicaSet"})
_HOSTNAME = "kubernetes.io/hostname"
_REQUIRED_TOPOLOGY = "kueue.x-k8s.io/podset-required-topology"
PREFERRED_TOPOLOGY = "kueue.x-k8s.io/podset-preferred-topology"


def text(*lines: str) -> Artefact:
    """Return lines for Kubernetes."""
    return Artefact("kubernetes", "\n".join(lines))


def owner(placed: Placed) -> str:
    """Return a run's owner as kubectl takes it, such as deployment/ranker."""
    return shell_word(f"{(placed.kind or 'pod').lower()}/{placed.name or native(placed.run_id)}")


def command(placed: Placed, verb: str, *rest: str) -> str:
    """Return a command about a run's owner: kubectl -n ml scale deployment/ranker --replicas=3."""
    namespace = f" -n {shell_word(placed.account)}" if placed.account else ""
    return " ".join([f"kubectl{namespace} {verb} {owner(placed)}", *rest])


def patch(placed: Placed, spec: Mapping[str, Yaml], annotations: Mapping[str, str] | None = None) -> Artefact:
    """Return a patch of a run's pods: a strategic merge where its owner takes one, else what its manifest must say."""
    pods: dict[str, Yaml] = {}
    if annotations:
        pods["metadata"] = {"annotations": dict(annotations)}
    if spec:
        pods["spec"] = spec
    if placed.kind in _ROLLING:
        said = (
            f"# save as patch.yaml, then (its pods start anew): {command(placed, 'patch', '--patch-file patch.yaml')}"
        )
        return text(said, as_yaml({"spec": {"template": pods}}))
    if placed.kind == "Job":
        said = f"# the template of {owner(placed)} cannot change: merge this into its manifest before its next start"
        return text(said, as_yaml({"spec": {"template": pods}}))
    said = f"# in the pod template of {owner(placed)}, wherever its manifest keeps it, before its next start"
    return text(said, as_yaml(pods))


def resources(placed: Placed, requests: Mapping[str, str], limits: Mapping[str, str] | None = None) -> Artefact:
    """Return what sets requests, and limits, of the run's containers; the store knows none of them by name."""
    given = {"requests": dict(requests)} | ({"limits": dict(limits)} if limits else {})
    if placed.kind in _ROLLING:
        asked = [f"--{what}={','.join(f'{key}={value}' for key, value in of.items())}" for what, of in given.items()]
        return text(
            "# of every container of its template; where it has several, add -c and the name of the one with the GPUs;",
            "# its pods start anew",
            command(placed, "set resources", *asked),
        )
    return text(
        f"# in the manifest of {owner(placed)}, in its container with GPUs (the store does not know its name),",
        "# before its next start",
        as_yaml({"resources": given}),
    )


def one_slice(profile: str) -> dict[str, str]:
    """Return what a container asks for that has one MIG slice in place of a whole GPU (strategy: mixed)."""
    return {f"nvidia.com/mig-{profile}": "1", "nvidia.com/gpu": "0"}


def on_nodes(nodes: Sequence[str], operator: str = "In") -> dict[str, Yaml]:
    """Return the affinity of pods to hosts by name; "NotIn" keeps them away."""
    return _affinity(_HOSTNAME, nodes, operator)


def without_label(label: str) -> dict[str, Yaml]:
    """Return the affinity of pods to hosts that do not bear a label."""
    return _required({"key": label, "operator": "DoesNotExist"})


def in_rack(placed: Placed, rack: str, hosts: Sequence[Host]) -> Artefact:
    """Return the patch that keeps a run's pods within one rack: by the label that told the rack, else by its hosts."""
    label = next((host.rack_label for host in hosts if host.rack_label), None)
    if label is None:
        return patch(placed, on_nodes([host.node for host in hosts]))
    return patch(placed, _affinity(label, [rack]), {_REQUIRED_TOPOLOGY: label})


def scale(placed: Placed, replicas: int) -> str:
    """Return the command that sets how many replicas there are."""
    return command(placed, "scale", f"--replicas={replicas}")


def delete(placed: Placed) -> str:
    """Return the command that ends a run with its pods."""
    return command(placed, "delete")


def cordon(nodes: Sequence[str], why: str) -> Artefact:
    """Return the commands that give no more pods to these hosts; what runs there goes on until it ends."""
    return text(f"# {remark(why)}", f"kubectl cordon {words(nodes)}")


def _affinity(key: str, values: Sequence[str], operator: str = "In") -> dict[str, Yaml]:
    return _required({"key": key, "operator": operator, "values": list(values)})


def _required(expression: Yaml) -> dict[str, Yaml]:
    required: Yaml = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}
