"""Who held GPUs as a Prometheus remembers it: pods that asked for some, by kube-state-metrics, and labels of exporters.

kube-state-metrics is asked day by day, and only of those pods. It tells owners by kind and name, never by uid. A pod
without an owner is the run of its own uid. Else a run is named after its top-level owner, with the second in which that
was made, since names are used again: `kubernetes/prod/research.job:train-7b@1762700000`. Where the store has been told
by the cluster itself whose a pod is, that is its run. Source: kube-state-metrics, docs/metrics/workload (pod, job,
replicaset metrics and their labels); names of resources and labels have every character but letters, digits and _
replaced by _.

The labels of dcgm-exporter name no owner, no account and no end; they are what is left where no scheduler can be asked.
A pod is then a run of its own, `kubernetes/prod/research.train-0`, and a job `slurm/alpha/81234`.
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Protocol

from agent.wire.units import DAY_MS, SECOND_US
from collector.importing.history import History
from collector.importing.known_allocations import Sighting
from collector.importing.placing import Claim
from collector.prometheus.client import SeriesAnswer
from collector.schedulers.kubernetes.source import QUEUES, STANDING, Labels
from collector.schedulers.poller import Row, Value
from collector.store.session import Session

_PRESENT_MS = 60_000  # how finely it is seen until when a pod was there that nobody saw end
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

    def evaluated(self, expression: str, since: int, until: int, step: int) -> SeriesAnswer:
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


def read_pods(client: QueryClient, since: int, until: int) -> State:
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
    found = client.evaluated(expression, at if since is None else since, at, 1000 if since is None else _PRESENT_MS)
    end = 0
    for labels, length in zip(found.labels, found.lengths, strict=True):
        end += length
        value = found.values[end - 1].as_py() if length else None
        if value is not None:
            yield labels, value


def _sanitized(name: str) -> str:
    """Return a label's name as kube-state-metrics writes it, without its prefix label_."""
    return re.sub(r"[^A-Za-z0-9_]", "_", name)


_GONE_US = 5 * _PRESENT_MS * 1000  # a pod that was there so shortly before the end still is
# What kube-state-metrics says of why a pod or container ended, the most telling first.
_ENDINGS: tuple[tuple[str, frozenset[str]], ...] = (
    ("node_failed", frozenset({"NodeLost", "NodeShutdown", "Shutdown", "NodeAffinity"})),
    ("preempted", frozenset({"Evicted", "Preempting", "Preempted"})),
    ("timeout", frozenset({"DeadlineExceeded"})),
    ("out_of_memory", frozenset({"OOMKilled"})),
)
_ERRORS = frozenset({"Error", "ContainerCannotRun", "StartError", "UnexpectedAdmissionError"})


def pod_history(session: Session, state: State, cluster: str, labels: Labels, until: int) -> History:
    """Return what kube-state-metrics says of a span that ends at a time, microseconds UTC."""
    prefix = f"kubernetes/{cluster}/"
    told = _told(session, prefix)
    claims: list[Claim] = []
    aliases: list[Row] = []
    unscheduled = 0
    for pod in sorted(state.pods.values(), key=lambda pod: (pod.namespace, pod.name, pod.uid)):
        names = f"{prefix}{pod.uid}", f"{prefix}{pod.namespace}.{pod.name}"
        run_id = told.get(names[0]) or f"{prefix}{_run(state, pod)}"
        started_at, ended_at = _began(pod), _ended(pod, until)
        if not pod.node or started_at is None or started_at >= until:
            unscheduled += 1
            continue
        if ended_at is not None and ended_at <= started_at:
            continue
        claims.append(_claim(state, pod, run_id, names, started_at, ended_at, labels))
        member = f"{pod.namespace}/{pod.name}"
        aliases += [{"alias_run_id": name, "run_id": run_id, "member": member} for name in names]
    notes = (f"{unscheduled:,} pods requested GPUs and never started: left out",) if unscheduled else ()
    return History(f"kubernetes/{cluster}", until, _with_requests(claims), aliases=aliases, notes=notes)


def exit_status(pod: Pod, kind: str) -> str | None:
    """Return how a pod that is gone ended, in the contract's words.

    One that vanished while it worked was deleted by somebody's word, and accuses nobody; neither does a replica that
    was replaced.
    """
    found = next((status for status, reasons in _ENDINGS if pod.reasons & reasons), None)
    if found is None and pod.succeeded:
        found = "completed"
    if found is None:
        found = "failed" if pod.failed or pod.reasons & _ERRORS else "cancelled"
    return "cancelled" if kind in STANDING and found != "completed" else found


def sightings(holders: Iterable[Mapping[str, object]], cluster: str) -> list[Sighting]:
    """Return what an exporter's labels say of which pod or job held which GPU, by the names of such runs."""
    found: list[Sighting] = []
    for row in holders:
        span = str(row["gpu_uuid"]), _whole(row["started_at"]), _whole(row["ended_at"])
        if row.get("pod"):
            found.append(Sighting(f"kubernetes/{cluster}/{row.get('namespace') or 'default'}.{row['pod']}", *span))
        if row.get("hpc_job"):
            found.append(Sighting(f"slurm/{cluster}/{row['hpc_job']}", *span))
    return found


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0


def _told(session: Session, prefix: str) -> dict[str, str]:
    rows = session.rows(
        "SELECT alias_run_id, run_id FROM run_aliases WHERE starts_with(run_id, ?) ORDER BY batch", [prefix]
    )
    return dict(rows)


def _run(state: State, pod: Pod) -> str:
    top = state.top(pod)
    if top is None:
        return pod.uid
    kind, name = top
    made = state.created.get((pod.namespace, kind, name))
    return f"{pod.namespace}.{kind.lower()}:{name}" + (f"@{made // 1_000_000}" if made else "")


def _began(pod: Pod) -> int | None:
    return pod.started_at if pod.started_at is not None else pod.created_at


def _ended(pod: Pod, until: int) -> int | None:
    """Return when a pod ended, or None while it holds its GPUs at the end of the span."""
    if pod.completed_at is not None:
        return pod.completed_at if pod.completed_at <= until else None
    if pod.last_seen_at + _GONE_US >= until:
        return None
    return pod.last_seen_at + _PRESENT_MS * 1000


def _claim(
    state: State,
    pod: Pod,
    run_id: str,
    names: tuple[str, ...],
    started_at: int,
    ended_at: int | None,
    labels: Labels,
) -> Claim:
    top = state.top(pod)
    kind, name = top or ("Pod", pod.name)
    told: dict[str, str | None] = {"kind": kind, "priority_class": pod.priority_class}
    told |= {name: pod.labels.get(_sanitized(name)) for name in labels.further}
    kept = {name: value for name, value in sorted(told.items()) if value}
    facts: dict[str, Value] = {
        "submitted_at": pod.created_at,
        "scheduler": "kubernetes",
        "account": pod.namespace,
        "name": name,
        "user": _first(pod, labels.user),
        "project": _first(pod, labels.project),
        "queue": _first(pod, QUEUES),
        "labels": json.dumps(kept),
        "exit_status": exit_status(pod, kind) if ended_at is not None else None,
    }
    return Claim(
        run_id=run_id,
        attempt=0,
        node=pod.node,
        started_at=started_at,
        ended_at=ended_at,
        gpus=pod.gpus,
        member=f"{pod.namespace}/{pod.name}",
        names=names,
        hosts_name=names[0],
        facts=facts,
    )


def _first(pod: Pod, names: Sequence[str]) -> str | None:
    return next((value for name in names if (value := pod.labels.get(_sanitized(name)))), None)


def _with_requests(claims: Sequence[Claim]) -> list[Claim]:
    """Return claims whose facts say how many GPUs the whole run asked for: what its pods hold at once, at the most."""
    of_run: dict[str, list[Claim]] = defaultdict(list)
    for claim in claims:
        of_run[claim.run_id].append(claim)
    most = {run_id: _most_at_once(listed) for run_id, listed in of_run.items()}
    return [replace(claim, facts={**claim.facts, "requested_gpus": most[claim.run_id]}) for claim in claims]


def _most_at_once(claims: Sequence[Claim]) -> int:
    changes = [(claim.started_at, claim.gpus) for claim in claims]
    changes += [(claim.ended_at, -claim.gpus) for claim in claims if claim.ended_at is not None]
    return max(accumulate(change for _, change in sorted(changes)), default=0)


_BRIDGED_US = 600_000_000  # a silence that a holder outlasts: labels come with samples, and samples may be missing
_Holding = tuple[str, str, str | None]  # run, host, member


def of_holders(holders: Iterable[Mapping[str, object]], cluster: str, since: int, until: int) -> History:
    """Return what the labels say of a span, microseconds UTC; `holders` as a pull of a Prometheus tells them."""
    spans: dict[_Holding, list[tuple[int, int, str]]] = {}
    for row in holders:
        key = _holding(row, cluster)
        if key is not None:
            start, end = max(int(str(row["started_at"])), since), min(int(str(row["ended_at"])), until)
            spans.setdefault(key, []).append((start, end, str(row["gpu_uuid"])))
    claims = [claim for key, listed in spans.items() for claim in _claims(key, sorted(listed), until)]
    return History(f"labels/{cluster}", until, claims)


def _holding(row: Mapping[str, object], cluster: str) -> _Holding | None:
    node = str(row["node"])
    if row.get("pod"):
        namespace = str(row.get("namespace") or "default")
        return f"kubernetes/{cluster}/{namespace}.{row['pod']}", node, f"{namespace}/{row['pod']}"
    return (f"slurm/{cluster}/{row['hpc_job']}", node, None) if row.get("hpc_job") else None


def _claims(key: _Holding, spans: list[tuple[int, int, str]], until: int) -> list[Claim]:
    """Return a claim for each stretch in which a holder was seen on a host without a long silence."""
    run_id, node, member = key
    found: list[tuple[int, int, set[str]]] = []
    for start, end, uuid in spans:
        if found and start <= found[-1][1] + _BRIDGED_US:
            found[-1] = (found[-1][0], max(found[-1][1], end), found[-1][2] | {uuid})
        elif end > start:
            found.append((start, end, {uuid}))
    facts: dict[str, Value] = {"scheduler": run_id.split("/", 1)[0], "name": (member or run_id).rsplit("/", 1)[-1]}
    if member is not None:
        facts["account"] = member.split("/", 1)[0]
    return [
        Claim(
            run_id=run_id,
            attempt=attempt,
            node=node,
            started_at=start,
            ended_at=None if end + _BRIDGED_US >= until else end,
            gpus=len(uuids),
            member=member,
            named=tuple((uuid, "told") for uuid in sorted(uuids)),
            facts=facts | {"requested_gpus": len(uuids)},
        )
        for attempt, (start, end, uuids) in enumerate(found)
    ]
