"""The scheduler's word goes before the hosts' for the same GPU and time, by whatever name they know the run."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.analyzer.ledger.copies import OnePass
from tests.analyzer.ledger.fleet import HOUR, MINUTE, MONDAY, SECOND, Fleet

T = MONDAY
TASK, RAW = "slurm/alpha/81234_2", "slurm/alpha/81236"
TOGETHER = OnePass()
STALLED: dict[str, Any] = {"utilization_ratio": 0.5, "utilization_zero_ratio": 0.5, "sm_active_ratio": 0.45}


def booked(fleet: Fleet) -> dict[str | None, int]:
    """Return the seconds of the ledger by holder."""
    ours, values = fleet._ours(None)
    with fleet.store.session() as session:
        rows = session.rows(
            f"SELECT run_id, (sum(milliseconds) // 1000)::BIGINT FROM ledger WHERE {ours} GROUP BY ALL", values
        )
    return {run and run.removesuffix(fleet.names_end): seconds for run, seconds in rows}


def held(fleet: Fleet) -> dict[str | None, int]:
    """Make the ledger, and return its seconds by holder."""
    fleet.analyze()
    return booked(fleet)


def one_gpu(until: int = T + HOUR, fleet: Fleet | None = None) -> Fleet:
    """Return a fleet of one GPU that works until then."""
    fleet = fleet or Fleet()
    fleet.own("n1", ["G1"])
    fleet.sample("n1", "G1", T, until)
    return fleet


@TOGETHER
def test_the_scheduler_goes_before_the_cgroup(fleet: Fleet) -> Iterator[None]:
    """Accounting is what people are charged by; two sources that disagree must not share the GPU between them."""
    one_gpu(fleet=fleet)
    fleet.hold("slurm/alpha/2", "n1", ["G1"], T, T + HOUR, scheduler="cgroup")
    fleet.hold("slurm/alpha/1", "n1", ["G1"], T, T + HOUR)
    yield
    assert booked(fleet) == {"slurm/alpha/1": 3600}


@TOGETHER
def test_the_cgroup_speaks_where_the_scheduler_does_not_know_which_gpu(fleet: Fleet) -> Iterator[None]:
    """A job that came and went between two polls is known to accounting by its host alone."""
    one_gpu(fleet=fleet)
    fleet.add(
        "allocations", [{"run_id": TASK, "node": "n1", "started_at": T, "ended_at": T + HOUR, "scheduler": "slurm"}]
    )
    fleet.add("run_aliases", [{"alias_run_id": RAW, "run_id": TASK}])
    fleet.hold(RAW, "n1", ["G1"], T, T + HOUR, scheduler="cgroup")
    yield
    assert booked(fleet) == {TASK: 3600}


@TOGETHER
def test_a_host_that_learns_late_of_an_end_does_not_prolong_it(fleet: Fleet) -> Iterator[None]:
    """Readings are ten seconds apart: each job would hold its GPU for some seconds more than its scheduler says."""
    one_gpu(fleet=fleet)
    fleet.hold(TASK, "n1", ["G1"], T, T + 30 * MINUTE)
    fleet.add("run_aliases", [{"alias_run_id": RAW, "run_id": TASK}])
    fleet.hold(RAW, "n1", ["G1"], T + 5 * SECOND, T + 30 * MINUTE + 12 * SECOND, scheduler="cgroup")
    yield
    assert booked(fleet) == {TASK: 1800, None: 1800}


@TOGETHER
def test_processes_that_outlive_their_job_still_hold(fleet: Fleet) -> Iterator[None]:
    """A GPU that a dead job's process keeps for half an hour is not free, whatever the scheduler believes."""
    one_gpu(fleet=fleet)
    fleet.hold("slurm/alpha/1", "n1", ["G1"], T, T + 20 * MINUTE)
    fleet.hold("slurm/alpha/1", "n1", ["G1"], T, T + 50 * MINUTE, scheduler="cgroup")
    yield
    assert booked(fleet) == {"slurm/alpha/1": 3000, None: 600}


@TOGETHER
def test_what_hosts_say_of_an_array_task_by_its_number_is_the_task_s(fleet: Fleet) -> Iterator[None]:
    """An agent without rights sees job_81236 in the cgroup, and the evidence of it belongs to 81234_2."""
    one_gpu(T, fleet)
    fleet.sample("n1", "G1", T, T + 2 * HOUR, **STALLED)
    fleet.hold(TASK, "n1", ["G1"], T, T + 2 * HOUR)
    fleet.add("run_aliases", [{"alias_run_id": RAW, "run_id": TASK}])
    spans = range(T, T + 2 * HOUR, 5 * MINUTE)
    workers = {"node": "n1", "run_id": RAW, "gpu_uuid": "G1", "workers": 4, "workers_busiest_cpu_ratio": 0.98}
    fleet.add("process_samples", [workers | {"started_at": at, "ended_at": at + 5 * MINUTE} for at in spans])
    yield
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


AGAIN = f"slurm/alpha/7@{(T + 40 * MINUTE) // 1_000_000}"
PLAIN = "slurm/alpha/7"


def told_of_hosts(fleet: Fleet, run_id: str, node: str, start: int, end: int | None) -> None:
    """Say what accounting does: on which host a job was, and on none of its GPUs."""
    said = {"run_id": run_id, "node": node, "started_at": start, "ended_at": end, "scheduler": "slurm"}
    fleet.add("allocations", [said])


def test_a_number_that_is_given_again_is_whose_it_then_is_on_hosts_too() -> None:
    """Cgroups bear the number alone, and so does what a service or a run tells of itself."""
    fleet = one_gpu()
    told_of_hosts(fleet, PLAIN, "n1", T, T + 30 * MINUTE)
    told_of_hosts(fleet, AGAIN, "n1", T + 40 * MINUTE, T + HOUR)
    fleet.hold(PLAIN, "n1", ["G1"], T, T + 30 * MINUTE, scheduler="cgroup")
    fleet.hold(PLAIN, "n1", ["G1"], T + 40 * MINUTE + 5 * SECOND, T + HOUR, scheduler="cgroup")
    served = {"node": "n1", "run_id": PLAIN, "requests": 5}
    for at in (T + 10 * MINUTE, T + 50 * MINUTE):
        fleet.add("service_samples", [served | {"started_at": at, "ended_at": at + MINUTE}])
    assert held(fleet) == {PLAIN: 1800, None: 605, AGAIN: 1195}
    with fleet.store.session() as session:
        assert session.rows("SELECT run_id, requests FROM served_amounts ORDER BY ALL") == [(PLAIN, 5), (AGAIN, 5)]


@pytest.mark.parametrize("has_own_keys", [False, True])
def test_a_number_that_two_have_at_once_is_told_apart_by_its_hosts(*, has_own_keys: bool) -> None:
    """A database was restored while jobs ran: their numbers come again beside them."""
    of = [{"told_by": node} if has_own_keys else {} for node in ("n1", "n2")]
    fleet = one_gpu()
    fleet.own("n2", ["G2"])
    fleet.sample("n2", "G2", T, T + HOUR)
    told_of_hosts(fleet, PLAIN, "n1", T, T + HOUR)
    told_of_hosts(fleet, AGAIN, "n2", T + 40 * MINUTE, T + HOUR)
    fleet.hold(PLAIN, "n1", ["G1"], T + 50 * MINUTE, T + HOUR, scheduler="cgroup", **of[0])
    fleet.hold(PLAIN, "n2", ["G2"], T + 41 * MINUTE, T + HOUR, scheduler="cgroup", **of[1])
    assert held(fleet) == {PLAIN: 600, AGAIN: 1140, None: 3000 + 2460}


def test_hosts_alone_tell_a_number_that_is_given_again_by_who_runs_there() -> None:
    """Without accounting the user says that it is other work; a user.s may be the same, and root is nobody."""
    fleet = one_gpu(T + 2 * HOUR)
    for start, user in ((0, "ada"), (20, "ada"), (40, "bob"), (60, "root"), (80, None)):
        begin = T + start * MINUTE
        fleet.hold(PLAIN, "n1", ["G1"], begin, begin + 10 * MINUTE, scheduler="cgroup", user=user)
    assert held(fleet) == {PLAIN: 1200, AGAIN: 1800, None: 4200}


def test_who_cannot_be_seen_is_nobody_known_and_not_nobody() -> None:
    """A GPU whose process its host's /proc hides is not free; where somebody is known, it is that one's."""
    fleet = one_gpu()
    fleet.hold("process/n1/hidden", "n1", ["G1"], T, T + 40 * MINUTE, scheduler="process", name=None)
    fleet.hold("slurm/alpha/1", "n1", ["G1"], T, T + 10 * MINUTE)
    assert held(fleet) == {"slurm/alpha/1": 600, None: 3000}
    nobody = {key: ms // 1000 for key, ms in fleet.states().items() if key[0] in ("unobserved", "unallocated")}
    assert nobody == {("unobserved", "holder_hidden"): 1800, ("unallocated", "free"): 1200}
    with fleet.store.session() as session:
        assert session.rows("SELECT run_id FROM runs") == [("slurm/alpha/1",)]
