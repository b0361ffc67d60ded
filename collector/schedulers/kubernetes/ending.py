"""How a pod ended, in the contract's words."""

from collector.schedulers.kubernetes.fields import Json, condition, objects, text, whole_number

# Why the cluster itself took a pod away (condition DisruptionTarget), and why its node did (status.reason).
_DISRUPTIONS = {
    "PreemptionByScheduler": "preempted",
    "PreemptionByKubeScheduler": "preempted",
    "EvictionByEvictionAPI": "preempted",
    "TerminationByKubelet": "preempted",
    "DeletionByTaintManager": "node_failed",
    "DeletionByPodGC": "node_failed",
}
_REASONS = {
    "DeadlineExceeded": "timeout",
    "Evicted": "preempted",
    "Preempting": "preempted",
    "Preempted": "preempted",
    "NodeLost": "node_failed",
    "NodeShutdown": "node_failed",
    "Shutdown": "node_failed",
    "Terminated": "node_failed",  # of a node that was shut down in order
}
_OUT_OF_MEMORY = "OOMKilled"


def exit_status(pod: Json) -> str | None:
    """Return how a pod ended that has ended: None where nobody says.

    A reason of the cluster or the node goes before what the containers' exit codes say, since those follow from it.
    A pod that was deleted while its containers worked was cancelled by somebody's word, and accuses nobody.
    """
    if (found := _taken_away(pod)) is not None:
        return found
    ends = [one for container in _containers(pod) if (one := _terminated(container)) is not None]
    if any(text(end, "reason") == _OUT_OF_MEMORY for end in ends):
        return "out_of_memory"
    phase = text(pod, "status", "phase")
    if phase == "Succeeded":
        return "completed"
    if text(pod, "metadata", "deletionTimestamp") is not None:
        return "cancelled"
    if phase == "Failed" or any(whole_number(end, "exitCode") for end in ends):
        return "failed"
    return None


def ended_at(pod: Json) -> Json | None:
    """Return the last end of a container, where all of them have ended."""
    ends = [_terminated(container) for container in _containers(pod)]
    known = [end for end in ends if end is not None]
    if not known or len(known) < len(ends):
        return None
    return max(known, key=lambda end: text(end, "finishedAt") or "")


def _taken_away(pod: Json) -> str | None:
    disruption = condition(pod, "DisruptionTarget")
    if disruption is not None and disruption.get("status") == "True":
        found = _DISRUPTIONS.get(text(disruption, "reason") or "")
        if found is not None:
            return found
    return _REASONS.get(text(pod, "status", "reason") or "")


def _containers(pod: Json) -> list[Json]:
    return list(objects(pod, "status", "containerStatuses"))


def _terminated(container: Json) -> Json | None:
    state = container.get("state")
    found = state.get("terminated") if isinstance(state, dict) else None
    return found if isinstance(found, dict) else None
