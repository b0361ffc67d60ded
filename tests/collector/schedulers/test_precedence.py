"""The scheduler's word goes before the hosts' for the same GPU and time, by whatever name they know the run."""

from typing import Any

from tests.analyzer.ledger.fleet import HOUR, MINUTE, MONDAY, SECOND, Fleet

T = MONDAY
TASK, RAW = "slurm/alpha/81234_2", "slurm/alpha/81236"
STALLED: dict[str, Any] = {"utilization_ratio": 0.5, "utilization_zero_ratio": 0.5, "sm_active_ratio": 0.45}


def held(fleet: Fleet) -> dict[str | None, int]:
    """Return the seconds of the ledger by holder."""
    fleet.analyze()
    with fleet.store.session() as session:
        rows = session.rows("SELECT run_id, (sum(milliseconds) // 1000)::BIGINT FROM ledger GROUP BY ALL")
    return dict(rows)


def one_gpu(until: int = T + HOUR) -> Fleet:
    """Return a fleet of one GPU that works until then."""
    fleet = Fleet()
    fleet.own("n1", ["G1"])
    fleet.sample("n1", "G1", T, until)
    return fleet


def test_the_scheduler_goes_before_the_cgroup() -> None:
    """Accounting is what people are charged by; two sources that disagree must not share the GPU between them."""
    fleet = one_gpu()
    fleet.hold("slurm/alpha/2", "n1", ["G1"], T, T + HOUR, scheduler="cgroup")
    fleet.hold("slurm/alpha/1", "n1", ["G1"], T, T + HOUR)
    assert held(fleet) == {"slurm/alpha/1": 3600}


def test_the_cgroup_speaks_where_the_scheduler_does_not_know_which_gpu() -> None:
    """A job that came and went between two polls is known to accounting by its host alone."""
    fleet = one_gpu()
    fleet.add(
        "allocations", [{"run_id": TASK, "node": "n1", "started_at": T, "ended_at": T + HOUR, "scheduler": "slurm"}]
    )
    fleet.add("run_aliases", [{"alias_run_id": RAW, "run_id": TASK}])
    fleet.hold(RAW, "n1", ["G1"], T, T + HOUR, scheduler="cgroup")
    assert held(fleet) == {TASK: 3600}


def test_a_host_that_learns_late_of_an_end_does_not_prolong_it() -> None:
    """Readings are ten seconds apart: each job would hold its GPU for some seconds more than its scheduler says."""
    fleet = one_gpu()
    fleet.hold(TASK, "n1", ["G1"], T, T + 30 * MINUTE)
    fleet.add("run_aliases", [{"alias_run_id": RAW, "run_id": TASK}])
    fleet.hold(RAW, "n1", ["G1"], T + 5 * SECOND, T + 30 * MINUTE + 12 * SECOND, scheduler="cgroup")
    assert held(fleet) == {TASK: 1800, None: 1800}


def test_processes_that_outlive_their_job_still_hold() -> None:
    """A GPU that a dead job's process keeps for half an hour is not free, whatever the scheduler believes."""
    fleet = one_gpu()
    fleet.hold("slurm/alpha/1", "n1", ["G1"], T, T + 20 * MINUTE)
    fleet.hold("slurm/alpha/1", "n1", ["G1"], T, T + 50 * MINUTE, scheduler="cgroup")
    assert held(fleet) == {"slurm/alpha/1": 3000, None: 600}


def test_what_hosts_say_of_an_array_task_by_its_number_is_the_task_s() -> None:
    """An agent without rights sees job_81236 in the cgroup, and the evidence of it belongs to 81234_2."""
    fleet = one_gpu(T)
    fleet.sample("n1", "G1", T, T + 2 * HOUR, **STALLED)
    fleet.hold(TASK, "n1", ["G1"], T, T + 2 * HOUR)
    fleet.add("run_aliases", [{"alias_run_id": RAW, "run_id": TASK}])
    spans = range(T, T + 2 * HOUR, 5 * MINUTE)
    workers = {"node": "n1", "run_id": RAW, "gpu_uuid": "G1", "workers": 4, "workers_busiest_cpu_ratio": 0.98}
    fleet.add("process_samples", [workers | {"started_at": at, "ended_at": at + 5 * MINUTE} for at in spans])
    fleet.analyze()
    assert fleet.states(TASK)["starved", "preprocessing"] > 0


def test_a_name_that_is_learned_late_changes_what_was_booked() -> None:
    """The owner of a pod may be known only after its hours were analysed: a name leads to a name."""
    fleet = one_gpu()
    fleet.hold("kubernetes/prod/ml.trainer-0", "n1", ["G1"], T, T + HOUR, scheduler="cgroup")
    assert held(fleet) == {"kubernetes/prod/ml.trainer-0": 3600}
    uid = "kubernetes/prod/8f14e45f"
    fleet.add("run_aliases", [{"alias_run_id": "kubernetes/prod/ml.trainer-0", "run_id": uid}])
    fleet.add("run_aliases", [{"alias_run_id": uid, "run_id": "kubernetes/prod/owner"}])
    assert held(fleet) == {"kubernetes/prod/owner": 3600}
