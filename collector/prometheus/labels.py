"""What the labels of a series say: of which GPU, host, disk or link it is, what that GPU is, and who held it.

Sources: dcgm-exporter, internal/pkg/rendermetrics (labels of a GPU) and internal/pkg/transformation (pod and HPC job);
Prometheus, "honor_labels" (the exporter's own word becomes exported_… where the target has a label of that name).
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from agent.wire.contract import Table
from agent.wire.serving import ENGINES, RANKS, REQUESTS, TRITON, VLLM
from agent.wire.sku import sku
from agent.wire.tables import TABLES
from collector.prometheus.names import EVERY, OF_INSTANCES, Metric, Slot

Labels = Mapping[str, str]
_LONGEST_NAME = 200  # characters of what becomes a key

# The first that is there names the host. `node` and its like are put on by service discovery, and so the scheduler's.
_NODE_LABELS = ("node", "kubernetes_node", "nodename", "Hostname", "hostname", "exported_node", "exported_hostname")

_MODEL_LABELS = {engine.name: engine.model_label for engine in ENGINES}
_WITH_ENSEMBLES = {engine.name for engine in ENGINES if engine.has_ensembles}
_SLICES = re.compile(r"(?:\d+c\.)?(\d+)g\.")
_QUARTERED = ("A30", "RTX PRO 6000")  # MIG User Guide: four slices, where other chips have seven
# What lies on other disks and shows them again, as agent/sources/disk.py; ways to a disk; partitions.
_NO_DISK = re.compile(
    r"(?:dm-|md_?d?|loop|bcache|drbd|zd|ram|zram|sr|fd)\d.*|md_.*|emcpower[a-z]+\d*|nvme\d+c\d+n\d+"
    r"|(?:sd|x?vd|hd|dasd)[a-z]+\d+|.+\dp\d+"
)
# Interfaces whose bytes pass another one, by the names that kernels, engines and the networks of clusters and clouds
# give them (a name with a point is a VLAN's), and IP over InfiniBand, which its port counts.
_NO_LINK = re.compile(
    r"lo|ib.*|.*\..*|(?:eni|gke)[0-9a-f]{8,}|(?:br|vmbr|vnet|sit|gre|ip6?tnl|ip6gre|erspan|tunl|wg)\d.*"
    r"|(?:veth|docker|br-|virbr|cni|cali|flannel|ifb|dummy|tun|tap|kube-|cilium|lxc|ovs|ovn|bond|team|vlan|vxlan|geneve?_"
    r"|macvlan|ipvlan|podman|nerdctl|weave|antrea|azv|nodelocaldns|tailscale).*"
)
# What an exporter's pod or container is called, for where nothing proves whose the label is.
_EXPORTER = re.compile(r"(?:dcgm|gpu|nvidia|smi|metrics).*exporter|gpuledger")
_OF_POD = ("namespace", "pod", "container")
# Labels that an exporter gives to each sample. What is left is its target's or its scraper's, and tells several of them
# apart; so does what high-availability pairs put on.
_OF_SAMPLES = re.compile(
    r"__name__|gpu.*|GPU.*|uuid|UUID|device|name|model.*|sku|pci.*|vgpu|hpc_job|err_.*|xid|.*[dD]river.*|DCGM_.*|DCGM_FI_.*"
    r"|[hH]ostname|pod.*|namespace|container.*|exported_.*|label_.*|run_id|user|account|parent_uuid|mig_.*"
    r"|dra_.*|UID"
)
REPLICAS = ("prometheus_replica", "replica", "__replica__", "prometheus", "thanos_replica", "receive_replica")

_OF_SENDERS = frozenset({"cluster", *REPLICAS})  # put on when samples are sent on, whatever `up` has


@dataclass(frozen=True, slots=True)
class Subject:
    """What a row is of: its table, its host, and the columns that tell one subject of the table from another."""

    table: str
    node: str
    keys: tuple[tuple[str, str], ...] = ()
    address: str = ""  # of a service: two replicas of one run on one host are told apart by nothing else

    def key(self, column: str) -> str | None:
        """Return one of the columns; None where it has none of that name."""
        return dict(self.keys).get(column)


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """What the labels say of a GPU or MIG instance; None is unknown."""

    index: int | None
    model: str | None  # the driver's product name
    pci_bus_id: str | None
    driver_version: str | None
    mig_slices: int | None
    mig_slices_max: int | None

    def sku(self, memory_bytes: int | None) -> str | None:
        """Return model and memory as people order them, or None where no label names the model.

        A MIG instance is a part of what was ordered: its own memory says nothing of that.
        """
        return None if self.model is None else sku(self.model, memory_bytes if self.mig_slices is None else None)

    def inventory(self, found: Subject, memory_bytes: int | None) -> dict[str, str | float | None]:
        """Return the columns of `inventory` of this GPU but the span of time that it is told of."""
        return {
            "node": found.node,
            "gpu_uuid": found.key("gpu_uuid"),
            "parent_uuid": found.key("parent_uuid"),
            "gpu_index": self.index,
            "pci_bus_id": self.pci_bus_id,
            "sku": self.sku(memory_bytes),
            "memory_bytes": memory_bytes,
            "mig_slices": self.mig_slices,
            "mig_slices_max": self.mig_slices_max,
            "driver_version": self.driver_version,
        }


@dataclass(frozen=True, slots=True)
class ExporterHolder:
    """Who held a GPU by the exporter's labels: a pod, or an HPC job, or both."""

    namespace: str | None
    pod: str | None
    container: str | None
    hpc_job: str | None


@dataclass(frozen=True, slots=True)
class Clusters:
    """The names of the clusters that pods and Slurm jobs are of, as their schedulers' rows bear them.

    `exporters` are the pods of the targets themselves, and `of_targets` the names of all labels that targets have, as
    the server tells them; None where it tells of no target. `hosts` has the other names of hosts that have several.
    """

    kubernetes: str = "default"
    slurm: str = "default"
    exporters: frozenset[tuple[str, str]] | None = None  # namespace, pod
    of_targets: frozenset[str] | None = None
    hosts: Mapping[str, str] = field(default_factory=dict)


DEFAULT = Clusters()


def run_of(holder: ExporterHolder, clusters: Clusters) -> tuple[str, str, str | None]:
    """Return a holder's run, which kind of witness says so, and the member.

    The narrower one counts: a job that is named beside a pod runs within it.
    """
    if holder.hpc_job or not holder.pod:
        return f"slurm/{clusters.slurm}/{holder.hpc_job}", "cgroup", None
    name = f"{holder.namespace or 'default'}.{holder.pod}"
    member = "/".join(part for part in (holder.namespace or "default", holder.pod, holder.container) if part)
    return f"kubernetes/{clusters.kubernetes}/{name}", "kubernetes", member


def subject(metric: Metric, slot: Slot, labels: Labels, clusters: Clusters = DEFAULT) -> Subject | None:
    """Return what a series is of for this slot, or None where it is not read: it is of no GPU or disk that counts."""
    node = host(labels)
    node = clusters.hosts.get(node, node) if node else None
    if node is None or (slot.only and labels.get(slot.only[0], "") not in slot.only[1]):
        return None
    if slot.unless and labels.get(slot.unless[0]) in slot.unless[1]:
        return None
    if metric.exporter == "serving":
        return _service(metric, slot, node, labels, clusters)
    if metric.exporter == "gpuledger":
        return _ours(TABLES[slot.table], node, labels)
    name_keys = _KEYS.get(slot.table)
    keys = () if name_keys is None else name_keys(slot, labels)
    return (
        None
        if keys is None or any(len(value) > _LONGEST_NAME for _, value in keys)
        else Subject(slot.table, node, keys)
    )


def host(labels: Labels) -> str | None:
    """Return the host of a series, or None where no label names one.

    A dcgm-exporter in a pod may take the pod's name for its host's (dcgm-exporter#78): that is no host.
    """
    for name in _NODE_LABELS:
        found = labels.get(name)
        if found and found not in (labels.get("pod"), labels.get("exported_pod")):
            return found[:_LONGEST_NAME]
    return _without_port(labels.get("instance", ""))[:_LONGEST_NAME] or None


def gpu_facts(labels: Labels) -> GpuFacts:
    """Return what a GPU is."""
    model = (labels.get("modelName") or labels.get("name") or labels.get("sku") or "")[:_LONGEST_NAME] or None
    profile = _SLICES.match(labels.get("GPU_I_PROFILE", ""))
    most = 4 if model and any(name in model for name in _QUARTERED) else 7
    index = labels.get("gpu") or labels.get("gpu_index") or ""
    versions = ("DCGM_FI_DRIVER_VERSION", "DCGM_FI_SYSTEM_DRIVER_VERSION", "driver_version")
    return GpuFacts(
        index=int(index) if index.isdecimal() and len(index) < 4 else None,
        model=model,
        pci_bus_id=_bus(labels.get("pci_bus_id", "")[:_LONGEST_NAME]),
        driver_version=next((labels[name][:_LONGEST_NAME] for name in versions if labels.get(name)), None),
        mig_slices=int(profile[1]) if profile else None,
        mig_slices_max=most if profile else None,
    )


def holder(labels: Labels, clusters: Clusters = DEFAULT) -> ExporterHolder | None:
    """Return who held the GPU, or None where nobody is named: the exporter's own pod holds nothing.

    Each label of the exporter's that its target has too stands behind exported_, and the target's beside it. Where none
    does, `pod` is the exporter's own where the server says of the target that it is that pod, and else that of who
    holds the GPU; where the server tells nothing, names decide.
    """
    told = [labels.get(name) for name in _OF_POD]
    renamed = [labels.get(f"exported_{name}") for name in _OF_POD]
    namespace, pod, container = (_short(one or other) for one, other in zip(renamed, told, strict=True))
    if pod is not None and not any(renamed):
        if clusters.exporters is None:
            is_own = _EXPORTER.search(f"{pod} {container or ''}") is not None
        else:
            is_own = (namespace or "", pod) in clusters.exporters
        pod = None if is_own else pod
    if pod is None:
        namespace = container = None
    job = _short(labels.get("hpc_job"))
    return ExporterHolder(namespace, pod, container, job) if pod or job else None


def target_pod(labels: Labels) -> tuple[str, str] | None:
    """Return the pod of a series' target, namespace and name, where its labels prove it: `up` is told of targets alone,
    and a server puts exported_ before what a sample says itself and its target too.
    """
    is_up = labels.get("__name__") == "up"
    if not labels.get("pod") or not (is_up or labels.get("exported_pod")):
        return None
    return labels.get("namespace", "") if is_up or labels.get("exported_namespace") else "", labels["pod"]


@lru_cache(1000)  # names are few, and asked for with every series
def is_of_target(name: str, of_targets: frozenset[str] | None = None) -> bool:
    """Whether a label is its target's or scraper's, and not the exporter's own word on a sample.

    `of_targets` are those that targets have, where the server tells: it may have no `up` of some that others send it.
    """
    return not _OF_SAMPLES.fullmatch(name) and (of_targets is None or name in of_targets or name in _OF_SENDERS)


def witness(labels: Labels, of_gpu: bool, of_targets: frozenset[str] | None = None) -> str:
    """Return what tells the scrapers of one subject apart: who scraped, and which target.

    Of other subjects than GPUs series differ in further labels, so that only the usual ones count. dcgm-exporter gives
    a sample the labels of the pod that holds the GPU, whatever those are called: `of_targets` are those that targets
    have, where the server tells.
    """
    told = [f"{name}={labels[name]}" for name in sorted(labels) if is_of_target(name, of_targets)] if of_gpu else []
    return ",".join(told) or ",".join(f"{name}={labels[name]}" for name in REPLICAS if labels.get(name))


_NO_CLUSTER = frozenset({"instance", "endpoint", "service", *REPLICAS})
# After so much silence a number on a host may be of another GPU: one was swapped, or its exporter counts anew,
# and may have other labels since.
_SWAP_SECONDS, _RENUMBER_SECONDS = 600.0, 60.0


@dataclass(slots=True)
class _Numbered:
    found: Subject
    labels: Labels
    heard_at: float


class Namesakes:
    """Hosts whose name stands in several clusters: two GPUs of one number at a time, told apart by a target's label.

    Of such a host that is kept whose label has the value that was heard first. `of_targets` are the names of labels
    that targets have, where the server tells.
    """

    def __init__(self, of_targets: frozenset[str] | None = None) -> None:
        self._of_targets = of_targets
        self._numbered: dict[tuple[str, int], _Numbered] = {}
        self._kept: dict[str, tuple[str, str]] = {}  # by host: the label, and its value that counts

    def foreign(
        self, found: Subject, number: int | None, labels: Callable[[], Labels], now: float = 0.0
    ) -> tuple[str, str, str] | None:
        """Return the label by which a series is of another cluster's host than the one that is kept, and both values.

        `number` is that of the GPU that the series is of, `labels` are asked for where they are needed.
        """
        if number is not None and not found.key("parent_uuid"):
            self._note(found, number, labels, now)
        if (kept := self._kept.get(found.node)) is None:
            return None
        value = labels().get(kept[0])
        return None if value in (None, kept[1]) else (*kept, value)

    def _note(self, found: Subject, number: int, labels: Callable[[], Labels], now: float) -> None:
        key = found.node, number
        known = self._numbered.get(key)
        if known is not None and known.found == found:
            known.heard_at = now
            return
        said, before = labels(), {} if known is None else known.labels
        named = [name for name in sorted(said) if is_of_target(name, self._of_targets)]
        apart = [name for name in named if before.get(name, said[name]) != said[name]]
        apart = sorted((name for name in apart if name not in _NO_CLUSTER), key=lambda name: "cluster" not in name)
        if known is not None and apart:
            silent = now - known.heard_at
            if silent < (_SWAP_SECONDS if "cluster" in apart[0] else _RENUMBER_SECONDS):
                self._kept[found.node] = apart[0], before[apart[0]]
                return
        self._kept.pop(found.node, None)
        self._numbered[key] = _Numbered(found, said, now)


_OF_NO_PART = frozenset({"__name__", *REPLICAS, *RANKS})


def part_of(slot: Slot, labels: Labels) -> str:
    """Return which part of its column a series is."""
    if slot.parts != EVERY:
        return labels.get(slot.parts, "") if slot.parts else ""
    return "\0".join(f"{name}={labels[name]}" for name in sorted(labels) if name not in _OF_NO_PART)


def model_of(slot: Slot, labels: Labels) -> str | None:
    """Return the model that a series of a serving stack is of; None where it does not say."""
    label = _MODEL_LABELS.get(slot.engine)
    return _short(labels.get(label)) if label else None


class ServedModels:
    """The models that the series of services name: which of several a GPU's time went to, nobody says."""

    def __init__(self) -> None:
        self._named: dict[Subject, set[str]] = {}
        self._asked: dict[Subject, set[str]] = {}  # those of ensembles, perhaps, that count requests

    def note(self, found: Subject, slot: Slot, model: str | None) -> None:
        """Take the model of one series."""
        if model:
            self._named.setdefault(found, set()).add(model)
            if slot.column in REQUESTS and slot.engine in _WITH_ENSEMBLES:
                self._asked.setdefault(found, set()).add(model)

    def __bool__(self) -> bool:
        """Whether any series named one."""
        return bool(self._named)

    def one(self, found: Subject) -> str | None:
        """Return the one model of a service."""
        models = self._named.get(found, ())
        return next(iter(models)) if len(models) == 1 else None

    @property
    def mixed(self) -> set[Subject]:
        """The services of which several models count requests: an ensemble's count each of its members' again."""
        return {found for found, models in self._asked.items() if len(models) > 1}


def _service(metric: Metric, slot: Slot, node: str, labels: Labels, clusters: Clusters) -> Subject | None:
    """Return the replica that a series is of, by its label `run_id` or by its pod; None where neither names a run."""
    if metric.name.startswith("vllm:") and (slot.engine == TRITON.name) != _is_backend(labels):
        return None
    named, held = labels.get("run_id", ""), holder(labels)  # the pod of the target is the one that serves
    run_id = named if named.count("/") >= 2 else run_of(held, clusters)[0] if held else ""
    if not run_id or len(run_id) > _LONGEST_NAME:
        return None
    return Subject(slot.table, node, (("run_id", run_id), ("engine", slot.engine)), labels.get("instance", ""))


def _is_backend(labels: Labels) -> bool:
    """Whether a metric of vLLM is told by Triton's backend of that name, whose label of the model is Triton's."""
    return VLLM.model_label not in labels and TRITON.model_label in labels


def _short(said: str | None) -> str | None:
    return (said or "")[:_LONGEST_NAME] or None


def _ours(table: Table, node: str, labels: Labels) -> Subject | None:
    """Return the subject of our own exporter's series: its labels are columns."""
    keys = tuple((name, labels[name][:_LONGEST_NAME]) for name in table.labels if labels.get(name))
    lacks = {column.name for column in table.columns if column.required and column.kind == "key"} - dict(keys).keys()
    return None if lacks - {"node", "started_at", "ended_at"} else Subject(table.name, node, keys)


def _gpu(slot: Slot, labels: Labels) -> tuple[tuple[str, str], ...] | None:
    uuid = labels.get("UUID") or labels.get("uuid") or ""
    if not uuid:
        return None
    if "UUID" not in labels and not uuid.startswith(("GPU-", "MIG-")):
        uuid = f"GPU-{uuid}"  # nvidia_gpu_exporter leaves it out
    instance = labels.get("GPU_I_ID", "")
    if not instance:
        return (("gpu_uuid", uuid),)
    if slot.column not in OF_INSTANCES:
        return None
    # Which MIG UUID an instance has, no label of DCGM's says; ours puts it there.
    name = instance if instance.startswith("MIG-") else f"{uuid}/{instance}"
    return ("gpu_uuid", name), ("parent_uuid", uuid)


def _disk(_: Slot, labels: Labels) -> tuple[tuple[str, str], ...] | None:
    device = labels.get("device", "")
    return (("device", device), ("mount_kind", "block")) if device and not _NO_DISK.fullmatch(device) else None


def _link(_: Slot, labels: Labels) -> tuple[tuple[str, str], ...] | None:
    device, port = labels.get("device", ""), labels.get("port")
    if port is not None:  # node_infiniband_…; which link layer, it does not say
        return (("device", f"{device}:{port}"),) if device else None
    return None if not device or _NO_LINK.fullmatch(device) else (("device", device), ("link_kind", "ethernet"))


_KEYS = {"gpu_samples": _gpu, "disk_samples": _disk, "network_samples": _link}


def _without_port(instance: str) -> str:
    name, colon, port = instance.rpartition(":")
    return name.strip("[]") if colon and port.isdecimal() else instance


def _bus(said: str) -> str | None:
    """Return a PCI address as sysfs writes it, 0000:b1:00.0, of one as the driver does, 00000000:B1:00.0."""
    domain, colon, rest = said.partition(":")
    return f"{domain[-4:]}:{rest}".lower() if colon else None
