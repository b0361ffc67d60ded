"""One Kubernetes cluster, asked as often as it is told to: what is new of its pods, queues and nodes.

A pod's run is named after the topmost object that people know by name. The API knows no GPU by name: its host's agent
does.
"""

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from collector.schedulers.books import KEPT_US, ClusterState
from collector.schedulers.kubernetes.api import AnswerError, Api, Json, Mirror, objects, text, texts
from collector.schedulers.kubernetes.resources import (
    PATHS,
    Node,
    Owner,
    Pod,
    Workload,
    controller,
    node,
    node_location,
    pod,
    workload,
)
from collector.schedulers.poller import Poll, Row, moment_of
from collector.store.session import Session

_LOG = logging.getLogger(__name__)
_DEPTH_MAX = 8
_QUESTIONS_MAX = 500  # in one poll; pods whose owners are not known yet then wait for the next
_NOT_TOLD = (403, 404, 405)
# A pod of the node's own disk belongs to nobody else: its owner is the node.
_NO_RUN = frozenset({"Node"})


@dataclass(frozen=True, slots=True)
class Top:
    """The top-level owner: whose uid is the run's, and its name. A pod without an owner is its own."""

    uid: str
    name: str
    kind: str
    labels: Mapping[str, str] = field(default_factory=dict)
    submission: str | None = None  # of a RayJob: Ray's own id of the job that it submitted


@dataclass(frozen=True, slots=True)
class _Seen:
    """What an owner's own object says; `above` is who made it."""

    above: Owner | None
    labels: Mapping[str, str]
    submission: str | None


class Owners:
    """Looks owners up, each once for as long as a pod refers to it. Who may not be read, or is gone, is the top."""

    def __init__(self, api: Api, most: int = _QUESTIONS_MAX) -> None:
        self._api = api
        self._most = most
        self._seen: dict[str, _Seen] = {}
        self._plurals: dict[str, dict[str, tuple[str, bool]]] = {}
        self._used: set[str] = set()
        self._left = 0
        self.exhausted = False  # whether this poll had more questions than it may ask
        self._untold: set[str] = set()

    def begin(self) -> None:
        """Begin a poll: forget owners that the last one did not meet."""
        self._seen = {uid: seen for uid, seen in self._seen.items() if uid in self._used}
        self._used = set()
        self._plurals = {}
        self._left = self._most
        self.exhausted = False

    def top(self, pod: Pod) -> Top | None:
        """Return the top-level owner of a pod, or None where it is not known yet.

        Raises:
            SchedulerError: the server did not answer.
        """
        if pod.owner is None or pod.owner.kind in _NO_RUN:
            return Top(pod.uid, pod.name, "Pod")
        return self.above(pod.owner, pod.namespace)

    def above(self, owner: Owner, namespace: str) -> Top | None:
        """Return the top-level owner from an owner upwards, or None where it is not known yet.

        Raises:
            SchedulerError: the server did not answer.
        """
        labels: dict[str, str] = {}
        submission: str | None = None
        for _ in range(_DEPTH_MAX):
            seen = self._look(owner, namespace)
            if seen is None:
                return None
            labels = dict(seen.labels) | labels  # who is nearer to the pod says more
            submission = submission or seen.submission
            if seen.above is None or seen.above.kind in _NO_RUN:
                break
            owner = seen.above
        return Top(owner.uid, owner.name, owner.kind, labels, submission)

    def _look(self, owner: Owner, namespace: str) -> _Seen | None:
        self._used.add(owner.uid)
        if owner.uid in self._seen:
            return self._seen[owner.uid]
        if self._left <= 0:
            self.exhausted = True
            return None
        self._left -= 1
        thing = self._asked(owner, namespace)
        if thing is None or text(thing, "metadata", "uid") != owner.uid:
            seen = _Seen(None, {}, None)
        else:
            ray = text(thing, "status", "jobId") if owner.kind == "RayJob" else None
            seen = _Seen(controller(thing), texts(thing, "metadata", "labels"), ray)
            if owner.kind == "RayJob" and ray is None:
                return seen  # Ray's id comes a moment after its pods
        self._seen[owner.uid] = seen
        return seen

    def _asked(self, owner: Owner, namespace: str) -> Json | None:
        root = f"/apis/{owner.api_version}" if "/" in owner.api_version else f"/api/{owner.api_version}"
        try:
            plural, namespaced = self._plural(root, owner.kind)
            within = f"/namespaces/{namespace}" if namespaced else ""
            return self._api.get(f"{root}{within}/{plural}/{owner.name}")
        except AnswerError as error:
            if error.status not in _NOT_TOLD:
                raise
            self._tell(f"{owner.kind} of {owner.api_version}", error)
            return None

    def _plural(self, root: str, kind: str) -> tuple[str, bool]:
        """Return the name by which a kind is asked for, and whether it lives in a namespace; the server knows."""
        if root not in self._plurals:
            found = objects(self._api.get(root), "resources")
            named = {(text(one, "kind"), text(one, "name")): one.get("namespaced") is not False for one in found}
            self._plurals[root] = {
                kind: (name, namespaced)
                for (kind, name), namespaced in named.items()
                if kind and name and "/" not in name
            }
        if kind not in self._plurals[root]:
            raise AnswerError(404, f"{root} has no {kind}")
        return self._plurals[root][kind]

    def _tell(self, what: str, error: AnswerError) -> None:
        if error.status == 404 or what in self._untold:
            return  # gone, as happens
        self._untold.add(what)
        _LOG.warning("the owner of a %s is not known, so it counts as the run itself: %s", what, error)


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


_PodAttempt = tuple[str | None, int | None]  # member and start (None while waiting)


@dataclass(frozen=True, slots=True)
class LabelMeanings:
    """Which labels tell what: of pods, and of nodes where they stand."""

    pods: Labels = field(default_factory=Labels)
    rack: tuple[str, ...] = ()
    block: tuple[str, ...] = ()


class KubernetesSource:
    """Asks a cluster for what is new. Use it in one thread; land what `poll` returns, then call `landed`.

    `unplaced` counts runs whose pods hold resource claims (DRA): how many GPUs those are only their claims say.
    """

    def __init__(self, cluster: str, api: Api, state: ClusterState, reading: LabelMeanings) -> None:
        self.name = f"kubernetes/{cluster}"
        self.prefix = f"{self.name}/"
        self.unplaced = 0
        self._state = state
        self._reading = reading
        self._locations: dict[str, Row] = {}  # of hosts, as the store was told last
        self._owners = Owners(api)
        self._pods: Mirror[Pod] = Mirror(api, "/api/v1/pods", pod)
        self._nodes: Mirror[Node] = Mirror(api, "/api/v1/nodes", node)
        self._queues: list[Mirror[Workload]] = [Mirror(api, path, workload, optional=True) for path in PATHS]

    def poll(self, session: Session, now: int) -> Poll:  # noqa: ARG002 - as the protocol has it
        """Return what is new since the last poll.

        Raises:
            SchedulerError: the API server did not answer; nothing is known then of this minute.
        """
        self._pods.refresh(now)
        self._nodes.refresh(now)
        self._owners.begin()
        tops = self._tops([*self._pods.things.values(), *self._pods.departed.values()])
        rows = [*self._of_pods(tops, now), *self._of_queues(now)]
        rows += self._vanished(rows, now)
        tables = {
            "allocations": self._state.book.news(rows, now),
            "run_aliases": self._aliases(tops),
            "node_states": self._state.nodes.news((one.state for one in self._nodes.things.values()), now),
            "inventory": self._places(now),
        }
        return Poll(now, {name: found for name, found in tables.items() if found})

    def landed(self, poll: Poll) -> None:
        """Note that a poll's rows are in the store."""
        self._state.landed(poll)
        for row in poll.tables.get("inventory", ()):
            self._locations[str(row["node"])] = _facts(row)
        if not self._owners.exhausted:
            self._pods.departed.clear()  # else one may not have been told yet
        self._state.asked_until = poll.found_at

    def closing(self, now: int) -> Poll:
        """Return what was seen and not told yet, for the end."""
        return self._state.closing(now)

    def _tops(self, pods: list[Pod]) -> dict[str, tuple[Pod, Top]]:
        """Return the pods whose owners are known, by uid."""
        found = {one.uid: (one, top) for one in pods if (top := self._owners.top(one)) is not None}
        if self._owners.exhausted:
            _LOG.info("%s: the owners of %d pods are read at the next poll", self.name, len(pods) - len(found))
        return found

    def _of_pods(self, tops: dict[str, tuple[Pod, Top]], now: int) -> Iterator[Row]:
        asked: Counter[str] = Counter()
        claiming: set[str] = set()
        for one, top in tops.values():
            if one.phase != "ended":
                asked[top.uid] += one.gpus or 0
                claiming |= {top.uid} if one.gpus is None else set()
        self.unplaced = len(claiming)
        for uid, (one, top) in tops.items():
            seen = _departed(one, now) if uid not in self._pods.things else one
            if seen.ended_at is not None and seen.ended_at < now - KEPT_US:
                continue  # the book no longer knows that it was told
            row = allocation(seen, top, self.prefix, self._reading.pods, self._requested(seen, top, asked))
            yield from self._no_longer_waiting(row)
            yield row

    def _requested(self, one: Pod, top: Top, asked: Counter[str]) -> int | None:
        """Return what the whole run asked for, as far as it has been seen: its pods come one by one."""
        known = [moment_of(row, "requested_gpus") or 0 for row in self._state.book.of(f"{self.prefix}{top.uid}")]
        return max([asked[top.uid], one.gpus or 0, *known]) or None

    def _no_longer_waiting(self, row: Row) -> Iterator[Row]:
        if row["started_at"] is None:
            return
        for before in self._state.book.of(str(row["run_id"])):
            waits = before.get("started_at") is None and before.get("ended_at") is None
            if waits and before.get("member") == row["member"]:
                yield before | {"ended_at": row["started_at"]}

    def _of_queues(self, now: int) -> Iterator[Row]:
        for queue in self._queues:
            queue.refresh(now)
            queue.departed.clear()
            for work in queue.things.values():
                top = self._owners.above(work.owner, work.namespace)
                if top is not None:
                    yield awaited(work, top, self.prefix, self._reading.pods)
            if queue.served:
                return

    def _vanished(self, rows: list[Row], now: int) -> Iterator[Row]:
        """Yield the end of what is open in the book and no longer there: when last seen, and nobody knows how."""
        if self._owners.exhausted:
            return  # what is missing may be there, under an owner that is not known yet
        present = {_key(row) for row in rows}
        for row in self._state.book.open():
            if _key(row) not in present:
                until = min(now, self._state.asked_until)
                yield row | {"ended_at": max(until, moment_of(row, "started_at") or until)}

    def _aliases(self, tops: dict[str, tuple[Pod, Top]]) -> list[Row]:
        started = ((one, top) for one, top in tops.values() if one.started_at)
        return self._state.aliases.news(row for one, top in started for row in aliases(one, top, self.prefix))

    def _places(self, now: int) -> list[Row]:
        rows: list[Row] = []
        for one in self._nodes.things.values():
            found = node_location(one.labels, self._reading.rack, self._reading.block)
            row: Row = {"node": one.state.node, **found}
            if any(found.values()) and self._locations.get(one.state.node) != row:
                rows.append(row | {"started_at": now, "ended_at": now + 1})
        return rows


def open_kubernetes(
    cluster: str, api: Api, reading: LabelMeanings, every_seconds: float
) -> Callable[[Session, int], KubernetesSource]:
    """Return what makes the source of a cluster from what the store knows, so that a restart tells nothing twice."""

    def opened(session: Session, now: int) -> KubernetesSource:
        state = ClusterState.read(session, f"kubernetes/{cluster}", every_seconds, now, now, without_gpu=True)
        return KubernetesSource(cluster, api, state, reading)

    return opened


def _departed(one: Pod, now: int) -> Pod:
    """Return a pod that was deleted: what its last state does not say of its end is known by its absence."""
    ended = one.ended_at if one.ended_at is not None else now
    return replace(one, phase="ended", ended_at=ended, exit_status=one.exit_status or "cancelled")


def _key(row: Row) -> tuple[str, _PodAttempt]:
    member = row.get("member")
    return str(row["run_id"]), (None if member is None else str(member), moment_of(row, "started_at"))


def _facts(row: Row) -> Row:
    return {name: value for name, value in row.items() if name not in ("started_at", "ended_at")}
