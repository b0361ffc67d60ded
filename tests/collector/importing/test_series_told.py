"""Who held which GPU by what a real Prometheus kept, where labels are dropped, doubled, or of somebody else."""

import json
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

import gpuledger
from collector.errors import ServerError
from collector.importing.allocation_file import of_holders
from collector.importing.placing import Claim
from collector.importing.prometheus_history import State, _note_request, pod_history, read_pods
from collector.prometheus.client import Client, Server
from collector.prometheus.labels import Clusters
from collector.prometheus.pull import Pulled, pull
from collector.prometheus.survey import survey
from collector.schedulers.kubernetes.source import Labels
from collector.store.database import Store
from tests.analyzer.ledger.fleet import HOUR as HOUR_US
from tests.analyzer.ledger.fleet import SECOND
from tests.collector.importing import server
from tests.collector.importing.day_of_series import DAY, HOUR, T0, TRAINER, DayOfSeries, from_one_to_three

SINCE, UNTIL = T0 * SECOND, (T0 + DAY) * SECOND
EXPORTER = {"pod": "dcgm-exporter-x1", "namespace": "gpu-operator", "container": "exporter"}


@pytest.fixture(autouse=True)
def _installed() -> None:
    if absent := server.missing():
        pytest.skip(f"{', '.join(absent)} not installed; make services, or apt-get install prometheus")


def pulled(url: str, store: Store, cluster: str = "prod", **more: Any) -> Pulled:
    """Bring the day."""
    with Client(Server(url, **more)) as client:
        found = survey(client, SINCE, UNTIL, cluster)
        return pull(client, store, SINCE, UNTIL, found=found, clusters=Clusters(cluster, cluster))


def covered(store: Store) -> list[tuple[Any, ...]]:
    """Return of each GPU how many hours its rows cover, how many overlap the one before, and its joules."""
    with store.session() as session:
        return session.rows(
            """
            SELECT gpu_uuid, round(sum(ended_at - started_at) / 3.6e9, 3), count(*) FILTER (WHERE before > started_at),
                sum(energy_joules)::BIGINT
            FROM (SELECT *, lag(ended_at) OVER (PARTITION BY gpu_uuid ORDER BY started_at) AS before FROM gpu_samples)
            GROUP BY ALL ORDER BY ALL
            """
        )


def held(found: Pulled, cluster: str = "prod") -> dict[str, float]:
    """Return the GPU-hours of each run, by the labels of the exporter."""
    claims = of_holders(found.holders.to_pylist(), cluster, SINCE, UNTIL).claims
    return hours(list(claims))


def hours(claims: list[Claim]) -> dict[str, float]:
    """Return the GPU-hours of each run."""
    found: dict[str, float] = {}
    for one in claims:
        lasted = ((one.ended_at or UNTIL) - one.started_at) / HOUR_US
        found[one.run_id] = found.get(one.run_id, 0) + lasted * one.gpus
    return {run: round(lasted, 2) for run, lasted in found.items()}


@pytest.mark.parametrize(("later", "replica"), [(20, "prometheus_replica"), (0, "replica"), (35, "monitor")])
def test_two_scrapers_of_one_gpu_are_one_series(tmp_path: Path, later: int, replica: str) -> None:
    """An HA pair that is not merged tells everything twice: it counts once, whatever the label is called."""
    day = DayOfSeries()
    for name, first in (("a", 0), ("b", later)):
        day.host("k1", 2, EXPORTER | {replica: name}, from_one_to_three, first)
    with day.served(tmp_path / "ha") as url, Store.open(None) as store:
        found = pulled(url, store)
        assert covered(store) == [(f"GPU-k1-{gpu}", 24.0, 0, 100 * DAY) for gpu in range(2)]
        assert found.stored == found.expected
        assert held(found) == {"kubernetes/prod/research.train-0": 4.0}


def test_two_scrapers_that_call_a_host_with_and_without_its_domain_tell_of_one_host(tmp_path: Path) -> None:
    """Two hosts with one GPU are one host: its hours, its joules and its run would count twice."""
    day = DayOfSeries()
    day.host("k1", 1, {"prometheus": "a"}, from_one_to_three)
    day.host("k1.hpc.example.org", 1, {"prometheus": "b"}, from_one_to_three, uuid="GPU-k1-{gpu}")
    day.host("k10", 1, {"prometheus": "a"})
    with day.served(tmp_path / "names") as url, Store.open(None) as store:
        found = pulled(url, store)
        assert covered(store) == [(f"GPU-{host}-0", 24.0, 0, 100 * DAY) for host in ("k1", "k10")]
        assert held(found) == {"kubernetes/prod/research.train-0": 2.0}
        with store.session() as session:
            assert session.rows("SELECT DISTINCT node FROM gpu_samples ORDER BY 1") == [("k1",), ("k10",)]


EXPORTERS = ("gpu-metrics-exporter-4xk2p", "alpha-gpu-dcgm-exporter-4xk2p", "telemetry-7")


@pytest.mark.parametrize(
    "pods", [EXPORTERS, *(pytest.param((pod,), marks=pytest.mark.soak) for pod in EXPORTERS)], ids=", ".join
)
@pytest.mark.parametrize("up", [True, False])
def test_the_exporters_own_pod_holds_nothing(tmp_path: Path, pods: tuple[str, ...], up: bool) -> None:
    """Whatever it is called: `up` has the same pod, or an exported_pod stands beside it."""
    day = DayOfSeries()

    def holder(gpu: int, at: int, name: str) -> dict[str, str]:
        return TRAINER | {"exported_pod": name} if gpu == 0 and from_one_to_three(gpu, at) else {}

    for number, pod in enumerate(pods):
        target = {"pod": pod, "namespace": "monitoring", "container": "c"}
        day.host(f"k{number}", 2, target, partial(holder, name=f"train-{number}"), up=up)
    with day.served(tmp_path / "own") as url, Store.open(None) as store:
        expected = {f"kubernetes/prod/research.train-{number}": 2.0 for number in range(len(pods))}
        assert held(pulled(url, store)) == expected


def test_a_holder_may_be_called_like_an_exporter(tmp_path: Path) -> None:
    """Where labels are honored, `pod` is who holds the GPU; a server that tells of its targets settles it."""
    day = DayOfSeries()
    trainer = {"pod": "gpu-exporter-finetune", "namespace": "research", "container": "main"}
    day.host("k1", 1, {}, lambda gpu, at: trainer if HOUR < at <= 3 * HOUR else {})
    with day.served(tmp_path / "honored") as url, Store.open(None) as store:
        assert held(pulled(url, store)) == {"kubernetes/prod/research.gpu-exporter-finetune": 2.0}


def test_a_job_within_a_pod_is_the_holder(tmp_path: Path) -> None:
    """Slurm may run in pods: the pod is the same for every job."""
    day = DayOfSeries()
    day.host("k1", 1, EXPORTER, lambda gpu, at: TRAINER | {"hpc_job": "7"} if HOUR < at <= 3 * HOUR else {})
    with day.served(tmp_path / "job") as url, Store.open(None) as store:
        assert held(pulled(url, store)) == {"slurm/prod/7": 2.0}


def test_labels_of_a_pod_make_no_other_scraper(tmp_path: Path) -> None:
    """A sample has the labels of its pod and claim: two pods that share a GPU, and a third after them, all held it."""
    day = DayOfSeries()

    def pod(name: str, since: int, until: int) -> Callable[[int, int], dict[str, str]]:
        more = {"app": name, "dra_claim_name": f"{name}-gpu", "UID": f"uid-{name}"}
        held = {"exported_pod": name, "exported_namespace": "research"} | more
        return lambda gpu, at: held if since * HOUR < at <= until * HOUR else {}

    for holder in (pod("a", 1, 3), pod("b", 2, 3), pod("c", 5, 6)):
        day.host("k1", 1, EXPORTER | {"cluster": "east"}, holder)
    with day.served(tmp_path / "labels") as url, Store.open(None) as store:
        expected = {"kubernetes/prod/research.a": 2.0, "kubernetes/prod/research.b": 1.0}
        assert held(pulled(url, store)) == expected | {"kubernetes/prod/research.c": 1.0}
        assert covered(store) == [("GPU-k1-0", 24.0, 0, 100 * DAY)]


def test_a_mig_instance_is_held_by_its_pod(tmp_path: Path) -> None:
    """DCGM tells the utilization of whole GPUs alone: who holds an instance stands at what it tells of instances."""
    day = DayOfSeries()
    day.host("k1", 1, EXPORTER)
    for at in range(0, DAY + 1, 60):
        for instance in ("1", "2"):
            labels = {"gpu": "0", "UUID": "GPU-k1-0", "Hostname": "k1", "instance": "k1:9400", "job": "dcgm"} | EXPORTER
            labels |= {"GPU_I_ID": instance, "GPU_I_PROFILE": "3g.40gb"}
            labels |= TRAINER | {"exported_pod": f"p{instance}"} if from_one_to_three(0, at) else {}
            day.add("DCGM_FI_PROF_GR_ENGINE_ACTIVE", labels, at, 0.4)
    with day.served(tmp_path / "mig") as url, Store.open(None) as store:
        found = pulled(url, store)
        assert held(found) == {"kubernetes/prod/research.p1": 2.0, "kubernetes/prod/research.p2": 2.0}
        assert {one["gpu_uuid"] for one in found.holders.to_pylist()} == {"GPU-k1-0/1", "GPU-k1-0/2"}
        assert found.stored == found.expected


def test_hosts_of_two_clusters_with_one_name_are_told_apart_or_refused(tmp_path: Path) -> None:
    """Eight GPUs of one host would be two hosts' of four, and a job of one cluster would hold the other's."""
    day = DayOfSeries()
    for cluster in ("east", "west"):
        day.host("gpu-0", 4, {"instance": "10.1.2.3:9400", "cluster": cluster}, uuid=f"GPU-{cluster}-{{gpu}}")
    with day.served(tmp_path / "two") as url, Store.open(None) as store:
        with pytest.raises(ServerError, match=r"cluster=\"east\" and cluster=\"west\".*gpu-0.*--match"):
            pulled(url, store)
        pulled(url, store, "east")
        assert [row[0] for row in covered(store)] == [f"GPU-east-{gpu}" for gpu in range(4)]
        pulled(url, store, match='cluster="west"')  # another source: it is not taken for what is there
        assert len(covered(store)) == 8


def test_labels_of_pods_make_no_two_clusters(tmp_path: Path) -> None:
    """GPUs have other numbers after a reboot, and the pods of another Ray cluster hold them: the host is one."""
    day = DayOfSeries()
    for at in range(0, DAY + 1, 60):
        day.add("up", {"instance": "k1:9400", "job": "dcgm"}, at, 1)
        for gpu in range(2) if not 43_000 < at < 43_400 else ():
            number, ray = (gpu, "x") if at < 43_200 else (1 - gpu, "y")
            labels = {
                "gpu": str(number),
                "UUID": f"GPU-k1-{gpu}",
                "Hostname": "k1",
                "instance": "k1:9400",
                "job": "dcgm",
            }
            day.add("DCGM_FI_DEV_GPU_UTIL", labels | TRAINER | {"ray_io_cluster": ray}, at, 90)
    with day.served(tmp_path / "ray") as url, Store.open(None) as store:
        assert pulled(url, store).notes == ()
        assert [gpu for gpu, *_ in covered(store)] == ["GPU-k1-0", "GPU-k1-1"]


@pytest.mark.parametrize("match", ["east", "cluster=east", '{cluster="east"}', 'cluster="a",'])
def test_a_matcher_that_is_none_is_refused(match: str) -> None:
    """Before anything is asked."""
    with pytest.raises(ServerError, match="not a matcher"):
        Server("http://localhost:9090", match=match)


def test_what_a_server_does_not_tell_at_once_is_asked_for_in_parts(tmp_path: Path) -> None:
    """422: an hour of a metric is 240 samples, and six hours are too many."""
    day = DayOfSeries()
    day.host("k1", 4, {}, from_one_to_three)
    with day.served(tmp_path / "few", "--query.max-samples=500") as url, Store.open(None) as store:
        found = pulled(url, store)
        assert covered(store) == [(f"GPU-k1-{gpu}", 24.0, 0, 100 * DAY) for gpu in range(4)]
        assert held(found) == {"kubernetes/prod/research.train-0": 8.0}


def test_a_limit_below_every_question_names_the_way_out(tmp_path: Path) -> None:
    """A step asks the server to put samples together, and needs less."""
    day = DayOfSeries()
    day.host("k1", 4, {})
    with (
        day.served(tmp_path / "none", "--query.max-samples=5") as url,
        Store.open(None) as store,
        pytest.raises(ServerError, match="--step 600"),
    ):
        pulled(url, store)


class Pods:
    """Pods as kube-state-metrics tells of them, without their uid."""

    def __init__(self, day: DayOfSeries) -> None:
        self._day = day

    def pod(self, name: str, node: str, begin: int, end: int, done: int | None = None, **dropped: bool) -> None:
        """Tell of a pod of four GPUs from a second until a second; after `done` it has succeeded."""
        own = {"namespace": "research", "pod": name, "instance": "ksm:8080", "job": "ksm"}
        for at in range(begin, end + 1, 60):
            asked = {"container": "main", "node": node, "resource": "nvidia_com_gpu", "unit": "integer"}
            self._day.add("kube_pod_container_resource_requests", own | asked, at, 4)
            self._day.add("kube_pod_info", own | {"node": node}, at, 1)
            owner = {"owner_kind": "StatefulSet", "owner_name": "train", "owner_is_controller": "true"}
            self._day.add("kube_pod_owner", own | owner, at, 1)
            if not dropped.get("created"):
                self._day.add("kube_pod_created", own, at, T0 + begin)
                self._day.add("kube_pod_start_time", own, at, T0 + begin)
            phase = "Succeeded" if done is not None and at >= done else "Running"
            self._day.add("kube_pod_status_phase", own | {"phase": phase}, at, 1)


def pods_of(url: str) -> tuple[dict[str, list[tuple[str | None, str, float, float]]], tuple[str, ...]]:
    """Return by pod when it held its GPUs (hours of the day), and the notes."""
    with Client(Server(url)) as client, Store.open(None) as store, store.session() as session:
        state = read_pods(client, SINCE, UNTIL)
        found = pod_history(session, state, "prod", Labels(), UNTIL)
    held_by: dict[str, list[tuple[str | None, str, float, float]]] = {}
    for one in found.claims:
        begin, end = ((moment - SINCE) / HOUR_US for moment in (one.started_at, one.ended_at or UNTIL))
        held_by.setdefault(one.node, []).append((one.member, one.run_id.split("@")[0], round(begin, 2), round(end, 2)))
    return held_by, found.notes


def test_pods_whose_uid_was_dropped_hold_their_gpus(tmp_path: Path) -> None:
    """Names come again: one pod of a StatefulSet after the other, on another host."""
    day = DayOfSeries()
    told = Pods(day)
    told.pod("train-0", "k1", HOUR, 3 * HOUR)
    told.pod("train-0", "k2", 6 * HOUR, 8 * HOUR)
    told.pod("train-1", "k1", 10 * HOUR, 12 * HOUR, created=True)  # nothing tells when it began: it was seen first
    told.pod("train-2", "k2", 10 * HOUR, 20 * HOUR, done=12 * HOUR)  # done, and kept until somebody deletes it
    with day.served(tmp_path / "ksm") as url:
        found, notes = pods_of(url)
    run = "kubernetes/prod/research.statefulset:train"
    assert {node: sorted(spans, key=lambda span: span[2]) for node, spans in found.items()} == {
        "k1": [("research/train-0", run, 1.0, 3.02), ("research/train-1", run, 10.0, 12.02)],
        "k2": [("research/train-0", run, 6.0, 8.02), ("research/train-2", run, 10.0, 12.0)],
    }
    assert notes == ("4 pods without the label uid, dropped on the way: told apart by name and creation",)


@pytest.mark.parametrize("uid", [True, False])
def test_what_is_the_exporters_own_is_not_taken_for_a_pods(tmp_path: Path, uid: bool) -> None:
    """Where labels are not honored, namespace, pod, container and node are those of kube-state-metrics itself: a pod
    of two containers has the GPUs of both, on its own host.
    """
    day = DayOfSeries()
    target = {"instance": "ksm:8080", "namespace": "kube-system", "pod": "ksm-0", "container": "ksm", "node": "infra-1"}
    own = target | {"exported_namespace": "research", "exported_pod": "train-0"} | ({"uid": "u-0"} if uid else {})
    for at in range(HOUR, 3 * HOUR + 1, 60):
        for container, gpus in (("main", 4), ("eval", 2)):
            asked = own | {"exported_container": container, "exported_node": "k1", "resource": "nvidia_com_gpu"}
            day.add("kube_pod_container_resource_requests", asked, at, gpus)
        day.add("kube_pod_info", own | {"exported_node": "k1"}, at, 1)
        day.add("kube_pod_created", own, at, T0 + HOUR)
    with day.served(tmp_path / "ksm") as url, Client(Server(url)) as client, Store.open(None) as store:
        state = read_pods(client, SINCE, UNTIL)
        with store.session() as session:
            claims = pod_history(session, state, "prod", Labels(), UNTIL).claims
    assert [(one.member, one.node, one.gpus) for one in claims] == [("research/train-0", "k1", 6)]


def imported(url: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Return how the command ended that brings the day with what kube-state-metrics says, and what it said."""
    days = ("--since", "2026-10-24", "--until", "2026-10-25", "--width", "200", "--store", str(folder / "s.duckdb"))
    words = ("import", "prometheus", "--url", url, "--allocations", "kube-state-metrics", "--cluster", "prod")
    code = gpuledger.main([*words, *days])
    return code, "".join(capsys.readouterr())


def test_pods_whose_gpus_come_by_claims_hold_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a resource claim (DRA) kube-state-metrics tells no request: the labels of the exporter name its pod."""
    day = DayOfSeries()
    day.host("k1", 1, {}, from_one_to_three)
    with day.served(tmp_path / "dra") as url:
        code, said = imported(url, tmp_path, capsys)
    assert code == 0
    assert "kube-state-metrics: 1 run" in said
    assert "1 pod with GPUs by the exporter's labels alone" in said
    assert "kube_pod_container_resource_requests names no GPU of NVIDIA" in said
    with Store.open(tmp_path / "s.duckdb") as store, store.session() as session:
        asked = "SELECT run_id, gpu_uuid, ended_at - started_at FROM allocations"
        assert session.rows(asked) == [("kubernetes/prod/research.train-0", "GPU-k1-0", 2 * HOUR_US)]


def test_gpus_without_their_uuid_are_refused_by_that_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever dropped the label to save series is not to be asked whether dcgm-exporter is scraped."""
    day = DayOfSeries()
    for at in range(0, DAY + 1, 60):
        day.add("DCGM_FI_DEV_GPU_UTIL", {"gpu": "0", "Hostname": "k1", "instance": "k1:9400"}, at, 90)
    with day.served(tmp_path / "none") as url:
        code, said = imported(url, tmp_path, capsys)
    assert code == 3
    assert "without a label UUID" in said


@pytest.mark.parametrize(
    ("beside", "gpus"),
    [
        ({}, 2),
        ({"gpumem": 3000}, 0),
        ({"gpumem_percentage": 50, "gpucores": 30}, 0),
        ({"gpucores": 100}, 2),
    ],
    ids=str,
)
def test_a_pod_that_asks_for_parts_of_its_gpus_holds_none_wholly(beside: dict[str, int], gpus: int) -> None:
    """HAMi's pods ask for so many GPUs, and how much of each: two of them on one GPU would be two GPUs."""
    state = State()
    for resource, value in {**beside, "gpu": 2}.items():
        labels = {"namespace": "ml", "pod": "a", "uid": "u", "container": "m", "resource": f"nvidia_com_{resource}"}
        _note_request(state, labels, value)
    assert state.pods["u"].gpus == gpus


GPU = {"__name__": "DCGM_FI_DEV_GPU_UTIL", "gpu": "0", "UUID": "GPU-a", "Hostname": "n1"}


@dataclass(frozen=True)
class Life:
    """One pod: seconds of the day at which it begins, is done (None: deleted at work) and is deleted."""

    name: str
    begins: int
    done: int | None
    gone: int
    lacks: frozenset[str]  # what nothing tells of it: uid, start, created, completion, phase

    def add_to(self, day: DayOfSeries) -> None:
        """Add its series, sampled every minute."""
        own = {"namespace": "research", "pod": self.name, "instance": "ksm:8080"}
        own |= {} if "uid" in self.lacks else {"uid": f"u-{self.name}-{self.begins}"}
        moments = {"start": "kube_pod_start_time", "created": "kube_pod_created"}
        for at in range(self.begins, self.gone + 1, 60):
            asked = {"container": "main", "node": "k1", "resource": "nvidia_com_gpu"}
            day.add("kube_pod_container_resource_requests", own | asked, at, 1)
            for what, metric in moments.items():
                if what not in self.lacks:
                    day.add(metric, own, at, T0 + self.begins)
            is_done = self.done is not None and at >= self.done
            if is_done and "completion" not in self.lacks:
                day.add("kube_pod_completion_time", own, at, T0 + (self.done or 0))
            if "phase" not in self.lacks:
                day.add("kube_pod_status_phase", own | {"phase": "Succeeded" if is_done else "Running"}, at, 1)

    @property
    def ends(self) -> int:
        """When it gives its GPU back, as far as anything tells."""
        return self.gone if self.done is None or {"completion", "phase"} <= self.lacks else self.done


def lives(choose: random.Random) -> Iterator[Life]:
    """Yield 200 pods; of one name at most one at a time, and those whose names come again tell when they were made."""
    for number in range(100):
        first, again = choose.randrange(0, 300) * 60, choose.randrange(600, 1200) * 60
        for begins in (first, again):
            done = choose.choice((None, begins + choose.randrange(5, 60) * 60))
            gone = (done or begins + choose.randrange(5, 60) * 60) + choose.choice((60, 1800)) * (done is not None)
            lacks = {what for what in ("start", "completion", "phase") if choose.random() < 0.3}
            lacks |= {"uid"} if number % 2 else {"created"} if choose.random() < 0.3 else set()
            yield Life(f"p-{number}", begins, done, gone, frozenset(lacks))


def test_generated_pods_hold_their_gpus_as_long_as_anything_tells(tmp_path: Path) -> None:
    """Whichever series were dropped on the way: none is held for ever, and none is nobody's."""
    day, told = DayOfSeries(), list(lives(random.Random(41)))
    for one in told:
        one.add_to(day)
    with day.served(tmp_path / "pods") as url, Client(Server(url)) as client, Store.open(None) as store:
        state = read_pods(client, SINCE, UNTIL)
        with store.session() as session:
            claims = pod_history(session, state, "prod", Labels(), UNTIL).claims
    found = sorted(
        (str(one.member), one.started_at // SECOND - T0, (one.ended_at or 0) // SECOND - T0) for one in claims
    )
    truth = sorted((f"research/{one.name}", one.begins, one.ends) for one in told)
    assert [row[:2] for row in found] == [row[:2] for row in truth]
    assert [rows for rows in zip(found, truth, strict=True) if not 0 <= rows[0][2] - rows[1][2] <= 60] == []


class Thanos(BaseHTTPRequestHandler):
    """Answers as a Thanos does whose stores reach back to noon: what was before is answered empty, with a warning."""

    FIRST = T0 + 12 * HOUR
    warning = "No StoreAPIs matched for this query"

    def do_POST(self) -> None:
        """Answer a query of samples."""
        asked = parse_qs(self.rfile.read(int(self.headers.get("content-length") or 0)).decode())
        if self.path.endswith("/export"):
            self._say(404, {})
            return
        until = float(asked["time"][0])
        since = until - int(asked["query"][0].rpartition("[")[2].removesuffix("ms]")) / 1000
        samples = [[at, "50"] for at in range(self.FIRST, T0 + DAY + 1, 60) if since <= at <= until]
        data = {"resultType": "matrix", "result": [{"metric": GPU, "values": samples}] if samples else []}
        self._say(200, {"status": "success", "data": data} | ({"warnings": [self.warning]} if not samples else {}))

    def do_GET(self) -> None:
        """Answer which metrics there are."""
        names = [GPU["__name__"]] if "__name__" in self.path else []
        self._say(200, {"status": "success", "data": names})

    def _say(self, status: int, said: object) -> None:
        body = json.dumps(said, separators=(",", ":")).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Be quiet."""


@contextmanager
def thanos(handler: type[Thanos]) -> Iterator[str]:
    """Serve it."""
    serving = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=serving.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{serving.server_address[1]}"
    finally:
        serving.shutdown()
        thread.join()
        serving.server_close()


def test_history_begins_where_the_stores_do_and_says_so() -> None:
    """What nobody kept is no reason to refuse the rest."""
    with thanos(Thanos) as url, Store.open(None) as store:
        found = pulled(url, store)
        assert covered(store) == [("GPU-a", 12.0, 0, None)]
    assert found.notes == ("GPU metrics begin 2026-10-24 12:00 UTC: nothing is known of the time before",)


class Partial(Thanos):
    """One whose store gateway is away: what it has of the morning is not all."""

    warning = "receive series from Addr: 10.0.0.7:10901: rpc error: connection refused"


def test_an_answer_without_a_store_that_is_away_is_refused() -> None:
    """A day is kept for ever: half of it must not pass for all."""
    with (
        thanos(Partial) as url,
        Store.open(None) as store,
        pytest.raises(ServerError, match="could not read all that it has"),
    ):
        pulled(url, store)
