"""What Slurm's accounting says of a month becomes allocations on the GPUs of an imported store, each once."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.importing.known_allocations import Sighting
from collector.importing.placing import gpus_by_host
from collector.schedulers.slurm.nodes import Event
from tests.analyzer.ledger.fleet import DAY, HOUR, MINUTE
from tests.collector.importing.site import Site, T, job

HELD = ("run_id", "gpu_uuid", "json_extract_string(labels, 'placement')")


def test_a_job_on_a_whole_host_holds_each_of_its_gpus(site: Site) -> None:
    """Nothing is guessed, and nothing is marked."""
    site.accounted = [job(7, 1, 3, 8, "n1", "n2")]
    brought = site.bring()
    held = site.allocations("gpu_uuid", "rank", "started_at", "ended_at", "labels", "account", "exit_status", "attempt")
    assert [row[:2] for row in held] == [(f"n{1 + at // 4}-{at % 4}", at) for at in range(8)]
    assert {row[2:] for row in held} == {(T + HOUR, T + 3 * HOUR, None, "vision", "completed", 0)}
    assert brought.grounds == {"whole": 8 * 2 * HOUR // 1000}


def test_part_of_a_host_is_where_the_samples_say(site: Site) -> None:
    """Slurm's accounting counts GPUs; the telemetry of the same time names them."""
    site.watch({"n1-2": [(1.1, 2.9)], "n1-3": [(1.1, 2.9)]})
    site.accounted = [job(7, 1, 3, 2)]
    site.bring()
    assert site.allocations(*HELD) == [("slurm/alpha/7", "n1-2", "seen"), ("slurm/alpha/7", "n1-3", "seen")]


def test_what_no_sample_tells_is_assumed_and_marked(site: Site) -> None:
    """A reader of the ledger must be able to tell it from what is known."""
    site.watch({})
    site.accounted = [job(7, 1, 3, 2), job(8, 2, 4, 1)]
    brought = site.bring()
    assert site.allocations(*HELD) == [
        ("slurm/alpha/7", "n1-0", "assumed"),
        ("slurm/alpha/7", "n1-1", "assumed"),
        ("slurm/alpha/8", "n1-2", "assumed"),
    ]
    assert site.allocations("rank") == [(None,)] * 3
    assert brought.grounds == {"assumed": (2 * 2 + 2) * HOUR // 1000}


def test_a_second_import_adds_nothing(site: Site) -> None:
    """Spans of imports overlap: what is known already is not told again."""
    site.watch({"n1-2": [(1, 3)]})
    site.accounted = [
        job(7, 1, 3, 1),
        job(8, 1, 5, 2),
        job(9, 2, None, 4, "n2"),
        job(10, 6, 8, 1, array_id=10, task_id=3),
    ]
    site.events = [Event("n2", "drained", T + HOUR, None, "bad fan")]
    assert site.bring().new == {"allocations": 8, "run_aliases": 1, "node_states": 1}
    before = site.allocations("*")
    assert not any(site.bring().new.values())
    assert not any(site.bring(since=T + 4 * HOUR).new.values())
    assert site.allocations("*") == before


def test_a_late_end_is_told(site: Site) -> None:
    """What ran when it was last imported has ended since; the GPUs stay those that were found then."""
    site.watch({"n1-2": [(1, 20)]})
    site.accounted = [job(7, 1, None, 1)]
    site.bring(until=T + 10 * HOUR)
    site.accounted = [job(7, 1, 20, 1, state="TIMEOUT")]
    assert site.bring().new["allocations"] == 1
    assert site.allocations("gpu_uuid", "ended_at", "exit_status") == [("n1-2", T + 20 * HOUR, "timeout")]


def test_an_earlier_view_takes_no_end_back(site: Site) -> None:
    """Importing an older span again must not reopen what has ended."""
    site.accounted = [job(7, 1, 20, 4)]
    site.bring()
    assert site.bring(until=T + 10 * HOUR).new["allocations"] == 0
    assert site.allocations("ended_at") == [(T + 20 * HOUR,)] * 4


def test_history_ends_where_it_is_said_to(site: Site) -> None:
    """Beyond the telemetry's end nothing was measured, and nothing may be claimed."""
    site.accounted = [job(7, 1, 20, 4), job(8, 12, 13, 4, "n2")]
    site.bring(until=T + 10 * HOUR)
    assert site.allocations("run_id", "ended_at", "exit_status") == [("slurm/alpha/7", None, None)] * 4


def test_the_queue_names_what_runs_now(site: Site) -> None:
    """Only squeue knows numbers of GPUs, and only while they are held; the driver's names are in the inventory."""
    site.accounted = [job(7, 1, None, 2)]
    site.queued = [job(7, 1, None, 2, gpus=((1, 3),))]
    site.bring()
    assert site.allocations(*HELD) == [("slurm/alpha/7", "n1-1", None), ("slurm/alpha/7", "n1-3", None)]


def test_an_exporter_that_names_the_job_is_believed(site: Site) -> None:
    """dcgm-exporter's label hpc_job bears the number that the host knows."""
    site.accounted = [job(12, 1, 3, 1, array_id=10, task_id=2)]
    site.bring(sightings=(Sighting("slurm/alpha/12", "n1-3", T + HOUR, T + 3 * HOUR),))
    assert site.allocations(*HELD) == [("slurm/alpha/10_2", "n1-3", None)]


def test_an_agent_that_saw_the_job_is_believed(site: Site) -> None:
    """Its hosts' word lies in the store, under the number of the cgroup."""
    site.fleet.hold("slurm/alpha/7", "n1", ["n1-1"], T + HOUR, T + 3 * HOUR, scheduler="cgroup")
    site.accounted = [job(7, 1, 3, 1)]
    site.bring()
    assert site.allocations(*HELD, "scheduler") == [("slurm/alpha/7", "n1-1", None, "slurm")]


def test_what_an_agent_saw_counts_more_than_a_number(site: Site) -> None:
    """Slurm counts GPUs in the order of its gres.conf, the driver in its own: a job of two GPUs holds two."""
    for index in (2, 3):
        site.fleet.hold("slurm/alpha/7", "n1", [f"n1-{index}"], T + HOUR, T + 20 * HOUR, scheduler="cgroup")
    site.accounted = [job(7, 1, None, 2)]
    site.queued = [job(7, 1, None, 2, gpus=((0, 1),))]
    site.bring()
    assert [row[:2] for row in site.allocations(*HELD, "scheduler") if row[3] == "slurm"] == [
        ("slurm/alpha/7", "n1-2"),
        ("slurm/alpha/7", "n1-3"),
    ]


def test_what_another_import_placed_is_not_given_to_others(site: Site) -> None:
    """A second import knows of other jobs; the first one's GPUs are taken all the same."""
    site.accounted = [job(7, 1, 5, 2)]
    site.bring()
    site.accounted = [job(8, 2, 4, 2)]
    site.bring()
    assert site.allocations(*HELD[:2])[2:] == [("slurm/alpha/8", "n1-2"), ("slurm/alpha/8", "n1-3")]


def test_better_evidence_moves_what_was_assumed(site: Site) -> None:
    """Slurm first, telemetry later: the assumption is taken back where the samples name another GPU."""
    site.accounted = [job(7, 1, 3, 1)]
    site.bring()
    assert site.allocations(*HELD) == [("slurm/alpha/7", "n1-0", "assumed")]
    site.watch({"n1-2": [(1, 3)]})
    assert site.bring().new["allocations"] == 2
    assert site.allocations(*HELD) == [("slurm/alpha/7", "n1-2", "seen")]


def test_a_job_that_nobody_believes_to_run_is_left_out_and_told(site: Site) -> None:
    """A controller that was lost leaves jobs that run for ever; each would hold its GPUs to the end of time."""
    site.accounted = [job(7, 1, None, 4), job(8, 2, None, 4, "n2")]
    site.queued = [job(8, 2, None, 4, "n2", gpus=((0, 1, 2, 3),))]
    brought = site.bring()
    assert brought.runs == {"slurm/alpha/8"}
    assert brought.history.notes == (
        "1 jobs run in accounting and are not in the queue: left out; sacctmgr show runawayjobs corrects them",
    )


def test_without_a_queue_a_job_past_its_limit_is_not_believed(site: Site) -> None:
    """Slurm ends a job at its limit, so that it cannot have run a day longer."""
    site.accounted = [job(7, 1, None, 4, time_limit_seconds=3600.0), job(8, 2, None, 4, "n2", time_limit_seconds=1e6)]
    assert site.bring().runs == {"slurm/alpha/8"}


def test_a_requeued_job_has_an_attempt_for_each_start(site: Site) -> None:
    """Accounting keeps a record for each, and counts none of them."""
    site.accounted = [job(7, 1, 3, 4, state="NODE_FAIL"), job(7, 4, 6, 4)]
    site.bring()
    assert sorted(set(site.allocations("attempt", "started_at", "exit_status"))) == [
        (0, T + HOUR, "node_failed"),
        (1, T + 4 * HOUR, "completed"),
    ]


def test_hosts_without_telemetry_are_told_as_hosts(site: Site) -> None:
    """Their jobs are no GPU's, and the summary says how many they are."""
    site.accounted = [job(7, 1, 3, 4, "m1"), job(8, 1, 3, 0), job(9, 1, 3, 6)]
    brought = site.bring()
    assert site.allocations("run_id", "node", "gpu_uuid", "requested_gpus")[:2] == [
        ("slurm/alpha/7", "m1", None, 4),
        ("slurm/alpha/8", "n1", None, 0),
    ]
    assert brought.unplaced == {
        "on hosts without metrics, so not assigned to a GPU": 1,
        "with parts of GPUs (MIG, shards, MPS), not assigned to a GPU": 1,
        "with GPUs that no metric shows": 1,
    }


def test_names_of_hosts_are_those_of_the_telemetry(site: Site) -> None:
    """Slurm calls a host n1 and Prometheus n1.example.org: it is one host, or its GPUs would be nobody's."""
    site.accounted = [job(7, 1, 3, 4, "n1.example.org")]
    site.bring()
    assert {row[0] for row in site.allocations("node")} == {"n1"}


def test_states_of_hosts_last_as_long_as_they_did(site: Site) -> None:
    """A drain that goes on is told from where the last import left it."""
    site.events = [Event("n2", "drained", T - DAY, None, "bad fan"), Event("n1", "down", T + HOUR, T + 2 * HOUR, None)]
    site.bring(until=T + 10 * HOUR)
    site.events[0] = replace(site.events[0], ended_at=T + 12 * HOUR)
    site.bring()
    with site.store.session() as session:
        rows = session.rows("SELECT node, state, started_at, ended_at FROM node_states ORDER BY ALL")
    assert rows == [
        ("n1", "down", T + HOUR, T + 2 * HOUR),
        ("n2", "drained", T, T + 10 * HOUR),
        ("n2", "drained", T + 10 * HOUR, T + 12 * HOUR),
    ]


def test_who_waits_is_told_until_it_waits_no_more(site: Site) -> None:
    """A queue that was imported once must not wait for ever."""
    waits = job(9, 20, None, 2, phase="waiting", state="PENDING", started_at=None, nodes=(), gpus=(), reason="Priority")
    site.queued = [waits]
    site.bring()
    assert site.allocations("run_id", "started_at", "ended_at", "pending_reason") == [
        ("slurm/alpha/9", None, None, "Priority")
    ]
    assert not any(site.bring().new.values())
    site.queued = []
    site.accounted = [job(9, 20, 21, 2)]
    site.bring()
    assert site.allocations("started_at", "ended_at")[0] == (None, T + 20 * HOUR)


def test_the_ledger_books_what_was_placed(site: Site) -> None:
    """The end of it all: hours of GPUs with a holder."""
    site.watch({"n1-2": [(1, 3)], "n1-3": [(1, 3)]})
    site.accounted = [job(7, 1, 3, 2), job(8, 10, 12, 4, "n2")]
    site.bring()
    site.fleet.analyze()
    assert sum(site.fleet.states("slurm/alpha/7").values()) == 2 * 2 * HOUR // 1000
    idle = site.fleet.states("slurm/alpha/8")
    assert idle == {
        ("starting", "model_load"): 4 * 15 * MINUTE // 1000,
        ("held_idle", "never_used"): 4 * 105 * MINUTE // 1000,
    }


@pytest.mark.parametrize(
    ("total", "sizes", "wanted"),
    [
        (8, [8], [8]),
        (12, [8, 4], [8, 4]),
        (4, [8, 8], [2, 2]),
        (5, [8, 8], [3, 2]),
        (10, [8, 4], [6, 4]),
        (3, [0, 0], [2, 1]),
        (None, [8], [0]),
    ],
)
def test_a_jobs_gpus_are_shared_out_over_its_hosts(total: int | None, sizes: list[int], wanted: list[int]) -> None:
    """Accounting knows the sum alone."""
    assert gpus_by_host(total, sizes) == wanted


@given(st.integers(0, 100), st.lists(st.integers(1, 16), min_size=1, max_size=8))
def test_shares_sum_to_the_whole_and_fit(total: int, sizes: list[int]) -> None:
    """No GPU is made up, and none is lost that there is room for."""
    found = gpus_by_host(total, sizes)
    assert sum(found) == total
    assert total > sum(sizes) or all(0 <= count <= size for count, size in zip(found, sizes, strict=True))
