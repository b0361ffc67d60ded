"""Pods as kube-state-metrics told a Prometheus of them: runs, members, owners and ends, from a real Prometheus."""

from collections.abc import Iterator

import pytest

from collector.importing.history import bring
from collector.importing.known_allocations import Sighting
from collector.importing.prometheus_history import pod_history, read_pods
from collector.prometheus.client import Client, Server
from collector.schedulers.kubernetes.source import Labels
from tests.analyzer.ledger.fleet import DAY, HOUR, MINUTE, SECOND
from tests.collector.importing import server
from tests.collector.importing.site import Site, T

LABELS = Labels(user=("gpuledger/user",), project=("app.kubernetes.io/part-of",))
STEP = 60


class Story:
    """What kube-state-metrics would have told, series by series, every minute."""

    def __init__(self) -> None:
        self._families: dict[str, list[str]] = {}

    def tell(self, metric: str, labels: str, start: int, end: int, value: float = 1) -> None:
        """Let a series have a value from a time until a time."""
        lines = self._families.setdefault(metric, [])
        for at in range(start // SECOND, end // SECOND, STEP):
            lines.append(f"{metric}{{{labels}}} {value:.0f} {at}")

    def pod(
        self, name: str, uid: str, start: int, end: int, gpus: int, owner: str, node: str = "n1", **more: int
    ) -> None:
        """Tell of a pod from its creation until it is deleted; owner is Kind/name."""
        own = f'namespace="ml",pod="{name}",uid="{uid}"'
        kind, _, of = owner.partition("/")
        asked = f'{own},container="main",node="{node}",resource="nvidia_com_gpu",unit="integer"'
        self.tell("kube_pod_container_resource_requests", asked, start, end, gpus)
        self.tell("kube_pod_info", f'{own},node="{node}",priority_class="high"', start, end)
        labels = f'{own},owner_kind="{kind or "<none>"}",owner_name="{of or "<none>"}",owner_is_controller="true"'
        self.tell("kube_pod_owner", labels, start, end)
        self.tell(
            "kube_pod_labels", f'{own},label_gpuledger_user="ada",label_app_kubernetes_io_part_of="bert"', start, end
        )
        self.tell("kube_pod_created", own, start, end, start / SECOND)
        self.tell("kube_pod_start_time", own, start, end, more.get("started", start + MINUTE) / SECOND)
        if "completed" in more:
            self.tell("kube_pod_completion_time", own, more["completed"], end, more["completed"] / SECOND)

    def text(self) -> str:
        """Return it as OpenMetrics."""
        parts = [f"# TYPE {metric} gauge\n" + "\n".join(lines) for metric, lines in self._families.items()]
        return "\n".join(parts) + "\n# EOF\n"


def _story() -> str:
    story = Story()
    two, four, nine = T + 2 * HOUR, T + 4 * HOUR, T + 9 * HOUR
    story.pod("train-0", "u-1", two, nine, 2, "Job/train", completed=four)
    story.tell("kube_pod_status_phase", 'namespace="ml",pod="train-0",uid="u-1",phase="Failed"', four, nine)
    oom = 'namespace="ml",pod="train-0",uid="u-1",container="main",reason="OOMKilled"'
    story.tell("kube_pod_container_status_terminated_reason", oom, four, nine)
    story.pod("train-1", "u-2", four, nine, 2, "Job/train")  # it vanishes while it works: somebody deleted it
    story.tell("kube_job_owner", 'namespace="ml",job_name="train",owner_kind="CronJob",owner_name="nightly"', two, nine)
    story.tell("kube_cronjob_created", 'namespace="ml",cronjob="nightly"', two, nine, 1_762_000_000)
    story.pod("web-abc", "u-3", T, T + DAY, 1, "ReplicaSet/web-5d", node="n2")
    owner = 'namespace="ml",replicaset="web-5d",owner_kind="Deployment",owner_name="web"'
    story.tell("kube_replicaset_owner", owner, T, T + DAY)
    story.pod("lone", "u-4", T, T + 3 * HOUR, 1, "", node="n2", completed=T + 2 * HOUR)
    story.tell(
        "kube_pod_status_phase", 'namespace="ml",pod="lone",uid="u-4",phase="Succeeded"', T + 2 * HOUR, T + 3 * HOUR
    )
    story.pod("waits", "u-5", T + HOUR, T + DAY, 8, "Job/big", node="")
    return story.text()


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Return a client of a real Prometheus that has heard the story."""
    if absent := server.missing():
        pytest.skip(f"{', '.join(absent)} not installed; make services, or apt-get install prometheus")
    here = tmp_path_factory.mktemp("kube")
    (here / "story.om").write_text(_story())
    server.make_blocks(here / "story.om", here / "data")
    with server.prometheus(here / "data") as url, Client(Server(url)) as made:
        yield made


def told(site: Site, client: Client, until: int = T + DAY, sightings: tuple[Sighting, ...] = ()) -> dict[str, int]:
    """Import what the server has of the day, and return the new rows by table."""
    state = read_pods(client, T, until)
    with site.store.session() as session:
        found = pod_history(session, state, "prod", LABELS, until)
    return dict(bring(site.store, found, sightings).new)


def test_runs_are_top_level_owners_by_name(site: Site, client: Client) -> None:
    """kube-state-metrics knows no owner's uid; a name with the time it was made means one thing only."""
    told(site, client)
    runs = {run: (name, account) for run, name, account, gpu in _rows(site) if gpu is None}
    assert runs == {
        "kubernetes/prod/ml.cronjob:nightly@1762000000": ("nightly", "ml"),
        "kubernetes/prod/ml.deployment:web": ("web", "ml"),
        "kubernetes/prod/u-4": ("lone", "ml"),
    }


def _rows(site: Site) -> list[tuple[str, str, str, str | None]]:
    with site.store.session() as session:
        return session.rows("SELECT run_id, name, account, gpu_uuid FROM allocations")


def test_members_begin_end_and_say_how(site: Site, client: Client) -> None:
    """As the API would have told: completion, what the container said, and a pod that was deleted at work."""
    told(site, client)
    with site.store.session() as session:
        rows = session.rows(
            'SELECT member, node, started_at, ended_at, exit_status, requested_gpus, "user", project FROM allocations '
            "WHERE gpu_uuid IS NULL ORDER BY member"
        )
    begun = MINUTE
    assert rows == [
        ("ml/lone", "n2", T + begun, T + 2 * HOUR, "completed", 1, "ada", "bert"),
        ("ml/train-0", "n1", T + 2 * HOUR + begun, T + 4 * HOUR, "out_of_memory", 2, "ada", "bert"),
        ("ml/train-1", "n1", T + 4 * HOUR + begun, T + 9 * HOUR, "cancelled", 2, "ada", "bert"),
        ("ml/web-abc", "n2", T + begun, None, None, 1, "ada", "bert"),
    ]


def test_a_second_import_adds_nothing(site: Site, client: Client) -> None:
    """Names, members and GPUs are those of the first."""
    assert told(site, client)["allocations"] == 4 + 6
    assert not any(told(site, client).values())


def test_a_pod_that_ran_on_is_ended_by_a_later_import(site: Site, client: Client) -> None:
    """The first import saw it hold its GPUs to the end of the span."""
    told(site, client, until=T + 3 * HOUR)
    told(site, client)
    with site.store.session() as session:
        ends = session.rows(
            "SELECT member, gpu_uuid IS NULL, arg_max(ended_at, batch), arg_max(exit_status, batch) FROM allocations "
            "WHERE member = 'ml/train-0' GROUP BY ALL ORDER BY ALL"
        )
    end = T + 4 * HOUR, "out_of_memory"
    assert ends == [("ml/train-0", False, *end), ("ml/train-0", True, *end)]


def test_gpus_are_those_that_the_exporter_names(site: Site, client: Client) -> None:
    """DCGM's series bear the pod; what none bears is placed as with Slurm."""
    seen = Sighting("kubernetes/prod/ml.web-abc", "n2-3", T + MINUTE, T + DAY)
    told(site, client, sightings=(seen,))
    with site.store.session() as session:
        rows = session.rows(
            "SELECT run_id, gpu_uuid FROM allocations WHERE gpu_uuid IS NOT NULL AND member = 'ml/web-abc'"
        )
    assert rows == [("kubernetes/prod/u-3", "n2-3")]


def test_a_run_that_the_cluster_itself_told_of_is_the_same_run(site: Site, client: Client) -> None:
    """The live source knows the owner's uid: history before it must not make a second run of it."""
    site.fleet.add("run_aliases", [{"alias_run_id": "kubernetes/prod/u-3", "run_id": "kubernetes/prod/0wner-uid"}])
    told(site, client)
    assert "kubernetes/prod/0wner-uid" in {run for run, *_ in _rows(site)}
    assert "kubernetes/prod/ml.deployment:web" not in {run for run, *_ in _rows(site)}


def test_the_ledger_knows_a_retry_from_the_first_attempt(site: Site, client: Client) -> None:
    """A pod that failed and the one that took its place are attempts of one run, and only the first lost its work."""
    site.watch({f"n1-{index}": [(2.1, 9)] for index in range(2)})
    site.fleet.write("n1", T, T + DAY)
    told(site, client)
    site.fleet.analyze()
    run = "kubernetes/prod/ml.cronjob:nightly@1762000000"
    with site.store.session() as session:
        rows = session.rows(
            "SELECT attempt, (sum(milliseconds) // 60000)::BIGINT, bool_or(state = 'lost_work') FROM ledger "
            "WHERE run_id = ? GROUP BY attempt ORDER BY attempt",
            [run],
        )
    assert rows == [(0, 2 * 299, False), (1, 2 * 119, True)]
