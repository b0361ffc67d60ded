"""Pods of kube-state-metrics as a history: who held GPUs, for which run, and how it ended.

kube-state-metrics tells owners by kind and name, never by uid. A pod without an owner is the run of its own uid. Else a
run is named after its top-level owner, with the second in which that was made, since names are used again:
`kubernetes/prod/research.job:train-7b@1762700000`. Where the store has been told by the cluster itself whose a pod is,
that is its run.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING

from collector.importing.claims import Claim
from collector.importing.history import History
from collector.importing.known_allocations import Sighting
from collector.importing.kube_state import PRESENT_MS, Pod, State, sanitized
from collector.schedulers.kubernetes.runs import QUEUES, STANDING, Labels
from collector.schedulers.poller import Row, Value

if TYPE_CHECKING:
    from collector.store.session import Session

_GONE_US = 5 * PRESENT_MS * 1000  # a pod that was there so shortly before the end still is
# What kube-state-metrics says of why a pod or container ended, the most telling first.
_ENDINGS: tuple[tuple[str, frozenset[str]], ...] = (
    ("node_failed", frozenset({"NodeLost", "NodeShutdown", "Shutdown", "NodeAffinity"})),
    ("preempted", frozenset({"Evicted", "Preempting", "Preempted"})),
    ("timeout", frozenset({"DeadlineExceeded"})),
    ("out_of_memory", frozenset({"OOMKilled"})),
)
_ERRORS = frozenset({"Error", "ContainerCannotRun", "StartError", "UnexpectedAdmissionError"})


def history(session: "Session", state: State, cluster: str, labels: Labels, until: int) -> History:
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
    notes = (f"{unscheduled:,} pods asked for GPUs and never began: left out",) if unscheduled else ()
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


def _told(session: "Session", prefix: str) -> dict[str, str]:
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
    return pod.last_seen_at + PRESENT_MS * 1000


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
    told |= {name: pod.labels.get(sanitized(name)) for name in labels.further}
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
    return next((value for name in names if (value := pod.labels.get(sanitized(name)))), None)


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
