"""One Kubernetes cluster, asked as often as it is told to: what is new of its pods, queues and nodes."""

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from collector.schedulers.books import KEPT_US, ClusterState
from collector.schedulers.kubernetes.api import Api, Mirror
from collector.schedulers.kubernetes.resources import PATHS, Node, Pod, Workload, node, node_location, pod, workload
from collector.schedulers.kubernetes.runs import Labels, Owners, Top, aliases, allocation, awaited
from collector.schedulers.poller import Poll, Row, moment_of
from collector.store.session import Session

_LOG = logging.getLogger(__name__)

PodAttempt = tuple[str | None, int | None]  # member and start (None while waiting)


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


def _key(row: Row) -> tuple[str, PodAttempt]:
    member = row.get("member")
    return str(row["run_id"]), (None if member is None else str(member), moment_of(row, "started_at"))


def _facts(row: Row) -> Row:
    return {name: value for name, value in row.items() if name not in ("started_at", "ended_at")}
