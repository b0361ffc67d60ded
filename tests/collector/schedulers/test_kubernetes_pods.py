"""What an object of the API says of a pod, a node or a queue: pure functions, whatever they are given."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.schedulers.kubernetes.api import timestamp_us
from collector.schedulers.kubernetes.resources import controller, gpus, node, node_location, pod, workload
from tests.analyzer.ledger.fleet import MINUTE
from tests.collector.schedulers.kubernetes_things import T, Thing, host, meta, over, owning, running, stamp, waiting


def asks(count: int, resource: str = "nvidia.com/gpu", **more: Any) -> Thing:
    """Return a container that asks for so many."""
    return {"resources": {"limits": {resource: str(count), "cpu": "8", "memory": "10Gi"}}, **more}


@pytest.mark.parametrize(
    ("spec", "count"),
    [
        ({"containers": [asks(2), asks(1)]}, 3),
        ({"containers": [asks(2)], "initContainers": [asks(8), asks(1)]}, 8),
        ({"containers": [asks(2)], "initContainers": [asks(1, restartPolicy="Always"), asks(2)]}, 3),
        ({"containers": [asks(2, "nvidia.com/mig-1g.10gb"), asks(1, "nvidia.com/mig-3g.40gb")]}, 3),
        ({"containers": [asks(1, "nvidia.com/mig-1g.5gb.me")]}, 1),
        ({"containers": [asks(3, "nvidia.com/gpu.shared")]}, 3),
        ({"containers": [asks(3, "amd.com/gpu"), asks(1, "nvidia.com/hostdev")]}, 0),
        ({"containers": [{"resources": {"requests": {"nvidia.com/gpu": 4}}}]}, 4),
        ({"containers": [{"resources": {"limits": {"nvidia.com/gpu": "-1"}}}, {"resources": None}, 7]}, 0),
        ({}, 0),
    ],
)
def test_gpus_are_counted_as_kubernetes_counts_them(spec: Thing, count: int) -> None:
    """Containers add up, init containers come one by one before them unless they stay."""
    assert gpus(spec) == count


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"phase": "Failed", "reason": "Evicted"}, "preempted"),
        ({"phase": "Failed", "reason": "NodeLost"}, "node_failed"),
        ({"phase": "Failed", "reason": "Terminated"}, "node_failed"),
        ({"phase": "Failed", "reason": "DeadlineExceeded"}, "timeout"),
        ({"phase": "Failed", "reason": "UnexpectedAdmissionError"}, "failed"),
    ],
)
def test_a_node_s_reason_says_how_a_pod_ended(status: Thing, expected: str) -> None:
    """Such pods have no container that could say it."""
    found = pod(waiting() | {"status": status})
    assert found is not None
    assert (found.phase, found.exit_status) == ("ended", expected)


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("PreemptionByScheduler", "preempted"),
        ("EvictionByEvictionAPI", "preempted"),
        ("DeletionByTaintManager", "node_failed"),
        ("DeletionByPodGC", "node_failed"),
    ],
)
def test_the_cluster_s_reason_goes_before_the_exit_code(reason: str, expected: str) -> None:
    """Who is preempted exits with 143 or 137, which would accuse the run's owner."""
    thing = over(code=143)
    thing["status"]["conditions"].append({"type": "DisruptionTarget", "status": "True", "reason": reason})
    found = pod(thing)
    assert found is not None
    assert found.exit_status == expected


def test_a_pod_that_was_deleted_and_has_stopped_is_over() -> None:
    """Its phase still says Running until the kubelet has tidied up; its GPUs are free."""
    thing = over(code=137, deletionTimestamp=stamp(T + 11 * MINUTE))
    thing["status"]["phase"] = "Running"
    found = pod(thing)
    assert found is not None
    assert (found.phase, found.exit_status, found.ended_at) == ("ended", "cancelled", T + 10 * MINUTE)


def test_a_pod_holds_its_gpus_until_its_last_container_ends() -> None:
    """A side-car that lives on keeps what the pod was given."""
    thing = running()
    done = {"name": "done", "state": {"terminated": {"exitCode": 0, "finishedAt": stamp(T + 5 * MINUTE)}}}
    thing["status"]["containerStatuses"].append(done)
    found = pod(thing)
    assert found is not None
    assert (found.phase, found.ended_at) == ("holding", None)


def test_a_gated_pod_says_by_whom() -> None:
    """It does not wait for room, but for a queue."""
    thing = waiting()
    thing["spec"]["schedulingGates"] = [{"name": "kueue.x-k8s.io/admission"}]
    found = pod(thing)
    assert found is not None
    assert found.pending_reason == "SchedulingGated: kueue.x-k8s.io/admission"


def test_a_pod_with_claims_alone_is_seen_and_not_counted() -> None:
    """With Dynamic Resource Allocation only the claims say how many GPUs, and of which kind."""
    thing = running()
    thing["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
    thing["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    found = pod(thing)
    assert found is not None
    assert found.gpus is None


def test_a_pod_without_gpus_is_nobody_s_matter() -> None:
    """Nine of ten pods of a cluster ask for none."""
    thing = running()
    thing["spec"]["containers"][0]["resources"] = {}
    assert pod(thing) is None


def test_a_controller_goes_before_other_owners() -> None:
    """A pod may be owned by several, and is controlled by one at most."""
    job, other = owning("Job", "batch/v1", "train"), owning("Group", "x.io/v1", "group")
    thing = running(owner=job)
    reference = {"apiVersion": "x.io/v1", "kind": "Group", "name": "group", "uid": other["metadata"]["uid"]}
    thing["metadata"]["ownerReferences"].insert(0, reference)
    found = controller(thing)
    assert found is not None
    assert found.name == "train"


@pytest.mark.parametrize(
    ("labels", "rack", "block"),
    [
        ({"topology.k8s.aws/network-node-layer-2": "l2", "topology.k8s.aws/network-node-layer-3": "l3"}, "l3", "l2"),
        ({"cloud.google.com/gce-topology-block": "b", "cloud.google.com/gce-topology-subblock": "s"}, "s", "b"),
        ({"network.topology.nvidia.com/leaf": "s1", "network.topology.nvidia.com/spine": "s2"}, "s1", "s2"),
        ({"own/rack": "r1", "topology.kubernetes.io/rack": "r2"}, "r1", None),
        ({"topology.kubernetes.io/zone": "z"}, None, None),
    ],
)
def test_labels_say_where_a_node_stands(labels: dict[str, str], rack: str | None, block: str | None) -> None:
    """Each cloud has labels of its own; the operator's go first."""
    found = node_location(labels, ("own/rack",))
    assert (found["rack"], found["block"]) == (rack, block)


def test_a_node_that_is_down_is_down_though_cordoned() -> None:
    """The platform cordons what is broken, and nobody may use it either way."""
    found = node(host(ready="False", cordoned=True))
    assert found is not None
    assert found.state.state == "down"


def test_a_node_without_its_device_plugin_is_still_a_gpu_node() -> None:
    """Its capacity is gone, and that is when people want to see it."""
    thing = host(labels={"nvidia.com/gpu.present": "true"})
    thing["status"]["capacity"] = {"cpu": "128"}
    assert node(thing) is not None


def test_a_workload_that_was_evicted_waits_again() -> None:
    """Kueue preempts by taking the quota back; its message says for whom."""
    thing = owning("Workload", "kueue.x-k8s.io/v1beta1", "w", owning("Job", "batch/v1", "train")) | {
        "spec": {"podSets": [{"count": 1, "template": {"spec": waiting()["spec"]}}]},
        "status": {"conditions": [{"type": "Evicted", "status": "True", "reason": "Preempted"}]},
    }
    found = workload(thing)
    assert found is not None
    assert (found.gpus, found.pending_reason) == (2, "evicted: Preempted")


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("2025-11-10T00:00:00Z", T),
        ("2025-11-10T01:00:00+01:00", T),
        ("2025-11-10T00:00:00.250000Z", T + 250_000),
        ("2025-11-10T00:00:00", None),
        ("0001-01-01T00:00:00Z", None),
        ("soon", None),
        (7, None),
        (None, None),
    ],
)
def test_times_are_read_with_their_zone(said: object, expected: int | None) -> None:
    """One without is nobody's."""
    assert timestamp_us({"at": said}, "at") == expected


_LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
_WORDS = """
    metadata spec status name namespace uid labels containers initContainers resources limits nvidia.com/gpu nodeName
    phase reason conditions type state terminated exitCode finishedAt startTime ownerReferences controller podSets
    template count capacity taints creationTimestamp containerStatuses schedulingGates
"""
_NAMES = st.sampled_from(_WORDS.split())
_ANY = st.recursive(_LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=4))


@given(st.dictionaries(_NAMES, _ANY, max_size=6), _ANY, _ANY)
def test_no_object_is_beyond_the_readers(thing: dict[str, Any], spec: object, status: object) -> None:
    """Controllers of any making write these objects; one that is odd must not silence the others."""
    odd = running() | thing
    for candidate in (odd, running() | {"spec": spec}, running() | {"status": status}, {"metadata": meta("x")} | thing):
        pod(candidate)
        node(candidate)
        workload(candidate)
