"""Pods in the ledger: the API knows the run and its owner, the agent the GPU; one run comes of it, however late."""

from collections.abc import Iterator
from typing import Any

from analyzer.interfaces.onboarding.runs import identities
from analyzer.recommendations.site_query import read_site
from tests.analyzer.ledger.copies import OnePass
from tests.analyzer.ledger.fleet import DAY, HOUR, MINUTE, MONDAY, SECOND, Beside, Fleet

T = MONDAY
RUN, OTHER = "kubernetes/prod/0wner", "kubernetes/prod/0ther"
UID, NAME = "kubernetes/prod/p0d", "kubernetes/prod/ml.trainer-0"
LOST = ("lost_work", "failed")
TOGETHER = OnePass()


def works(fleet: Fleet, *gpus: str, until: int = T + 2 * HOUR) -> Fleet:
    """Let a fleet be one host whose GPUs work until then."""
    fleet.own("n1", gpus)
    for gpu in gpus:
        fleet.sample("n1", gpu, T, until)
    return fleet


def told(fleet: Fleet, member: str, start: int, end: int | None = None, run: str = RUN, **more: Any) -> None:
    """Say what the API server says of a pod: no GPU by name."""
    row = {"run_id": run, "member": member, "node": "n1", "submitted_at": start - MINUTE, "started_at": start}
    facts = {"scheduler": "kubernetes", "name": "train", "user": "ada", "account": "ml"}
    fleet.add("allocations", [row | facts | {"ended_at": end, **more}])


def named(fleet: Fleet, *names: str, run: str = RUN, member: str = "ml/trainer-0") -> None:
    """Say that these names of hosts are a member of a run."""
    fleet.add("run_aliases", [{"alias_run_id": name, "run_id": run, "member": member} for name in names])


def seen(fleet: Fleet, name: str, gpu: str, start: int, end: int | None = None) -> None:
    """Say what an agent sees in cgroups, and of the host's disk."""
    fleet.hold(name, "n1", [gpu], start, end, scheduler="cgroup", name=None)
    fleet.write("n1", start, end or start + HOUR)


def held(fleet: Fleet) -> dict[str | None, int]:
    """Return the seconds of the ledger by holder."""
    ours, values = fleet._ours(None)
    with fleet.store.session() as session:
        rows = session.rows(
            f"SELECT run_id, (sum(milliseconds) // 1000)::BIGINT FROM ledger WHERE {ours} GROUP BY ALL", values
        )
    return {run and run.removesuffix(fleet.names_end): seconds for run, seconds in rows}


def facts(fleet: Fleet, *columns: str) -> list[tuple[Any, ...]]:
    """Return what is known of the runs."""
    end = fleet.names_end
    query = f"SELECT {', '.join(columns)} FROM runs WHERE ends_with(run_id, ?) ORDER BY run_id"
    with fleet.store.session() as session:
        rows = session.rows(query, [end])
    return [tuple(value.removesuffix(end) if isinstance(value, str) else value for value in row) for row in rows]


@TOGETHER.each((UID,), (NAME,))
def test_an_agent_s_gpu_and_the_api_s_owner_are_one_run(fleet: Fleet, name: str) -> Iterator[None]:
    """Neither side knows enough alone: cgroups bear the pod's uid, the kubelet its name, the API no GPU."""
    works(fleet, "G1")
    told(fleet, "ml/trainer-0", T, T + HOUR, exit_status="completed")
    named(fleet, UID, NAME)
    seen(fleet, name, "G1", T, T + HOUR)
    yield
    assert held(fleet) == {RUN: 3600, None: 3600}
    columns = ("run_id", "name", "gpus", "exit_status", "submitted_at", "ended_at")
    assert facts(fleet, *columns) == [(RUN, "train", 1, "completed", T - MINUTE, T + HOUR)]


@TOGETHER
def test_both_names_of_a_pod_are_one_holder(fleet: Fleet) -> Iterator[None]:
    """The kubelet lists what processes show too: the GPU is not shared by a run with itself."""
    works(fleet, "G1")
    told(fleet, "ml/trainer-0", T)
    named(fleet, UID, NAME)
    fleet.hold(NAME, "n1", ["G1"], T, None, scheduler="kubernetes", name=None, member="ml/trainer-0/main")
    seen(fleet, UID, "G1", T + 20 * SECOND)
    yield
    assert held(fleet) == {RUN: 7200}


def test_what_is_known_a_day_later_changes_what_was_booked() -> None:
    """The collector may learn of a cluster's API after its agents; the ledger is then as if it had known.

    So it is where a name leads there by two steps: the agent from the pod's name to its uid, and only the API from
    there to its owner.
    """
    late, early = Fleet(), Fleet()
    by_one, by_two = (works(Beside(late, f"~{steps}"), "G1") for steps in (1, 2))
    in_time, named_in_time = (works(Beside(early, f"~{steps}"), "G1") for steps in (1, 2))
    seen(by_one, UID, "G1", T, T + HOUR)
    seen(by_two, NAME, "G1", T, T + HOUR)
    named(by_two, NAME, run=UID)
    late.analyze(now=T + 2 * DAY)
    assert held(by_one) == held(by_two) == {UID: 3600, None: 3600}
    by_one.sample("n1", "G1", T + DAY, T + DAY + HOUR)
    told(by_one, "ml/trainer-0", T, T + HOUR)
    named(by_one, UID, NAME)
    named(by_two, UID)
    told(in_time, "ml/trainer-0", T, T + HOUR)
    named(in_time, UID, NAME)
    seen(in_time, UID, "G1", T, T + HOUR)
    in_time.sample("n1", "G1", T + DAY, T + DAY + HOUR)
    seen(named_in_time, NAME, "G1", T, T + HOUR)
    named(named_in_time, NAME, run=UID)
    named(named_in_time, UID)
    late.analyze(now=T + 2 * DAY)
    assert held(by_one)[RUN] == 3600
    assert held(by_two) == {RUN: 3600, None: 3600}
    early.analyze(now=T + 2 * DAY)
    assert late.rows() == early.rows()


@TOGETHER
def test_a_pod_s_name_that_is_used_again_is_each_time_its_own_run(fleet: Fleet) -> Iterator[None]:
    """A job that is submitted anew under its name has pods of the same names, and another owner."""
    works(fleet, "G1")
    told(fleet, "ml/trainer-0", T, T + HOUR)
    named(fleet, NAME)
    seen(fleet, NAME, "G1", T, T + HOUR)
    told(fleet, "ml/trainer-0", T + 90 * MINUTE, T + 2 * HOUR, run=OTHER)
    named(fleet, NAME, run=OTHER)
    seen(fleet, NAME, "G1", T + 90 * MINUTE, T + 2 * HOUR)
    yield
    assert held(fleet) == {RUN: 3600, OTHER: 1800, None: 1800}


@TOGETHER.each(("cgroup",), ("kubernetes",))
def test_a_host_that_learns_late_of_a_pod_s_end_does_not_prolong_it(fleet: Fleet, scheduler: str) -> Iterator[None]:
    """The API says to the second when the last container ended; an agent looks every ten, its kubelet every fifteen."""
    works(fleet, "G1")
    told(fleet, "ml/trainer-0", T, T + HOUR)
    named(fleet, UID)
    fleet.hold(UID, "n1", ["G1"], T, T + HOUR + 12 * SECOND, scheduler=scheduler, name=None)
    yield
    assert held(fleet) == {RUN: 3600, None: 3600}


@TOGETHER
def test_what_a_failed_pod_did_is_lost_and_what_its_successor_does_is_not(fleet: Fleet) -> Iterator[None]:
    """The agent knows the GPU and the API how it ended: only together they say what was lost."""
    works(fleet, "G1", until=T + 3 * HOUR)
    told(fleet, "ml/trainer-0", T, T + HOUR, exit_status="node_failed")
    told(fleet, "ml/trainer-1", T + 90 * MINUTE, T + 3 * HOUR, exit_status="completed")
    named(fleet, UID)
    named(fleet, "kubernetes/prod/p1d", member="ml/trainer-1")
    seen(fleet, UID, "G1", T, T + HOUR)
    seen(fleet, "kubernetes/prod/p1d", "G1", T + 90 * MINUTE, T + 3 * HOUR)
    yield
    states = fleet.states(RUN)
    assert states["lost_work", "node_failed"] > 50 * MINUTE // 1000
    assert states["productive", "compute"] > 80 * MINUTE // 1000
    assert facts(fleet, "exit_status", "attempts") == [("completed", 2)]


@TOGETHER
def test_pods_that_are_taken_down_with_a_failed_one_lost_their_work_too(fleet: Fleet) -> Iterator[None]:
    """One rank runs out of memory, and the operator ends the others: nothing of it is left."""
    works(fleet, "G1", "G2")
    told(fleet, "ml/trainer-0", T, T + HOUR, exit_status="out_of_memory")
    told(fleet, "ml/trainer-1", T, T + HOUR + 30 * SECOND, exit_status="cancelled")
    named(fleet, UID)
    named(fleet, "kubernetes/prod/p1d", member="ml/trainer-1")
    seen(fleet, UID, "G1", T, T + HOUR)
    seen(fleet, "kubernetes/prod/p1d", "G2", T, T + HOUR + 30 * SECOND)
    yield
    assert fleet.states(RUN)[LOST] > 100 * MINUTE // 1000


@TOGETHER
def test_a_failure_does_not_touch_pods_that_go_on(fleet: Fleet) -> Iterator[None]:
    """One of many that work side by side fails: the others' hours are as good as before."""
    works(fleet, "G1", "G2", until=T + 3 * HOUR)
    told(fleet, "ml/sweep-0", T, T + HOUR, exit_status="failed")
    told(fleet, "ml/sweep-1", T, T + 3 * HOUR, exit_status="completed")
    named(fleet, UID, member="ml/sweep-0")
    named(fleet, "kubernetes/prod/p1d", member="ml/sweep-1")
    seen(fleet, UID, "G1", T, T + HOUR)
    seen(fleet, "kubernetes/prod/p1d", "G2", T, T + 3 * HOUR)
    yield
    states = fleet.states(RUN)
    assert 50 * MINUTE // 1000 < states[LOST] <= HOUR // 1000
    assert states["productive", "compute"] > 170 * MINUTE // 1000


@TOGETHER
def test_what_agents_measure_of_a_pod_is_evidence_for_its_run(fleet: Fleet) -> Iterator[None]:
    """Workers at their limit are seen under the pod's uid, and accuse the owner's run."""
    works(fleet, "G1", until=T)
    stalled: dict[str, Any] = {"utilization_ratio": 0.5, "utilization_zero_ratio": 0.5, "sm_active_ratio": 0.45}
    fleet.sample("n1", "G1", T, T + 2 * HOUR, **stalled)
    told(fleet, "ml/trainer-0", T, T + 2 * HOUR)
    named(fleet, UID, NAME)
    seen(fleet, UID, "G1", T, T + 2 * HOUR)
    spans = range(T, T + 2 * HOUR, 5 * MINUTE)
    workers = {"node": "n1", "run_id": UID, "gpu_uuid": "G1", "workers": 4, "workers_busiest_cpu_ratio": 0.98}
    fleet.add("process_samples", [workers | {"started_at": at, "ended_at": at + 5 * MINUTE} for at in spans])
    yield
    assert fleet.states(RUN)["starved", "preprocessing"] > 0


@TOGETHER
def test_a_rack_from_labels_outlives_an_agent_that_knows_none(fleet: Fleet) -> Iterator[None]:
    """The agent of a restarted host tells its size again, and no rack."""
    works(fleet, "G1")
    told(fleet, "ml/trainer-0", T, T + HOUR)
    named(fleet, UID)
    seen(fleet, UID, "G1", T, T + HOUR)
    fleet.add("inventory", [{"node": "n1", "started_at": T, "ended_at": T + 1, "rack": "r7"}])
    fleet.add("inventory", [{"node": "n1", "started_at": T + HOUR, "ended_at": T + HOUR + 1, "cpu_cores": 64}])
    yield
    assert facts(fleet, "racks") == [(1,)]


def test_what_hosts_call_by_another_name_is_no_run_without_a_team() -> None:
    """Else every pod were a line of its own among the runs that say nothing of themselves."""
    fleet = works(Fleet(), "G1")
    told(fleet, "ml/trainer-0", T, T + HOUR)
    named(fleet, UID, NAME)
    seen(fleet, UID, "G1", T, T + HOUR)
    with fleet.store.session() as session:
        assert [(run.run_id, run.user) for run in identities(session)] == [(RUN, "ada")]


@TOGETHER
def test_placement_knows_a_run_s_hosts_from_its_pods(fleet: Fleet) -> Iterator[None]:
    """Only agents know on which GPUs a run stands, and they call it by its pods."""
    works(fleet, "G1")
    told(fleet, "ml/trainer-0", T, T + HOUR)
    named(fleet, UID)
    named(fleet, NAME, run=UID)
    seen(fleet, NAME, "G1", T, T + HOUR)
    yield
    with fleet.store.session() as session:
        placed = read_site(session, T, T + DAY).runs
    end = fleet.names_end
    own = {run_id: (one.hosts, one.gpus) for run_id, one in placed.items() if run_id.endswith(end)}
    assert own == {f"{RUN}{end}": ((f"n1{end}",), 1)}
