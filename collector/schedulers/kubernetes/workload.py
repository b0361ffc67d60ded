"""Kueue: work that waits for quota has no pods yet; its Workload says how long and why."""

from dataclasses import dataclass

from collector.schedulers.kubernetes.fields import Json, at, condition, objects, text, texts, timestamp_us, whole_number
from collector.schedulers.kubernetes.pod import REASON_MAX, Owner, controller
from collector.schedulers.kubernetes.resources import gpus

PATHS = ("/apis/kueue.x-k8s.io/v1beta2/workloads", "/apis/kueue.x-k8s.io/v1beta1/workloads")
_PODS_MAX = 1_000_000


@dataclass(frozen=True, slots=True)
class Workload:
    """Work that waits for its quota. Times are microseconds UTC."""

    namespace: str
    owner: Owner
    queue: str | None
    gpus: int
    labels: dict[str, str]
    priority: float | None
    priority_class: str | None
    submitted_at: int | None
    pending_reason: str | None


def workload(thing: Json) -> Workload | None:
    """Return a Workload that waits and asks for GPUs; None for any other.

    One of a group of plain pods has many owners: its pods are there themselves, and say that they are gated.
    """
    owner, namespace = controller(thing), text(thing, "metadata", "namespace")
    if owner is None or namespace is None or _admitted(thing) or _ended(thing):
        return None
    asked = sum(_asked(one) for one in objects(thing, "spec", "podSets"))
    if not asked:
        return None
    priority = whole_number(thing, "spec", "priority")
    return Workload(
        namespace=namespace,
        owner=owner,
        queue=text(thing, "spec", "queueName"),
        gpus=asked,
        labels=texts(thing, "metadata", "labels"),
        priority=None if priority is None else float(priority),
        priority_class=text(thing, "spec", "priorityClassName") or text(thing, "spec", "priorityClassRef", "name"),
        submitted_at=timestamp_us(thing, "metadata", "creationTimestamp"),
        pending_reason=_why(thing),
    )


def _asked(pods: Json) -> int:
    spec = at(pods, "template", "spec")
    count = min(_PODS_MAX, max(0, whole_number(pods, "count") or 0))
    return count * gpus(spec) if isinstance(spec, dict) else 0


def _admitted(thing: Json) -> bool:
    found = condition(thing, "Admitted")
    return found is not None and found.get("status") == "True"


def _ended(thing: Json) -> bool:
    found = condition(thing, "Finished")
    return found is not None and found.get("status") == "True"


def _why(thing: Json) -> str | None:
    evicted, reserved = condition(thing, "Evicted"), condition(thing, "QuotaReserved")
    if reserved is not None and reserved.get("status") == "True":
        return "quota is reserved, admission checks are not through"
    if reserved is not None and (said := text(reserved, "message")):
        return said[:REASON_MAX]
    if evicted is not None and evicted.get("status") == "True":
        return f"evicted: {text(evicted, 'reason')}"[:REASON_MAX]
    return text(reserved, "reason")
