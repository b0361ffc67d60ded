"""Pods that asked for GPUs, as kube-state-metrics told a Prometheus of them: day by day, and only those pods.

Source: kube-state-metrics, docs/metrics/workload (pod, job, replicaset metrics and their labels); names of resources
and labels have every character but letters, digits and _ replaced by _.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from agent.wire.units import DAY_MS, SECOND_US

if TYPE_CHECKING:
    from collector.prometheus.answer import SeriesAnswer

PRESENT_MS = 60_000  # how finely it is seen until when a pod was there that nobody saw end
_CREATED = {
    "CronJob": ("kube_cronjob_created", "cronjob"),
    "DaemonSet": ("kube_daemonset_created", "daemonset"),
    "Deployment": ("kube_deployment_created", "deployment"),
    "Job": ("kube_job_created", "job_name"),
    "ReplicaSet": ("kube_replicaset_created", "replicaset"),
    "StatefulSet": ("kube_statefulset_created", "statefulset"),
}
_ABOVE = {"Job": ("kube_job_owner", "job_name"), "ReplicaSet": ("kube_replicaset_owner", "replicaset")}
_NOBODY = ("", "<none>")

_GPUS = 'kube_pod_container_resource_requests{resource=~"nvidia_com_.+"}'
_WHOLE = "nvidia_com_gpu"
_PART = re.compile(r"nvidia_com_(gpu_shared|[A-Za-z0-9_]+_shared|mig_[0-9]+g_[0-9]+gb.*)")

_Owner = tuple[str, str]  # kind, name


class QueryClient(Protocol):
    """What answers a query: a client of Prometheus."""

    def evaluated(self, expression: str, since: int, until: int, step: int) -> "SeriesAnswer":
        """Return an expression's values at since, since + step, … until, milliseconds UTC."""
        ...


@dataclass(slots=True)
class Pod:
    """One pod that asked for GPUs, or for parts of some. Times are microseconds UTC."""

    namespace: str
    name: str
    uid: str
    node: str = ""
    asked: dict[tuple[str, str], int] = field(default_factory=dict)  # whole GPUs by container and resource
    owner: _Owner | None = None
    priority_class: str | None = None
    created_at: int | None = None
    started_at: int | None = None
    completed_at: int | None = None
    last_seen_at: int = 0
    succeeded: bool = False
    failed: bool = False
    reasons: set[str] = field(default_factory=set)
    labels: dict[str, str] = field(default_factory=dict)

    @property
    def gpus(self) -> int:
        """How many whole GPUs it asks for; 0 for parts of some."""
        return sum(self.asked.values())


@dataclass(slots=True)
class State:
    """What was found of a span: pods by uid, who is above an owner, and when owners were made (microseconds UTC)."""

    pods: dict[str, Pod] = field(default_factory=dict)
    above: dict[tuple[str, str, str], _Owner] = field(default_factory=dict)  # namespace, kind, name
    created: dict[tuple[str, str, str], int] = field(default_factory=dict)

    def top(self, pod: Pod) -> _Owner | None:
        """Return the top-level owner of a pod, None where it has none of its own."""
        owner = pod.owner
        for _ in range(len(_ABOVE) + 1):
            above = self.above.get((pod.namespace, *owner)) if owner else None
            if above is None:
                break
            owner = above
        return None if owner is None or owner[0] == "Node" else owner


def read(client: QueryClient, since: int, until: int) -> State:
    """Return the pods with GPUs between two times (microseconds UTC).

    Raises:
        ServerError: the server does not answer, or says no.
    """
    state, start, end = State(), since // 1000, until // 1000
    while start < end:
        part = min(start + DAY_MS, end)
        _read_day(client, state, start, part)
        start = part
    return state


def _read_day(client: QueryClient, state: State, start: int, end: int) -> None:
    within = f"[{end - start}ms]"
    asked = f"max_over_time({_GPUS}{within})"
    for labels, value in _last(client, asked, end):
        _note_request(state, labels, value)
    if not state.pods:
        return
    only = f"and on (uid) {asked}"
    for name, note in _FACTS.items():
        for labels, value in _last(client, f"last_over_time({name}{within}) {only}", end):
            pod = state.pods.get(labels.get("uid", ""))
            if pod is not None:
                note(pod, labels, value)
    # A server repeats the last sample for five minutes where nothing says that the series has ended; so the time of the
    # sample itself is asked for.
    for labels, seconds in _last(client, f"max by (uid) (timestamp({_GPUS}))", end, start):
        pod = state.pods.get(labels.get("uid", ""))
        if pod is not None:
            pod.last_seen_at = max(pod.last_seen_at, round(seconds * SECOND_US))
    _read_owners(client, state, within, end)


def _note_request(state: State, labels: Mapping[str, str], value: float) -> None:
    resource, uid = labels.get("resource", ""), labels.get("uid", "")
    is_part = _PART.fullmatch(resource) is not None
    if not uid or not (resource == _WHOLE or is_part) or not 0 < value < 1e6:
        return
    pod = state.pods.setdefault(uid, Pod(_own(labels, "namespace"), _own(labels, "pod"), uid))
    pod.node = labels.get("node") or pod.node
    pod.asked[labels.get("container", ""), resource] = 0 if is_part else int(value)


def _read_owners(client: QueryClient, state: State, within: str, end: int) -> None:
    kinds = {pod.owner[0] for pod in state.pods.values() if pod.owner}
    for kind, (metric, label) in _ABOVE.items():
        if kind in kinds:
            for labels, _ in _last(client, f"last_over_time({metric}{within})", end):
                above = labels.get("owner_kind", ""), labels.get("owner_name", "")
                if above[0] not in _NOBODY:
                    state.above[_own(labels, "namespace"), kind, labels.get(label, "")] = above
    tops = {top[0] for pod in state.pods.values() if (top := state.top(pod))}
    for kind, (metric, label) in _CREATED.items():
        if kind in tops:
            for labels, value in _last(client, f"last_over_time({metric}{within})", end):
                state.created[_own(labels, "namespace"), kind, labels.get(label, "")] = round(value * SECOND_US)


def _info(pod: Pod, labels: Mapping[str, str], _: float) -> None:
    pod.node = labels.get("node") or pod.node
    pod.priority_class = labels.get("priority_class") or pod.priority_class


def _owner(pod: Pod, labels: Mapping[str, str], _: float) -> None:
    kind, name = labels.get("owner_kind", ""), labels.get("owner_name", "")
    if kind not in _NOBODY and (pod.owner is None or labels.get("owner_is_controller") == "true"):
        pod.owner = kind, name


def _labels(pod: Pod, labels: Mapping[str, str], _: float) -> None:
    pod.labels |= {name.removeprefix("label_"): value for name, value in labels.items() if name.startswith("label_")}


def _phase(pod: Pod, labels: Mapping[str, str], value: float) -> None:
    pod.succeeded |= value == 1 and labels.get("phase") == "Succeeded"
    pod.failed |= value == 1 and labels.get("phase") == "Failed"


def _reason(pod: Pod, labels: Mapping[str, str], value: float) -> None:
    if value == 1 and labels.get("reason"):
        pod.reasons.add(labels["reason"])


_Note = Callable[[Pod, Mapping[str, str], float], None]


def _moment(name: str) -> _Note:
    """Return what notes the moment of a metric, seconds of the epoch, as a field of the pod."""
    return lambda pod, _, value: setattr(pod, name, round(value * SECOND_US))


_FACTS: dict[str, _Note] = {
    "kube_pod_info": _info,
    "kube_pod_owner": _owner,
    "kube_pod_labels": _labels,
    'kube_pod_status_phase{phase=~"Failed|Succeeded"}': _phase,
    "kube_pod_status_reason": _reason,
    "kube_pod_container_status_terminated_reason": _reason,
    "kube_pod_created": _moment("created_at"),
    "kube_pod_start_time": _moment("started_at"),
    "kube_pod_completion_time": _moment("completed_at"),
}


def _own(labels: Mapping[str, str], name: str) -> str:
    """Return a label as kube-state-metrics gave it: a server that does not honour labels puts its target's first."""
    return labels.get(f"exported_{name}") or labels.get(name, "")


def _last(
    client: QueryClient, expression: str, at: int, since: int | None = None
) -> Iterator[tuple[Mapping[str, str], float]]:
    """Yield the series of an expression with their values at a moment, or with the last since an earlier one."""
    found = client.evaluated(expression, at if since is None else since, at, 1000 if since is None else PRESENT_MS)
    end = 0
    for labels, length in zip(found.labels, found.lengths, strict=True):
        end += length
        value = found.values[end - 1].as_py() if length else None
        if value is not None:
            yield labels, value


def sanitized(name: str) -> str:
    """Return a label's name as kube-state-metrics writes it, without its prefix label_."""
    return re.sub(r"[^A-Za-z0-9_]", "_", name)
