"""One pod that asks for GPUs, as far as the ledger needs to know it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from collector.schedulers.kubernetes.ending import ended_at, exit_status
from collector.schedulers.kubernetes.fields import Json, at, condition, objects, text, texts, timestamp_us, whole_number
from collector.schedulers.kubernetes.resources import claims, gpus

_Phase = Literal["waiting", "holding", "ended"]
REASON_MAX = 200  # characters of why a pod waits


@dataclass(frozen=True, slots=True)
class Owner:
    """A reference to what made an object, enough to ask for it."""

    api_version: str
    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Pod:
    """What is known of a pod. Times are microseconds UTC; None is not known.

    `gpus` counts units as the device plugin hands them out; it is None for a pod that holds resource claims alone.
    """

    uid: str
    namespace: str
    name: str
    phase: _Phase
    gpus: int | None
    owner: Owner | None = None
    labels: Mapping[str, str] | None = None
    node: str | None = None
    priority: float | None = None
    priority_class: str | None = None
    pending_reason: str | None = None
    time_limit_seconds: float | None = None
    submitted_at: int | None = None
    started_at: int | None = None
    ended_at: int | None = None
    exit_status: str | None = None

    @property
    def member(self) -> str:
        """How a pod is called within its run."""
        return f"{self.namespace}/{self.name}"


def pod(thing: Json) -> Pod | None:
    """Return a pod, or None where it asks for no GPU or is not one."""
    uid, name, namespace = (text(thing, "metadata", key) for key in ("uid", "name", "namespace"))
    spec = at(thing, "spec")
    if uid is None or name is None or namespace is None or not isinstance(spec, dict):
        return None
    units, claimed = gpus(spec), claims(spec)
    if not units and not claimed:
        return None
    phase = _phase(thing)
    limit, priority = whole_number(spec, "activeDeadlineSeconds"), whole_number(spec, "priority")
    return Pod(
        uid=uid,
        namespace=namespace,
        name=name,
        phase=phase,
        gpus=units or None,
        owner=controller(thing),
        labels=texts(thing, "metadata", "labels"),
        node=text(spec, "nodeName"),
        priority=None if priority is None else float(priority),
        priority_class=text(spec, "priorityClassName"),
        pending_reason=_pending_reason(thing) if phase == "waiting" else None,
        time_limit_seconds=None if limit is None else float(limit),
        submitted_at=timestamp_us(thing, "metadata", "creationTimestamp"),
        started_at=_started_at(thing),
        ended_at=_ended_at(thing) if phase == "ended" else None,
        exit_status=exit_status(thing) if phase == "ended" else None,
    )


def controller(thing: Json) -> Owner | None:
    """Return who controls an object; where nobody does, its only owner."""
    references = [_owner(one) for one in objects(thing, "metadata", "ownerReferences")]
    controllers = [
        _owner(one) for one in objects(thing, "metadata", "ownerReferences") if one.get("controller") is True
    ]
    found = [one for one in controllers or references if one is not None]
    return found[0] if found and (controllers or len(found) == 1) else None


def _owner(reference: Json) -> Owner | None:
    api_version, kind, name, uid = (text(reference, key) for key in ("apiVersion", "kind", "name", "uid"))
    if api_version is None or kind is None or name is None or uid is None:
        return None
    return Owner(api_version, kind, name, uid)


def _phase(thing: Json) -> _Phase:
    """Return where a pod stands. One that is being deleted holds its GPUs until its containers have ended."""
    if text(thing, "status", "phase") in ("Succeeded", "Failed"):
        return "ended"
    if text(thing, "metadata", "deletionTimestamp") is not None and ended_at(thing) is not None:
        return "ended"
    return "holding" if _started_at(thing) is not None else "waiting"


def _started_at(thing: Json) -> int | None:
    """Return when the pod took its GPUs: its kubelet hands them out as it takes the pod in, and then pulls images."""
    if text(thing, "spec", "nodeName") is None:
        return None
    began = timestamp_us(thing, "status", "startTime")
    if began is not None:
        return began
    scheduled = condition(thing, "PodScheduled")
    return timestamp_us(scheduled, "lastTransitionTime") if scheduled and scheduled.get("status") == "True" else None


def _ended_at(thing: Json) -> int | None:
    """Return when the last container ended; of a pod without any, when its last condition changed."""
    if (last := ended_at(thing)) is not None and (finished := timestamp_us(last, "finishedAt")) is not None:
        return finished
    changes = [timestamp_us(one, "lastTransitionTime") for one in objects(thing, "status", "conditions")]
    known = [at_us for at_us in changes if at_us is not None]
    return max(known) if known else timestamp_us(thing, "metadata", "deletionTimestamp")


def _pending_reason(thing: Json) -> str | None:
    """Return why a pod waits: the scheduler's word, of its message the first sentence, which counts the nodes."""
    gates = [text(gate, "name") for gate in objects(thing, "spec", "schedulingGates")]
    if gates:
        return f"SchedulingGated: {', '.join(gate for gate in gates if gate)}"[:REASON_MAX]
    scheduled = condition(thing, "PodScheduled")
    if scheduled is None or scheduled.get("status") == "True":
        return None
    reason, message = text(scheduled, "reason"), text(scheduled, "message")
    first = message.split(". ", 1)[0].rstrip(".") if message else None
    return ": ".join(part for part in (reason, first) if part)[:REASON_MAX] or None
