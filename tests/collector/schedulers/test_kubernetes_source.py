"""What an API server says becomes rows of the contract: runs by their top-level owner, each told once."""

import json
from collections.abc import Iterator

import pytest

from collector.errors import SchedulerError
from collector.schedulers.kubernetes.source import Owners
from tests.analyzer.ledger.fleet import DAY, HOUR, MINUTE
from tests.collector.schedulers.api_server import Cluster, served
from tests.collector.schedulers.asked_cluster import AskedCluster
from tests.collector.schedulers.kubernetes_things import (
    NODES,
    PODS,
    T,
    Thing,
    host,
    over,
    owning,
    reference,
    running,
    waiting,
)

HELD = ("run_id", "member", "node", "started_at", "ended_at", "exit_status")
BATCH, APPS, RAY, KUEUE = "/apis/batch/v1", "/apis/apps/v1", "/apis/ray.io/v1", "/apis/kueue.x-k8s.io/v1beta2"


@pytest.fixture
def asked() -> Iterator[AskedCluster]:
    """Return a cluster that is asked over a real socket."""
    cluster = Cluster()
    cluster.serve(BATCH, "Job", "jobs")
    cluster.serve(BATCH, "CronJob", "cronjobs")
    cluster.serve(APPS, "ReplicaSet", "replicasets")
    cluster.serve(APPS, "Deployment", "deployments")
    cluster.serve(RAY, "RayJob", "rayjobs")
    cluster.serve(RAY, "RayCluster", "rayclusters")
    with served(cluster) as server:
        found = AskedCluster(cluster, server)
        yield found
        found.close()


def job(asked: AskedCluster, name: str = "train", owner: Thing | None = None, **more: object) -> Thing:
    """Put a Job into the cluster."""
    found = owning("Job", "batch/v1", name, owner, **more)
    asked.cluster.put(f"{BATCH}/jobs", found)
    return found


def test_a_pod_belongs_to_its_top_level_owner(asked: AskedCluster) -> None:
    """People know the Deployment; the ReplicaSet between is nobody's name."""
    top = owning("Deployment", "apps/v1", "chat", labels={"gpuledger/user": "ada", "secret": "x"})
    between = owning("ReplicaSet", "apps/v1", "chat-7d4b9", top)
    asked.cluster.put(f"{APPS}/deployments", top)
    asked.cluster.put(f"{APPS}/replicasets", between)
    asked.cluster.put(PODS, running("chat-7d4b9-x", owner=between, labels={"team": "nlp"}))
    assert asked.poll() == {"allocations": 1, "run_aliases": 2}
    (row,) = asked.allocations("run_id", "member", "name", '"user"', "account", "node", "gpu_uuid", "requested_gpus")
    assert row == ("kubernetes/prod/uid-chat", "ml/chat-7d4b9-x", "chat", "ada", "ml", "n1", None, 2)
    ((labels,),) = asked.allocations("labels")
    assert json.loads(labels) == {"kind": "Deployment", "team": "nlp"}
    assert asked.session.rows("SELECT alias_run_id, run_id, member FROM run_aliases ORDER BY 1") == [
        ("kubernetes/prod/ml.chat-7d4b9-x", "kubernetes/prod/uid-chat", "ml/chat-7d4b9-x"),
        ("kubernetes/prod/uid-chat-7d4b9-x", "kubernetes/prod/uid-chat", "ml/chat-7d4b9-x"),
    ]


def test_what_is_known_is_not_told_again(asked: AskedCluster) -> None:
    """A thousand pods that run for a week cost a thousand rows, and an owner is asked for once."""
    asked.cluster.put(NODES, host())
    asked.cluster.put(PODS, running(owner=job(asked)))
    asked.poll()
    questions = len(asked.cluster.asked)
    assert [asked.poll() for _ in range(3)] == [{}, {}, {}]
    again = asked.cluster.asked[questions:]
    assert all("watch=1" in path for path in again if "kueue" not in path)
    asked.restart()
    assert asked.poll() == {}


def test_a_pod_s_life(asked: AskedCluster) -> None:
    """It waits and says why, holds from when its kubelet takes it in, and ends with its last container."""
    owner = job(asked)
    asked.cluster.put(PODS, waiting(owner=owner))
    asked.poll()
    assert asked.allocations("started_at", "node", "pending_reason", "requested_gpus") == [
        (None, None, "Unschedulable: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu", 2)
    ]
    asked.cluster.put(PODS, running(owner=owner))
    asked.poll()
    asked.cluster.put(PODS, over(owner=owner, code=137, why="OOMKilled"))
    asked.poll()
    run = "kubernetes/prod/uid-train"
    assert asked.allocations(*HELD) == [
        (run, "ml/trainer-0", None, None, T + MINUTE, None),
        (run, "ml/trainer-0", "n1", T + MINUTE, T + 10 * MINUTE, "out_of_memory"),
    ]


def test_a_pod_that_came_and_went_between_polls_is_seen(asked: AskedCluster) -> None:
    """Operators delete pods as soon as their work is done; what changed since the last poll is still told."""
    owner = job(asked)
    asked.poll()
    asked.cluster.put(PODS, running(owner=owner))
    asked.cluster.delete(PODS, over(owner=owner, at=T + 90_000_000))
    asked.cluster.delete(f"{BATCH}/jobs", owner)
    assert asked.poll() == {"allocations": 1, "run_aliases": 2}
    assert [row[3:] for row in asked.allocations(*HELD)] == [(T + MINUTE, T + 90_000_000, "completed")]
    assert asked.poll() == {}


def test_a_pod_that_is_deleted_at_work_was_cancelled(asked: AskedCluster) -> None:
    """Its last state says only that somebody asked it to end."""
    thing = running(owner=job(asked))
    asked.cluster.put(PODS, thing)
    asked.poll()
    asked.cluster.delete(PODS, thing)
    asked.poll()
    assert [row[4:] for row in asked.allocations(*HELD)] == [(T + 2 * MINUTE, "cancelled")]


def test_a_pod_that_went_while_nobody_watched_ended_when_last_seen(asked: AskedCluster) -> None:
    """After a night without a collector the list lacks it: how it ended nobody knows."""
    thing = running(owner=job(asked))
    asked.cluster.put(PODS, thing)
    asked.poll()
    asked.cluster.things[PODS].clear()
    asked.restart()
    asked.poll(T + 12 * HOUR)
    assert [row[4:] for row in asked.allocations(*HELD)] == [(T + MINUTE, None)]


def test_changes_that_are_no_longer_remembered_are_listed_anew(asked: AskedCluster) -> None:
    """A server forgets what changed some minutes ago, and says so with 410."""
    asked.poll()
    asked.cluster.put(PODS, running(owner=job(asked)))
    asked.cluster.forgotten = asked.cluster.version + 1
    assert asked.poll()["allocations"] == 1


def test_without_the_right_to_watch_it_is_listed_each_time(asked: AskedCluster) -> None:
    """Some hand out get and list alone."""
    asked.cluster.refused["watch"] = 403
    for number in range(3):
        asked.cluster.put(PODS, running(f"trainer-{number}", owner=job(asked)))
        assert asked.poll()["allocations"] >= 1
    assert sum("watch=1" in path and "pods" in path for path in asked.cluster.asked) == 1


def test_long_lists_come_in_pieces(asked: AskedCluster) -> None:
    """No answer may be so long that one side gives up."""
    for number in range(5):
        asked.cluster.put(PODS, running(f"solo-{number}"))
    assert asked.poll()["allocations"] == 5
    assert sum("continue=" in path for path in asked.cluster.asked) == 2


def test_an_owner_that_may_not_be_read_is_the_run(asked: AskedCluster) -> None:
    """A kind of somebody's own, for which no right was given, still has a name and a uid."""
    asked.cluster.refused["/apis/acme.io"] = 403
    asked.cluster.put(PODS, running(owner=owning("Train", "acme.io/v1", "bert")))
    asked.poll()
    assert asked.allocations("run_id", "name") == [("kubernetes/prod/uid-bert", "bert")]


def test_the_workers_of_a_leader_belong_to_its_set(asked: AskedCluster) -> None:
    """A LeaderWorkerSet's leader is a pod that owns the StatefulSet of its workers."""
    asked.cluster.serve(APPS, "StatefulSet", "statefulsets")
    asked.cluster.serve("/apis/leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "leaderworkersets")
    top = owning("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1", "llm")
    leaders = owning("StatefulSet", "apps/v1", "llm-leaders", top)
    leader = running("llm-0", owner=leaders) | {"kind": "Pod", "apiVersion": "v1"}
    workers = owning("StatefulSet", "apps/v1", "llm-0-workers", leader)
    asked.cluster.put("/apis/leaderworkerset.x-k8s.io/v1/leaderworkersets", top)
    asked.cluster.put(f"{APPS}/statefulsets", leaders)
    asked.cluster.put(f"{APPS}/statefulsets", workers)
    asked.cluster.put(PODS, leader)
    asked.cluster.put(PODS, running("llm-0-1", owner=workers))
    asked.poll()
    assert asked.allocations("run_id", "member") == [
        ("kubernetes/prod/uid-llm", "ml/llm-0"),
        ("kubernetes/prod/uid-llm", "ml/llm-0-1"),
    ]


def test_a_pod_without_an_owner_is_its_own_run(asked: AskedCluster) -> None:
    """Its uid stands for itself, and says which member it is."""
    asked.cluster.put(PODS, running("solo"))
    asked.poll()
    assert asked.allocations("run_id", "name") == [("kubernetes/prod/uid-solo", "solo")]
    aliases = asked.session.rows("SELECT alias_run_id, member FROM run_aliases WHERE run_id = alias_run_id")
    assert aliases == [("kubernetes/prod/uid-solo", "ml/solo")]


def test_the_pods_of_one_run_ask_together(asked: AskedCluster) -> None:
    """Two pods of one run that start on one host in the same second are two members, and one request."""
    owner = job(asked)
    asked.cluster.put(PODS, running("trainer-0", 4, owner))
    asked.cluster.put(PODS, running("trainer-1", 4, owner))
    asked.poll()
    assert asked.allocations("member", "requested_gpus") == [("ml/trainer-0", 8), ("ml/trainer-1", 8)]


def test_a_ray_job_is_known_by_its_submission(asked: AskedCluster) -> None:
    """Who looks at Ray's own pages knows the submission's id, not the uid of the RayJob."""
    top = owning("RayJob", "ray.io/v1", "finetune") | {"status": {"jobId": "finetune-x7k2p"}}
    between = owning("RayCluster", "ray.io/v1", "finetune-raycluster-b5", top)
    asked.cluster.put(f"{RAY}/rayjobs", top)
    asked.cluster.put(f"{RAY}/rayclusters", between)
    ray = {"ray.io/cluster": "finetune-raycluster-b5", "ray.io/node-type": "worker", "ray.io/group": "gpu"}
    asked.cluster.put(PODS, running("finetune-w0", owner=between, labels=ray))
    asked.poll()
    ((run, name, labels),) = asked.allocations("run_id", "name", "labels")
    assert (run, name) == ("kubernetes/prod/uid-finetune", "finetune")
    assert json.loads(labels) == {
        "kind": "RayJob",
        "ray_cluster": "finetune-raycluster-b5",
        "ray_group": "gpu",
        "ray_node_type": "worker",
        "ray_submission": "finetune-x7k2p",
    }


def test_a_submission_that_comes_after_the_pods_is_told_then(asked: AskedCluster) -> None:
    """KubeRay makes the cluster first, and Ray's own id is known a moment later."""
    top = owning("RayJob", "ray.io/v1", "finetune")
    asked.cluster.put(f"{RAY}/rayjobs", top)
    asked.cluster.put(PODS, running("finetune-w0", owner=top))
    asked.poll()
    asked.cluster.put(f"{RAY}/rayjobs", top | {"status": {"jobId": "finetune-x7k2p"}})
    assert asked.poll() == {"allocations": 1}
    ((labels,),) = asked.allocations("labels")
    assert json.loads(labels)["ray_submission"] == "finetune-x7k2p"


def test_owners_beyond_a_poll_s_measure_wait_and_end_nothing(asked: AskedCluster) -> None:
    """A collector that starts anew in a large cluster must neither storm the API nor think that runs are gone."""
    for number in range(3):
        asked.cluster.put(PODS, running(f"solo-{number}", owner=job(asked, f"job-{number}")))
    asked.poll()
    asked.restart()
    asked.source._owners = Owners(asked.api, most=1)
    assert [asked.poll() for _ in range(3)] == [{}, {}, {}]
    assert [row[4] for row in asked.allocations(*HELD)] == [None, None, None]


def test_a_replica_that_is_replaced_lost_no_work(asked: AskedCluster) -> None:
    """A server that ran out of memory after three days has not lost three days; how it ended is kept in words."""
    top = owning("Deployment", "apps/v1", "chat")
    asked.cluster.put(f"{APPS}/deployments", top)
    asked.cluster.put(PODS, over("chat-0", owner=top, code=137, why="OOMKilled"))
    asked.poll()
    ((status, labels),) = asked.allocations("exit_status", "labels")
    assert (status, json.loads(labels)["ended"]) == ("cancelled", "out_of_memory")


def test_work_that_waits_for_quota_is_seen(asked: AskedCluster) -> None:
    """Kueue holds a Job back before it has any pod: its Workload alone says how many GPUs wait, and why."""
    asked.cluster.serve(KUEUE, "Workload", "workloads")
    owner = job(asked)
    pods = {"count": 4, "template": {"spec": waiting(gpus=8)["spec"]}}
    work = owning("Workload", "kueue.x-k8s.io/v1beta2", "job-train", owner) | {
        "spec": {"queueName": "research", "podSets": [pods], "priority": 5},
        "status": {"conditions": [{"type": "QuotaReserved", "status": "False", "message": "couldn't assign flavors"}]},
    }
    asked.cluster.put(f"{KUEUE}/workloads", work)
    asked.poll()
    columns = ("run_id", "queue", "requested_gpus", "pending_reason", "ended_at")
    assert asked.allocations(*columns) == [
        ("kubernetes/prod/uid-train", "research", 32, "couldn't assign flavors", None)
    ]
    work["status"]["conditions"].append({"type": "Admitted", "status": "True"})
    asked.cluster.put(f"{KUEUE}/workloads", work)
    asked.poll()
    assert [row[-1] for row in asked.allocations(*columns)] == [T + MINUTE]


def test_nodes_have_states_and_places(asked: AskedCluster) -> None:
    """A node that is not ready is down, one that is cordoned is drained; hosts without GPUs are nobody's matter."""
    labels = {"topology.kubernetes.io/zone": "z1", "topology.k8s.aws/network-node-layer-3": "nn-3"}
    asked.cluster.put(NODES, host("n1", labels=labels))
    asked.cluster.put(NODES, host("n2", cordoned=True))
    asked.cluster.put(NODES, host("n3", ready="Unknown"))
    plain = host("n4")
    del plain["status"]["capacity"]["nvidia.com/gpu"]
    asked.cluster.put(NODES, plain)
    asked.poll()
    asked.poll(T + HOUR + 2 * MINUTE)
    states = asked.session.rows("SELECT DISTINCT node, state, reason FROM node_states ORDER BY ALL")
    assert states == [
        ("n2", "drained", "cordoned"),
        ("n3", "down", "NodeStatusUnknown: kubelet stopped posting"),
    ]
    places = asked.session.rows("SELECT node, rack, zone, topology_source FROM inventory")
    assert places == [("n1", "nn-3", "z1", "labels topology.k8s.aws/network-node-layer-3")]


def test_a_server_that_is_down_says_nothing_of_pods(asked: AskedCluster) -> None:
    """Its silence ends no run."""
    asked.cluster.put(PODS, running(owner=job(asked)))
    asked.poll()
    asked.cluster.refused["/api/v1"] = 503
    with pytest.raises(SchedulerError, match="503"):
        asked.poll()
    asked.cluster.refused.clear()
    asked.poll()
    assert [row[4] for row in asked.allocations(*HELD)] == [None]


def test_what_ended_long_ago_is_not_told_for_ever(asked: AskedCluster) -> None:
    """Finished pods of a Job stay in the API for weeks."""
    asked.cluster.put(PODS, over(owner=job(asked)))
    asked.poll()
    assert [asked.poll(T + days * DAY) for days in (3, 4)] == [{}, {}]


def test_a_reference_to_many_owners_names_none(asked: AskedCluster) -> None:
    """Where nobody controls a pod, and several say that they own it, it is a run of its own."""
    thing = running("solo")
    first, second = job(asked, "a"), job(asked, "b")
    thing["metadata"]["ownerReferences"] = [reference(first, False), reference(second, False)]
    asked.cluster.put(PODS, thing)
    asked.poll()
    assert asked.allocations("name") == [("solo",)]
