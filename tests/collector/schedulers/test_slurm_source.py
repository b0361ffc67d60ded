"""From one poll to the next: what is new is landed, once, and nothing else."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from collector.errors import SchedulerError
from collector.schedulers.books import NodeState
from tests.analyzer.ledger.fleet import DAY, HOUR, MINUTE, SECOND
from tests.collector.schedulers.small_cluster import SmallCluster, T, over, running, waiting

RUN = "slurm/alpha/7"
HELD = ("run_id", "attempt", "gpu_uuid", "started_at", "ended_at", "exit_status")


def test_a_job_waits_holds_and_ends(cluster: SmallCluster) -> None:
    """Three words on one job, and each GPU by the name that the driver gives it."""
    cluster.said.jobs = [waiting()]
    assert cluster.poll() == {"allocations": 1}
    assert cluster.allocations("run_id", "pending_reason", "started_at", "requested_gpus") == [
        (RUN, "Priority", None, 2)
    ]
    cluster.said.jobs = [running()]
    cluster.poll()
    began, ended = T + MINUTE, T + 10 * MINUTE
    no_longer_waits = (RUN, 0, None, None, began, None)
    assert cluster.allocations(*HELD) == [
        no_longer_waits,
        (RUN, 0, "n1-0", began, None, None),
        (RUN, 0, "n1-1", began, None, None),
    ]
    cluster.said.jobs, cluster.said.ended = [], [over(state="TIMEOUT")]
    cluster.poll()
    assert cluster.allocations(*HELD) == [
        no_longer_waits,
        (RUN, 0, "n1-0", began, ended, "timeout"),
        (RUN, 0, "n1-1", began, ended, "timeout"),
    ]


def test_asking_again_writes_nothing(cluster: SmallCluster) -> None:
    """A job of a month is asked for forty thousand times, and each row would have its days analysed anew."""
    cluster.said.jobs = [running(), waiting(8)]
    cluster.said.ended = [over(9, nodes=("n2",))]
    cluster.poll()
    for minute in range(30):
        cluster.said.jobs = [running(), waiting(8, priority=1000.0 + minute)]
        assert cluster.poll() == {}


def test_a_restart_writes_nothing_either(cluster: SmallCluster) -> None:
    """What the store was told is read from it, array names and hosts included."""
    task = running(12, array_id=10, task_id=2, gpus=((3,),), requested_gpus=1)
    cluster.said.jobs = [running(), task, waiting(8)]
    cluster.said.hosts = [NodeState("n1", "drained", "bad fan")]
    cluster.poll()
    cluster.restart()
    cluster.said.ended = [over(9, nodes=("n2",))]
    assert cluster.poll() == {"allocations": 1}
    cluster.restart()
    assert cluster.poll() == {}


def test_the_reason_to_wait_is_told_now_and_then(cluster: SmallCluster) -> None:
    """It changes with every pass of the scheduler: ten thousand waiting jobs must not be ten thousand rows a minute."""
    for minute in range(60):
        cluster.said.jobs = [waiting(reason="Resources" if minute % 2 else "Priority")]
        cluster.poll()
    (count,) = cluster.session.row("SELECT count(*) FROM allocations")
    assert 2 <= count <= 7


def test_what_waits_and_is_gone_has_an_end(cluster: SmallCluster) -> None:
    """Otherwise it would wait for ever."""
    cluster.said.jobs = [waiting(), waiting(8)]
    cluster.poll()
    cluster.said.jobs = [replace(waiting(8), phase="ended", state="CANCELLED", ended_at=T + 90 * SECOND)]
    cluster.poll()
    ends = cluster.allocations("run_id", "ended_at", "exit_status")
    assert ends == [(RUN, T + MINUTE, None), ("slurm/alpha/8", T + 90 * SECOND, "cancelled")]


def test_a_job_that_gave_up_unseen_is_not_told(cluster: SmallCluster) -> None:
    """It never held anything, and nobody here has heard of it."""
    cluster.said.ended = [replace(waiting(), phase="ended", state="CANCELLED", ended_at=T + 90 * SECOND)]
    assert cluster.poll() == {}


def test_the_tasks_of_an_array_are_runs_of_their_own(cluster: SmallCluster) -> None:
    """Hosts see a task's own number in its cgroup, and are told whose it is."""
    rest = waiting(10, array_id=10, waiting_tasks="3-6%2", requested_gpus=1)
    tasks = [
        running(10 + task, array_id=10, task_id=task, gpus=((task,),), requested_gpus=1, allocated_gpus=1)
        for task in (1, 2)
    ]
    cluster.said.jobs = [rest, *tasks]
    assert cluster.poll() == {"allocations": 3, "run_aliases": 2}
    assert cluster.allocations("run_id", "parent_run_id", "gpu_uuid", "requested_gpus") == [
        ("slurm/alpha/10", None, None, 4),
        ("slurm/alpha/10_1", "slurm/alpha/10", "n1-1", 1),
        ("slurm/alpha/10_2", "slurm/alpha/10", "n1-2", 1),
    ]
    aliases = cluster.session.rows("SELECT alias_run_id, run_id FROM run_aliases ORDER BY 1")
    assert aliases == [("slurm/alpha/11", "slurm/alpha/10_1"), ("slurm/alpha/12", "slurm/alpha/10_2")]


def test_the_parts_of_a_heterogeneous_job_have_one_parent(cluster: SmallCluster) -> None:
    """People know it by one number, with a plus."""
    cluster.said.jobs = [
        running(5, het_id=5, het_offset=0, gpus=((0,),)),
        running(6, het_id=5, het_offset=1, nodes=("n2",), gpus=((1, 2),)),
    ]
    cluster.poll()
    assert cluster.allocations("run_id", "parent_run_id", "gpu_uuid") == [
        ("slurm/alpha/5+0", "slurm/alpha/5", "n1-0"),
        ("slurm/alpha/5+1", "slurm/alpha/5", "n2-1"),
        ("slurm/alpha/5+1", "slurm/alpha/5", "n2-2"),
    ]


def test_a_requeued_job_has_an_attempt_for_each_start(cluster: SmallCluster) -> None:
    """The first one's end comes from accounting while the second already waits, or runs."""
    cluster.said.jobs = [running(restarts=0)]
    cluster.poll()
    requeued, again = T + 5 * MINUTE, T + 8 * MINUTE
    cluster.said.jobs = [waiting(restarts=1, submitted_at=requeued)]
    cluster.said.ended = [over(state="NODE_FAIL", ended_at=requeued)]
    cluster.poll()
    cluster.said.jobs = [running(restarts=1, submitted_at=requeued, started_at=again, gpus=((2, 3),))]
    cluster.poll()
    held = [row for row in cluster.allocations(*HELD) if row[3]]
    assert held == [
        (RUN, 0, "n1-0", T + MINUTE, requeued, "node_failed"),
        (RUN, 0, "n1-1", T + MINUTE, requeued, "node_failed"),
        (RUN, 1, "n1-2", again, None, None),
        (RUN, 1, "n1-3", again, None, None),
    ]
    assert cluster.poll() == {}


def test_attempts_are_counted_where_the_controller_does_not(cluster: SmallCluster) -> None:
    """Accounting tells of three attempts that nobody saw: they are numbered by their starts."""
    starts = [T - HOUR + 10 * minute * MINUTE for minute in range(3)]
    cluster.said.ended = [
        over(state="REQUEUED", started_at=start, ended_at=start + MINUTE, gpus=(None,)) for start in reversed(starts)
    ]
    cluster.poll()
    assert cluster.allocations("attempt", "started_at") == list(enumerate(starts))


def test_a_job_that_came_and_went_between_polls_is_known_by_its_host(cluster: SmallCluster) -> None:
    """Accounting does not say which GPUs; the agents do, and the ledger joins the two."""
    cluster.said.ended = [over()]
    cluster.poll()
    assert cluster.allocations("node", "gpu_uuid", "requested_gpus") == [("n1", None, 2)]


def test_a_job_with_all_gpus_of_its_hosts_is_known_by_them(cluster: SmallCluster) -> None:
    """Where it had all of them there is nothing to ask."""
    cluster.said.ended = [over(nodes=("n1", "n2"), gpus=(None, None), allocated_gpus=8)]
    cluster.poll()
    assert [rank for (rank,) in cluster.allocations("rank")] == list(range(8))


def test_gpus_that_agents_find_late_take_the_place_of_their_host() -> None:
    """The first word is withdrawn: an allocation of no length, or the run would never end."""
    cluster = SmallCluster(hosts=())
    cluster.said.jobs = [running()]
    cluster.poll()
    assert cluster.source.unplaced == 1
    cluster.find("n1.example.org")
    cluster.poll()
    assert cluster.source.unplaced == 0
    began = T + MINUTE
    rows = cluster.allocations("gpu_uuid", "started_at", "ended_at")
    assert rows == [("n1.example.org-0", began, None), ("n1.example.org-1", began, None), (None, began, began)]
    cluster.close()


def test_hosts_with_mig_are_left_to_their_agents(cluster: SmallCluster) -> None:
    """How Slurm numbers instances depends on its gres.conf: a guess could book one run's time to another."""
    columns = ("node", "started_at", "ended_at", "gpu_uuid", "parent_uuid", "batch")
    cluster.session.load("inventory", columns, [["n1", T, T + 1, "MIG-1", "n1-0", 0]])
    cluster.said.jobs = [running()]
    cluster.poll()
    assert cluster.allocations("node", "gpu_uuid") == [("n1", None)]


def test_a_chain_of_jobs_is_one_piece_of_work(cluster: SmallCluster) -> None:
    """Slurm forgets a dependency when it is met, so it is learned while the job waits and kept when it runs."""
    cluster.said.jobs = [
        running(),
        waiting(8, dependency="afterany:7(unfulfilled)"),
        waiting(9, dependency="afterok:7"),
    ]
    cluster.poll()
    cluster.poll()
    cluster.said.jobs = [running(8, nodes=("n2",), submitted_at=T)]
    cluster.said.ended = [over()]
    cluster.poll()
    restarts = {row[0]: row[1] for row in cluster.allocations("run_id", "restarts_of", "started_at") if row[2]}
    assert restarts == {RUN: None, "slurm/alpha/8": RUN}


def test_a_job_that_only_waits_for_another_of_a_different_name_continues_nothing(cluster: SmallCluster) -> None:
    """An evaluation after a training is no restart of it."""
    cluster.said.jobs = [running(), waiting(8, name="evaluate", dependency="afterany:7(unfulfilled)")]
    cluster.poll()
    cluster.poll()
    assert {row for (row,) in cluster.allocations("restarts_of")} == {None}


def test_accounting_has_time_to_say_how_a_job_ended(cluster: SmallCluster) -> None:
    """Its daemon may lag behind; only after ten minutes is a job said to have ended nobody knows how."""
    cluster.said.jobs = [running()]
    cluster.poll()
    cluster.said.jobs = []
    assert cluster.poll() == {}
    cluster.poll(T + 20 * MINUTE)
    assert [row[4:] for row in cluster.allocations(*HELD)] == [(T + MINUTE, None)] * 2
    cluster.said.ended = [over()]
    cluster.poll()
    assert [row[4:] for row in cluster.allocations(*HELD)] == [(T + 10 * MINUTE, "completed")] * 2


def test_without_accounting_an_end_is_when_it_was_last_seen(cluster: SmallCluster) -> None:
    """A cluster may have none: the controller itself tells of ends for some minutes, and then only silence does."""
    cluster.said.accounting = False
    cluster.said.jobs = [running(), running(8, gpus=((2,),))]
    cluster.poll()
    cluster.poll()
    cluster.said.jobs = [over(state="FAILED")]
    cluster.poll()
    ends = {row[0]: row[4:] for row in cluster.allocations(*HELD)}
    assert ends == {RUN: (T + 10 * MINUTE, "failed"), "slurm/alpha/8": (T + 2 * MINUTE, None)}


def test_accounting_is_asked_for_what_was_missed(cluster: SmallCluster) -> None:
    """After a night without a collector it tells of the night; after a year, of two weeks."""
    cluster.said.jobs = [running()]
    cluster.poll()
    cluster.restart()
    cluster.poll(T + DAY)
    cluster.poll(T + DAY + 365 * DAY)
    first, night, year = cluster.said.asked_since
    assert first == T - HOUR - 10 * MINUTE
    assert night == T + MINUTE - 10 * MINUTE
    assert year == T + DAY + 351 * DAY


def test_running_jobs_of_accounting_are_not_believed(cluster: SmallCluster) -> None:
    """Those of a controller that was lost run there for ever."""
    cluster.said.ended = [running()]
    assert cluster.poll() == {}


def test_a_controller_that_is_down_says_nothing_of_jobs(cluster: SmallCluster) -> None:
    """Its silence ends no job."""
    cluster.said.jobs = [running()]
    cluster.poll()
    cluster.said.controller = False
    with pytest.raises(SchedulerError, match="Unable to contact"):
        cluster.poll()
    assert [row[4] for row in cluster.allocations(*HELD)] == [None, None]


@pytest.fixture
def hosts() -> Iterator[SmallCluster]:
    """Return a cluster that is asked for its hosts alone."""
    cluster = SmallCluster(hosts=())
    yield cluster
    cluster.close()


def states(cluster: SmallCluster) -> list[tuple[object, ...]]:
    """Return what was told of the hosts, in minutes from the start."""
    return cluster.session.rows(
        "SELECT node, (started_at - $t) // 60000000, (ended_at - $t) // 60000000, state, reason FROM node_states "
        "ORDER BY node, started_at",
        {"t": T},
    )


def test_a_host_s_states_abut(hosts: SmallCluster) -> None:
    """A change ends one interval where it begins the next, and a long one is told in pieces."""
    for minute in range(1, 41):
        bad = 5 < minute <= 28
        hosts.said.hosts = [NodeState("n1", "drained", "fan") if bad else NodeState("n1", "up")]
        hosts.poll()
    assert states(hosts) == [
        ("n1", 1, 6, "up", None),
        ("n1", 6, 16, "drained", "fan"),
        ("n1", 16, 26, "drained", "fan"),
        ("n1", 26, 29, "drained", "fan"),
    ]
    hosts.batch_commit.land(hosts.source.closing(hosts.now))
    assert states(hosts)[-1] == ("n1", 29, 40, "up", None)


def test_a_silence_of_the_controller_is_no_state(hosts: SmallCluster) -> None:
    """For an hour nobody knows whether the host was up."""
    hosts.said.hosts = [NodeState("n1", "up")]
    hosts.poll()
    hosts.poll()
    hosts.poll(T + 63 * MINUTE)
    hosts.batch_commit.land(hosts.source.closing(hosts.now))
    hosts.poll(T + 64 * MINUTE)
    hosts.batch_commit.land(hosts.source.closing(hosts.now))
    assert states(hosts) == [("n1", 63, 64, "up", None)]


def test_a_reason_that_is_older_than_the_silence_fills_it(hosts: SmallCluster) -> None:
    """Slurm says since when a host is out of service, though nobody asked at the time."""
    hosts.said.hosts = [NodeState("n1", "down", "psu", T - 30 * MINUTE)]
    hosts.poll()
    hosts.poll(T + 63 * MINUTE)
    assert states(hosts) == [("n1", -30, 1, "down", "psu"), ("n1", 1, 63, "down", "psu")]


def test_a_number_that_slurm_gives_again_is_another_run(cluster: SmallCluster) -> None:
    """Its counter was reset: what bob runs is none of ada's, though both are 7."""
    cluster.said.jobs = [running()]
    cluster.poll(T + 2 * MINUTE)
    cluster.said.jobs, cluster.said.ended = [], [over()]
    cluster.poll(T + 11 * MINUTE)
    began = T + 60 * MINUTE
    cluster.said.jobs = [running(user="bob", name="md", submitted_at=began, started_at=began, gpus=((2, 3),))]
    cluster.poll(T + 61 * MINUTE)
    cluster.said.jobs = []
    cluster.said.ended = [
        over(user="bob", name="md", submitted_at=began, started_at=began, ended_at=began + 5 * MINUTE)
    ]
    cluster.poll(T + 70 * MINUTE)
    again = f"slurm/alpha/7@{began // 1_000_000}"
    assert cluster.allocations("run_id", '"user"', "gpu_uuid", "attempt", "ended_at") == [
        ("slurm/alpha/7", "ada", "n1-0", 0, T + 10 * MINUTE),
        ("slurm/alpha/7", "ada", "n1-1", 0, T + 10 * MINUTE),
        (again, "bob", "n1-2", 0, began + 5 * MINUTE),
        (again, "bob", "n1-3", 0, began + 5 * MINUTE),
    ]


def test_what_a_job_gives_back_was_its_own_until_then(cluster: SmallCluster) -> None:
    """It is resized: the record of how it was has ended, and the GPUs that it gave back were held until now."""
    cluster.said.jobs = [running(nodes=("n1", "n2"), gpus=((0, 1), (0, 1)), allocated_gpus=4)]
    cluster.poll(T + 2 * MINUTE)
    cluster.said.jobs = [running()]
    resized = T + 5 * MINUTE
    until = over(state="RESIZING", ended_at=resized, nodes=("n1", "n2"), gpus=(None, None), allocated_gpus=4)
    cluster.said.ended = [until]
    cluster.poll(T + 6 * MINUTE)
    assert cluster.allocations("gpu_uuid", "ended_at", "gpu_fraction") == [
        ("n1-0", None, None),
        ("n1-1", None, None),
        ("n2-0", T + 6 * MINUTE, None),
        ("n2-1", T + 6 * MINUTE, None),
    ]
    cluster.said.jobs = []
    cluster.said.ended = [until, over(submitted_at=resized, started_at=resized)]
    cluster.poll(T + 11 * MINUTE)
    held = cluster.allocations("gpu_uuid", "started_at", "ended_at")
    assert all(gpu_fraction is None for (gpu_fraction,) in cluster.allocations("gpu_fraction"))
    assert sorted(row for row in held if row[0] == "n1-0") == [
        ("n1-0", T + MINUTE, resized),
        ("n1-0", resized, T + 10 * MINUTE),
    ]
    assert [row[1:] for row in held if row[0] == "n2-0"] == [(T + MINUTE, resized)]


def test_where_slurm_counts_gpus_in_another_order_its_numbers_name_none(cluster: SmallCluster) -> None:
    """The agent sees job 7 on two other GPUs than the driver's order of Slurm's numbers: it is right, and of job 8,
    which nobody saw, nothing is known but its host.
    """
    cluster.said.jobs = [running(), running(8, gpus=((2, 3),))]
    cluster.poll(T + 2 * MINUTE)
    names = ("run_id", "node", "gpu_uuid", "started_at", "scheduler", "batch")
    seen = [["slurm/alpha/7", "n1", f"n1-{index}", T + MINUTE, "cgroup", 0] for index in (2, 3)]
    cluster.session.load("allocations", names, seen)
    cluster.poll(T + 3 * MINUTE)
    rows = cluster.allocations("run_id", "gpu_uuid", "gpu_fraction", "scheduler")
    standing = [row[:2] for row in rows if row[2] is None and row[3] == "slurm"]
    assert sorted(standing, key=str) == [
        ("slurm/alpha/7", "n1-2"),
        ("slurm/alpha/7", "n1-3"),
        ("slurm/alpha/8", None),
    ]
    assert cluster.source.unplaced == 1
