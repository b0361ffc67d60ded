"""What is pasted: whose scheduler takes it, names that cannot write a line of it, and patches for Kubernetes.

Sources: sbatch(1), scontrol(1), scancel(1), srun(1) of Slurm 22.05 on; Kubernetes documentation, "Update API Objects
in Place Using kubectl patch" (strategic merge), "Assigning Pods to Nodes"; kubectl reference, set resources and scale;
Kueue, Topology Aware Scheduling (podset-required-topology). The store knows a run's owner by kind, namespace and name,
and no container by name: what is set on containers is set on all of a template, and says so.

MIG layouts: which slices a GPU of a kind can be cut into, and the commands for it. Source: NVIDIA MIG User Guide,
https://docs.nvidia.com/datacenter/tesla/mig-user-guide/supported-mig-profiles.html; with the media extensions (+me),
which one slice may have, and the whole GPU left out.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from agent.wire.units import GIB
from analyzer.recommendations.recommendation import Artefact
from analyzer.recommendations.site import Host, Placed

# Owners whose pod template can change while they run; a Job's cannot, and others keep it elsewhere in their manifest.
_ROLLING = frozenset({"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"})
_SCALABLE = frozenset({"Deployment", "StatefulSet", "ReplicaSet"})
_REQUIRED_TOPOLOGY = "kueue.x-k8s.io/podset-required-topology"
PREFERRED_TOPOLOGY = "kueue.x-k8s.io/podset-preferred-topology"


def shell_word(name: str) -> str:
    """Return a name as one word of a shell, whatever is in it."""
    return shlex.quote(remark(name))


def shell_words(names: Iterable[str]) -> str:
    """Return names as words of a shell."""
    return " ".join(map(shell_word, names))


def joined_names(names: Iterable[str]) -> str:
    """Return names as one word, between commas, as Slurm takes hosts."""
    return shell_word(",".join(names))


def remark(text: str) -> str:
    """Return a text as one line, as the rest of a comment needs it."""
    return " ".join("".join(one if one.isprintable() else " " for one in text).split())


def scheduler(run_id: str) -> str:
    """Return the scheduler that named a run: slurm, kubernetes, ray, declared or process."""
    return run_id.split("/", 1)[0]


def native(run_id: str) -> str:
    """Return what its own scheduler calls a run."""
    return run_id.rsplit("/", 1)[-1]


def scancel(runs: Iterable[Placed]) -> str:
    """Return the command that ends these runs of Slurm."""
    return "scancel " + shell_words(native(run.run_id) for run in runs if scheduler(run.run_id) == "slurm")


def time_limit(seconds: int) -> str:
    """Return a length of time as --time takes it, rounded up to minutes: 1-02:30:00."""
    minutes = max(1, -(-seconds // 60))
    days, rest = divmod(minutes, 24 * 60)
    return (f"{days}-" if days else "") + f"{rest // 60:02}:{rest % 60:02}:00"


def rank_file(hosts: Sequence[str], ranks_on: Sequence[int]) -> str:
    """Return the lines that write the order of ranks to a file, a host's name once a task: `ranks_on` are of each host.

    Source: srun(1), --distribution=arbitrary and SLURM_HOSTFILE.
    """
    same = set(ranks_on)
    if len(same) == 1:
        loop = [f"for host in {shell_words(hosts)}; do", f'  yes "$host" | head -n {same.pop()}', "done"]
    else:
        loop = [
            "{",
            *(f"  yes {shell_word(host)} | head -n {ranks}" for host, ranks in zip(hosts, ranks_on, strict=True)),
            "}",
        ]
    return "\n".join(loop) + ' > "$SLURM_HOSTFILE"'


def owner(placed: Placed) -> str:
    """Return a run's owner as kubectl takes it, such as deployment/ranker."""
    return shell_word(f"{(placed.kind or 'pod').lower()}/{placed.name or native(placed.run_id)}")


def kubectl(placed: Placed, verb: str, *rest: str) -> str:
    """Return a command about a run's owner: kubectl -n ml scale deployment/ranker --replicas=3."""
    namespace = f" -n {shell_word(placed.account)}" if placed.account else ""
    return " ".join([f"kubectl{namespace} {verb} {owner(placed)}", *rest])


def kubectl_scale(placed: Placed, replicas: int) -> str:
    """Return the command that sets how many replicas there are."""
    return kubectl(placed, "scale", f"--replicas={replicas}")


def kubectl_end(placed: Placed) -> str:
    """Return what ends a run of Kubernetes; who is kept alive there is scaled to nothing, and can come back."""
    return kubectl_scale(placed, 0) if placed.kind in _SCALABLE else kubectl(placed, "delete")


def pod_patch(placed: Placed, spec: Mapping[str, "Yaml"], annotations: Mapping[str, str] | None = None) -> str:
    """Return a patch of a run's pods: a strategic merge where its owner takes one, else what its manifest must say."""
    pods: dict[str, Yaml] = {}
    if annotations:
        pods["metadata"] = {"annotations": dict(annotations)}
    if spec:
        pods["spec"] = spec
    if placed.kind in _ROLLING:
        apply = kubectl(placed, "patch", "--patch-file patch.yaml")
        return f"# save as patch.yaml, then (its pods start anew): {apply}\n" + as_yaml({"spec": {"template": pods}})
    if placed.kind == "Job":
        note = f"# the template of {owner(placed)} cannot change: merge this into its manifest before its next start\n"
        return note + as_yaml({"spec": {"template": pods}})
    note = f"# in the pod template of {owner(placed)}, wherever its manifest keeps it, before its next start\n"
    return note + as_yaml(pods)


def pod_resources(placed: Placed, requests: Mapping[str, str], limits: Mapping[str, str] | None = None) -> str:
    """Return what sets requests, and limits, of the run's containers; the store knows none of them by name."""
    given = {"requests": dict(requests)} | ({"limits": dict(limits)} if limits else {})
    if placed.kind in _ROLLING:
        flags = [f"--{what}={','.join(f'{key}={value}' for key, value in of.items())}" for what, of in given.items()]
        return (
            "# of every container of its template; where it has several, add -c and the name of the one with the GPUs;"
            f"\n# its pods start anew\n{kubectl(placed, 'set resources', *flags)}"
        )
    return (
        f"# in the manifest of {owner(placed)}, in its container with GPUs (the store does not know its name),\n"
        f"# before its next start\n{as_yaml({'resources': given})}"
    )


def one_slice(placed: Placed, profile: str) -> str:
    """Return what gives a container one MIG slice in place of a whole GPU (strategy: mixed)."""
    return pod_resources(placed, *[{f"nvidia.com/mig-{profile}": "1", "nvidia.com/gpu": "0"}] * 2)


def on_nodes(nodes: Sequence[str], operator: str = "In") -> dict[str, "Yaml"]:
    """Return the affinity of pods to hosts by name; "NotIn" keeps them away."""
    return _affinity({"key": "kubernetes.io/hostname", "operator": operator, "values": list(nodes)})


def without_label(label: str) -> dict[str, "Yaml"]:
    """Return the affinity of pods to hosts that do not bear a label."""
    return _affinity({"key": label, "operator": "DoesNotExist"})


def in_rack(placed: Placed, rack: str, hosts: Sequence[Host]) -> str:
    """Return the patch that keeps a run's pods within one rack: by the label that told the rack, else by its hosts."""
    label = next((host.rack_label for host in hosts if host.rack_label), None)
    if label is None:
        return pod_patch(placed, on_nodes([host.node for host in hosts]))
    return pod_patch(placed, _affinity({"key": label, "operator": "In", "values": [rack]}), {_REQUIRED_TOPOLOGY: label})


def _affinity(expression: "Yaml") -> dict[str, "Yaml"]:
    required: Yaml = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


Yaml = Mapping[str, "Yaml"] | Sequence["Yaml"] | str | int
_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./-]*")
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})  # which YAML 1.1 reads as others


def as_yaml(value: Mapping[str, Yaml]) -> str:
    """Return a mapping as YAML, in its own order: enough for patches, and no dependency for it."""
    return "\n".join(_lines(value))


def _lines(value: Yaml) -> Iterator[str]:
    if isinstance(value, Mapping | Sequence) and not value and not isinstance(value, str):
        yield "{}" if isinstance(value, Mapping) else "[]"
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _under(f"{_scalar(key)}:", each)
    elif isinstance(value, str | int):
        yield _scalar(value)
    else:
        for each in value:
            first, *rest = _lines(each)
            yield f"- {first}"
            yield from (f"  {line}" for line in rest)


def _under(key: str, value: Yaml) -> Iterator[str]:
    if isinstance(value, str | int) or not value:
        yield f"{key} {next(_lines(value))}"
        return
    yield key
    yield from (f"  {line}" for line in _lines(value))


def _scalar(value: str | int) -> str:
    if isinstance(value, int):
        return str(value)
    is_plain = _PLAIN.fullmatch(value) is not None and value.lower() not in _WORDS
    return value if is_plain else f'"{"".join(map(_character, value))}"'


def _character(one: str) -> str:
    """Return a character as double quotes take it; YAML has no pairs of surrogates as JSON has."""
    if one in ('"', "\\"):
        return f"\\{one}"
    return one if one.isascii() and one.isprintable() else f"\\U{ord(one):08x}"


@dataclass(frozen=True, slots=True)
class Profile:
    """One kind of slice: its name, its share of the SMs in sevenths (of an A30 in quarters), and how many fit."""

    name: str
    count: int

    @property
    def memory_bytes(self) -> int:
        """Its memory, as its name says it."""
        return int(self.name.split(".")[1].removesuffix("gb")) * GIB


def _of(*counts: tuple[str, int]) -> tuple[Profile, ...]:
    return tuple(Profile(name, count) for name, count in counts)


_80GB = _of(("1g.10gb", 7), ("1g.20gb", 4), ("2g.20gb", 3), ("3g.40gb", 2), ("4g.40gb", 1))
_96GB = _of(("1g.12gb", 7), ("1g.24gb", 4), ("2g.24gb", 3), ("3g.48gb", 2), ("4g.48gb", 1))
# By the names that agent.wire.sku gives, smallest slice first.
PROFILES: dict[str, tuple[Profile, ...]] = {
    "A30-24GB": _of(("1g.6gb", 4), ("2g.12gb", 2)),
    "A100-40GB": _of(("1g.5gb", 7), ("1g.10gb", 4), ("2g.10gb", 3), ("3g.20gb", 2), ("4g.20gb", 1)),
    "A100-80GB": _80GB,
    "H100-80GB": _80GB,
    "H100-94GB": _of(("1g.12gb", 7), ("1g.24gb", 4), ("2g.24gb", 3), ("3g.47gb", 2), ("4g.47gb", 1)),
    "GH200-96GB": _96GB,
    "H20-96GB": _96GB,
    "H200-141GB": _of(("1g.18gb", 7), ("1g.35gb", 4), ("2g.35gb", 3), ("3g.71gb", 2), ("4g.71gb", 1)),
    "B200-180GB": _of(("1g.23gb", 7), ("1g.45gb", 4), ("2g.45gb", 3), ("3g.90gb", 2), ("4g.90gb", 1)),
    "GB200-186GB": _of(("1g.23gb", 7), ("1g.47gb", 4), ("2g.47gb", 3), ("3g.93gb", 2), ("4g.93gb", 1)),
}


def profile(sku: str | None, memory_bytes: int) -> Profile | None:
    """Return the slice of which most fit on a GPU of this kind and which has this memory; None where there is none."""
    fitting = [each for each in PROFILES.get(sku or "", ()) if each.memory_bytes >= memory_bytes and each.count > 1]
    return max(fitting, key=lambda each: (each.count, each.memory_bytes), default=None)


def layout(of: Profile, gpus: Sequence[str]) -> Artefact:
    """Return the commands that cut these GPUs, by uuid, into as many slices as fit; nothing may run on them."""
    slices = ",".join([of.name] * of.count)
    cut = [
        line
        for gpu in map(shell_word, gpus)
        for line in (f"nvidia-smi -i {gpu} -mig 1", f"nvidia-smi mig -i {gpu} -cgi {slices} -C")
    ]
    return Artefact("mig", "\n".join(("# once nothing runs on it: what is there and not saved would be lost", *cut)))
