"""Who held GPUs as a Prometheus remembers it: pods that asked for some, by kube-state-metrics.

kube-state-metrics is asked day by day, and only of those pods. A pod is known by its uid; where that label was dropped
on the way, by its name and when it was created. It tells owners by kind and name, never by uid. A pod
without an owner is the run of its own uid. Else a run is named after its top-level owner, with the second in which that
was made, since names are used again: `kubernetes/prod/research.job:train-7b@1762700000`. Where the store has been told
by the cluster itself whose a pod is, that is its run. Source: kube-state-metrics, docs/metrics/workload (pod, job,
replicaset metrics and their labels); names of resources and labels have every character but letters, digits and _
replaced by _.
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

from agent.wire.units import DAY_MS, MILLISECOND_US, SECOND_US
from collector.errors import TooMuchError
from collector.importing.history import History
from collector.importing.placing import Claim
from collector.prometheus.client import Client, SeriesAnswer
from collector.schedulers.kubernetes.source import QUEUES, STANDING, Labels
from collector.schedulers.poller import Row, Value
from collector.store.session import Session

_SHORTEST_MS = 3_600_000  # a day is asked for in parts where that is too much; no shorter ones
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
_POD = "(uid, namespace, pod, exported_namespace, exported_pod)"  # labels by which series are of one pod
_DONE = 'kube_pod_status_phase{phase=~"Failed|Succeeded"}'
# What changes with each pod of a name, in the order in which it is asked for.
_OF_ONE = ("kube_pod_created", "kube_pod_start_time", "kube_pod_completion_time", _DONE)
_WHOLE = "nvidia_com_gpu"
_SHARE = re.compile(r"nvidia_com_gpu(?:mem|mem_percentage|cores)")  # HAMi: how much of each GPU, in MiB or percent
_PART = re.compile(r"nvidia_com_(gpu_shared|[A-Za-z0-9_]+_shared|mig_[0-9]+g_[0-9]+gb.*)")

_Owner = tuple[str, str]  # kind, name


@dataclass(slots=True)
class Pod:
    """One pod that asked for GPUs, or for parts of some. Times are microseconds UTC; a uid may be unknown: ""."""

    namespace: str
    name: str
    uid: str
    node: str = ""
    asked: dict[tuple[str, str], int] = field(default_factory=dict)  # whole GPUs by container and resource
    shares: set[str] = field(default_factory=set)  # containers that ask for a part of each of their GPUs
    owner: _Owner | None = None
    priority_class: str | None = None
    created_at: int | None = None
    started_at: int | None = None
    completed_at: int | None = None
    first_seen_at: int = 0
    last_seen_at: int = 0
    succeeded: bool = False
    failed: bool = False
    reasons: set[str] = field(default_factory=set)
    labels: dict[str, str] = field(default_factory=dict)

    @property
    def gpus(self) -> int:
        """How many whole GPUs it asks for; 0 for parts of some."""
        return sum(count for (container, _), count in self.asked.items() if container not in self.shares)


@dataclass(slots=True)
class State:
    """What was found of a span: pods by uid, who is above an owner, and when owners were made (microseconds UTC).

    A pod without a uid is called by its namespace, its name and the second in which it was created.
    """

    pods: dict[str, Pod] = field(default_factory=dict)
    named: dict[str, list[Pod]] = field(default_factory=lambda: defaultdict(list))  # without a uid, by name
    above: dict[tuple[str, str, str], _Owner] = field(default_factory=dict)  # namespace, kind, name
    created: dict[tuple[str, str, str], int] = field(default_factory=dict)

    def of(self, labels: Mapping[str, str]) -> Sequence[Pod]:
        """Return the pods that a series is of: one by its uid, without it all that have had the name."""
        if uid := labels.get("uid"):
            return [self.pods[uid]] if uid in self.pods else []
        return self.named.get(_name(labels), ())

    def top(self, pod: Pod) -> _Owner | None:
        """Return the top-level owner of a pod, None where it has none of its own."""
        owner = pod.owner
        for _ in range(len(_ABOVE) + 1):
            above = self.above.get((pod.namespace, *owner)) if owner else None
            if above is None:
                break
            owner = above
        return None if owner is None or owner[0] == "Node" else owner


def read_pods(client: Client, since: int, until: int) -> State:
    """Return the pods with GPUs between two times (microseconds UTC).

    Raises:
        ServerError: the server does not answer, or says no.
    """
    state, start, end = State(), since // 1000, until // 1000
    length = DAY_MS
    while start < end:
        part = min(start + length, end)
        try:
            _read_day(client, state, start, part)
        except TooMuchError:
            if length <= _SHORTEST_MS:
                raise
            length //= 2
            continue
        start = part
    return state


def _read_day(client: Client, state: State, start: int, end: int) -> None:
    within, gpus = f"[{end - start}ms]", client.selector(_GPUS)
    asked = f"max_over_time({gpus}{within})"
    for labels, value in _last(client, asked, end):
        _note_request(state, labels, value)
    if not state.pods and not state.named:
        return
    if state.named:
        _read_created(client, state, start, end)
        _read_namesakes(client, state, start, end)
    only = f"and on {_POD} {asked}"
    for name, note in _FACTS.items():
        for labels, value in _last(client, f"last_over_time({client.selector(name)}{within}) {only}", end):
            pods = state.of(labels)
            for pod in pods if len(pods) < 2 or name not in _OF_ONE else ():
                note(pod, labels, value)
    _read_presence(client, state, start, end)
    _read_ends(client, state, start, end, only)
    _read_owners(client, state, within, end)


def _read_namesakes(client: Client, state: State, start: int, end: int) -> None:
    """Find what of each is told one after the other of pods that have had one name: by when it was told."""
    for name in _OF_ONE:
        selector = client.selector(name)
        expression = f"({selector} == 1)" if name == _DONE else selector
        for labels, values in _grid(client, f"{expression} and on {_POD} {client.selector(_GPUS)}", start, end):
            for at, value in values.items():
                there = [pod for pod in state.of(labels) if pod.first_seen_at <= at * MILLISECOND_US]
                if labels.get("uid") or len(state.of(labels)) < 2 or not there:
                    continue
                _FACTS[name](there[-1], labels, value)
                if name == _DONE and there[-1].completed_at is None:
                    there[-1].completed_at = at * MILLISECOND_US


def _read_presence(client: Client, state: State, start: int, end: int) -> None:
    """Find when pods were seen first and last.

    A server repeats the last sample for five minutes where nothing says that the series has ended; so the time of the
    sample itself is asked for.
    """
    for labels, values in _values(client, f"max by {_POD} (timestamp({client.selector(_GPUS)}))", start, end):
        first, last = (round(values[at] * SECOND_US) for at in (0, -1))
        for pod in state.of(labels):
            if pod.uid or len(state.named[_name(labels)]) == 1:
                pod.first_seen_at, pod.last_seen_at = pod.first_seen_at or first, max(pod.last_seen_at, last)


def _read_ends(client: Client, state: State, start: int, end: int, only: str) -> None:
    """Find since when pods are done whose completion nothing tells."""
    if not any(_is_endless(pod) for pod in _every(state)):
        return
    done = client.selector(_DONE)
    for labels, values in _values(client, f"min by {_POD} (timestamp({done} == 1)) {only}", start, end):
        for pod in state.of(labels):
            if _is_endless(pod) and (pod.uid or len(state.of(labels)) == 1):
                pod.completed_at = round(values[0] * SECOND_US)


def _is_endless(pod: Pod) -> bool:
    return pod.completed_at is None and (pod.succeeded or pod.failed)


def _every(state: State) -> Iterator[Pod]:
    yield from state.pods.values()
    for pods in state.named.values():
        yield from pods


def _note_request(state: State, labels: Mapping[str, str], value: float) -> None:
    resource, uid = labels.get("resource", ""), labels.get("uid", "")
    is_part, is_share = _PART.fullmatch(resource) is not None, _SHARE.fullmatch(resource) is not None
    if not (resource == _WHOLE or is_part or is_share) or not 0 < value < 1e6:
        return
    if not state.of(labels):
        pod = Pod(_own(labels, "namespace"), _own(labels, "pod"), uid)
        if uid:
            state.pods[uid] = pod
        else:
            state.named[_name(labels)].append(pod)
    for pod in state.of(labels):
        pod.node = _own(labels, "node") or pod.node
        container = _own(labels, "container")
        pod.asked[container, resource] = int(value) if resource == _WHOLE else 0
        pod.shares |= {container} if is_share and (resource == "nvidia_com_gpumem" or value < 100) else set()


def _read_created(client: Client, state: State, start: int, end: int) -> None:
    """Tell pods of one name apart by when they were created, and find when each was seen and on which host."""
    created, gpus = client.selector("kube_pod_created"), client.selector(_GPUS)
    there = f"and on {_POD} {gpus}"
    seen = {_name(labels): at for labels, at in _grid(client, f"timestamp({created}) {there}", start, end)}
    hosts = list(_grid(client, f"max by (node, exported_node, {_POD[1:]} (timestamp({gpus}))", start, end))
    for labels, values in _grid(client, f"max by {_POD} ({created}) {there}", start, end):
        name = _name(labels)
        if labels.get("uid") or name not in state.named:
            continue
        pods = state.named[name]
        times: dict[int, list[float]] = defaultdict(list)
        for at, value in values.items():
            times[round(value * SECOND_US)].append(seen.get(name, {}).get(at, at / 1000))
        for moment, found in sorted(times.items()):
            pod = next((one for one in pods if one.created_at in (None, moment)), None)
            if pod is None:
                pod = replace(pods[-1], asked=dict(pods[-1].asked), reasons=set(), started_at=None, completed_at=None)
                pod.succeeded = pod.failed = False
                pod.first_seen_at = pod.last_seen_at = 0
                pods.append(pod)
            pod.created_at = moment
            pod.first_seen_at = pod.first_seen_at or round(min(found) * SECOND_US)
            pod.last_seen_at = max(pod.last_seen_at, round(max(found) * SECOND_US))
            where = [
                _own(said, "node")
                for said, at in hosts
                if _own(said, "node") and _name(said) == name and {*at.values()} & {*found}
            ]
            pod.node = where[-1] if where else pod.node


def _read_owners(client: Client, state: State, within: str, end: int) -> None:
    kinds = {pod.owner[0] for pod in _every(state) if pod.owner}
    for kind, (metric, label) in _ABOVE.items():
        if kind in kinds:
            for labels, _ in _last(client, f"last_over_time({client.selector(metric)}{within})", end):
                above = labels.get("owner_kind", ""), labels.get("owner_name", "")
                if above[0] not in _NOBODY:
                    state.above[_own(labels, "namespace"), kind, labels.get(label, "")] = above
    tops = {top[0] for pod in _every(state) if (top := state.top(pod))}
    for kind, (metric, label) in _CREATED.items():
        if kind in tops:
            for labels, value in _last(client, f"last_over_time({client.selector(metric)}{within})", end):
                state.created[_own(labels, "namespace"), kind, labels.get(label, "")] = round(value * SECOND_US)


def _info(pod: Pod, labels: Mapping[str, str], _: float) -> None:
    pod.node = pod.node or _own(labels, "node")
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
    _DONE: _phase,
    "kube_pod_status_reason": _reason,
    "kube_pod_container_status_terminated_reason": _reason,
    "kube_pod_created": _moment("created_at"),
    "kube_pod_start_time": _moment("started_at"),
    "kube_pod_completion_time": _moment("completed_at"),
}


def _own(labels: Mapping[str, str], name: str) -> str:
    """Return a label as kube-state-metrics gave it: a server that does not honour labels puts its target's first."""
    return labels.get(f"exported_{name}") or labels.get(name, "")


def _name(labels: Mapping[str, str]) -> str:
    return f"{_own(labels, 'namespace')}/{_own(labels, 'pod')}"


def _last(client: Client, expression: str, at: int) -> Iterator[tuple[Mapping[str, str], float]]:
    """Yield the series of an expression with their values at a moment."""
    found = client.evaluated(expression, at, at, 1000)
    return ((labels, values[-1]) for labels, _, values in _series_in(found))


def _values(client: Client, expression: str, since: int, until: int) -> Iterator[tuple[Mapping[str, str], list[float]]]:
    """Yield the series of an expression with their values in a span, in order, as finely as presence is seen."""
    return (
        (labels, values) for labels, _, values in _series_in(client.evaluated(expression, since, until, _PRESENT_MS))
    )


def _grid(
    client: Client, expression: str, since: int, until: int
) -> Iterator[tuple[Mapping[str, str], dict[int, float]]]:
    """Yield the same with the moments of the values, milliseconds UTC."""
    found = client.evaluated(expression, since, until, _PRESENT_MS)
    return ((labels, dict(zip(times, values, strict=True))) for labels, times, values in _series_in(found))


def _series_in(found: SeriesAnswer) -> Iterator[tuple[Mapping[str, str], list[int], list[float]]]:
    """Yield the series of an answer that say something: labels, moments and values."""
    end = 0
    for labels, length in zip(found.labels, found.lengths, strict=True):
        start, end = end, end + length
        pairs = zip(found.times[start:end].to_pylist(), found.values[start:end].to_pylist(), strict=True)
        if told := [(at, value) for at, value in pairs if value is not None]:
            yield labels, [at for at, _ in told], [value for _, value in told]


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
    without = 0
    for pod in sorted(_every(state), key=lambda pod: (pod.namespace, pod.name, pod.uid, pod.created_at or 0)):
        names = f"{prefix}{pod.uid or _identity(pod)}", f"{prefix}{pod.namespace}.{pod.name}"
        without += not pod.uid
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
    notes: tuple[str, ...] = (
        (f"{unscheduled:,} pods requested GPUs and never started: left out",) if unscheduled else ()
    )
    if without:
        notes += (f"{without:,} pods without the label uid, dropped on the way: told apart by name and creation",)
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


def _told(session: Session, prefix: str) -> dict[str, str]:
    rows = session.rows(
        "SELECT alias_run_id, run_id FROM run_aliases WHERE starts_with(run_id, ?) ORDER BY batch", [prefix]
    )
    return dict(rows)


def _run(state: State, pod: Pod) -> str:
    top = state.top(pod)
    if top is None:
        return pod.uid or _identity(pod)
    kind, name = top
    made = state.created.get((pod.namespace, kind, name))
    return f"{pod.namespace}.{kind.lower()}:{name}" + (f"@{made // 1_000_000}" if made else "")


def _identity(pod: Pod) -> str:
    """Return what a pod without a uid is called: names are used again."""
    return f"{pod.namespace}.{pod.name}@{(_began(pod) or 0) // 1_000_000}"


def _began(pod: Pod) -> int | None:
    return pod.started_at or pod.created_at or pod.first_seen_at or None


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
