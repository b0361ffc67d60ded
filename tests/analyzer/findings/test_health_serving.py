"""Notices of services: each rule says its number where it holds, nothing where it does not, and what it lacked."""

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from analyzer.findings.health.all_notices import notices_in
from analyzer.findings.health.notice import Notice, Span
from analyzer.findings.health.services import SERVICE_RULES, ServiceFigures, ServiceRule, Starts, start_notices
from analyzer.settings.settings import Settings
from collector.store.database import Store
from tests.analyzer.ledger.copies import OnePass
from tests.analyzer.ledger.fleet import DAY, HOUR, MINUTE, Fleet
from tests.analyzer.ledger.serving_services import RESTS, T, declared, replica, says

END = T + 2 * HOUR
WELL = ServiceFigures("chat", None, ("r",), 7_200_000, 7_200_000, 0, 400, 7_200_000, 0, 7_200_000, 0, slo_ms=7_200_000)

one_pass = OnePass()


def noticed(fleet: Fleet, settings: Settings | None = None) -> dict[str, Notice]:
    """Return the notices of services, by the last part of their rule."""
    fleet.analyze(settings=settings)
    return _of_services(_notices(fleet.store))


def told(fleet: Fleet) -> dict[str, Notice]:
    """Return the notices of the services of one of many fleets that were judged together, as above."""
    of_all = _notices_once(fleet.store)
    return _of_services(one for one in of_all if all(run.endswith(fleet.names_end) for run in one.run_ids))


def _of_services(notices: Iterable[Notice]) -> dict[str, Notice]:
    return {notice.rule.removeprefix("serving/"): notice for notice in notices if notice.rule.startswith("serving/")}


def _notices(store: Store) -> tuple[Notice, ...]:
    with store.session() as session:
        return tuple(notices_in(session, T, T + DAY).notices)


_notices_once = cache(_notices)


def serving(busy: float = 0.5, **told: Any) -> Fleet:
    """Return a service of one replica whose stack says the same throughout."""
    return serves(Fleet(), busy, **told)


def serves(fleet: Fleet, busy: float = 0.5, **told: Any) -> Fleet:
    """Add a service of one replica whose stack says the same throughout."""
    replica(fleet, 1, end=END, busy=busy, rate=None)
    says(fleet, 1, T, END, **told)
    return fleet


def processes(fleet: Fleet, busiest: float) -> None:
    """Say how busy the busiest process of the replica was."""
    row = {"node": "n1", "run_id": "slurm/alpha/1", "workers": 4, "workers_busiest_cpu_ratio": busiest}
    fleet.add("process_samples", [row | {"started_at": at, "ended_at": at + MINUTE} for at in range(T, END, MINUTE)])


@one_pass
def test_a_service_that_is_well_is_not_mentioned(fleet: Fleet) -> Iterator[None]:
    """Requests run in batches, nobody waits, the cache has room, first tokens come in time."""
    well = {"requests": 60, "running": 8, "waiting": 0, "kv_cache_ratio": 0.5}
    serves(fleet, 0.9, **well, first_token_seconds_p99=0.2, slo_seconds=1.0)
    processes(fleet, 0.5)
    yield
    assert told(fleet) == {}


@one_pass
def test_a_full_cache_with_a_queue_is_the_limit(fleet: Fleet) -> Iterator[None]:
    """Half of the time: the number is the share, and it is the stack's own word."""
    serves(fleet, 0.99, requests=60, running=8, waiting=0, kv_cache_ratio=0.5)
    says(fleet, 1, T, END, requests=0, running=8, waiting=5, kv_cache_ratio=0.97)
    yield
    (rule, notice), *others = told(fleet).items()
    assert (rule, others) == ("kv_cache_full", [])
    assert "for 50% of the time" in notice.sentence
    assert (notice.confidence, notice.actor) == ("high", "run")


@one_pass
def test_a_full_cache_that_nobody_waits_for_is_well_used(fleet: Fleet) -> Iterator[None]:
    """Prefixes are kept for as long as there is room: full is what a cache should be."""
    serves(fleet, 0.99, requests=60, running=8, waiting=0, kv_cache_ratio=1.0)
    yield
    assert told(fleet) == {}


@one_pass
def test_a_queue_beside_an_idle_gpu_is_not_for_want_of_gpus(fleet: Fleet) -> Iterator[None]:
    """A queue all the time and a GPU without a kernel for 70% of it overlap for 70%."""
    serves(fleet, 0.3, requests=60, running=0, waiting=4)
    yield
    found = told(fleet)
    assert list(found) == ["queue_beside_idle_gpus"]
    assert "for at least 69% of the time" in found["queue_beside_idle_gpus"].sentence  # its first minute worked


@one_pass
def test_a_queue_before_a_busy_gpu_is_its_load(fleet: Fleet) -> Iterator[None]:
    """More requests than it can take is a want of replicas, and another matter."""
    serves(fleet, 0.99, requests=60, running=8, waiting=4)
    yield
    assert told(fleet) == {}


@one_pass
def test_a_full_thread_beside_an_idle_gpu_is_the_limit(fleet: Fleet) -> Iterator[None]:
    """Requests run, no kernel does, and one process fills its core."""
    serves(fleet, 0.3, requests=60, running=8, waiting=0)
    processes(fleet, 1.0)
    yield
    notice = told(fleet)["host_threads"]
    assert notice.evidence[0].seen == "up to 100% of a core"
    assert notice.wrong_if


@one_pass
def test_an_idle_gpu_beside_a_processor_with_room_accuses_no_thread(fleet: Fleet) -> Iterator[None]:
    """Something else holds it up."""
    serves(fleet, 0.3, requests=60, running=8, waiting=0)
    processes(fleet, 0.4)
    yield
    assert "host_threads" not in told(fleet)


def test_an_idle_gpu_without_figures_of_its_host_accuses_no_thread() -> None:
    """Nobody says what holds it up."""
    assert ("serving/host_threads", "not reported: CPU figures of its processes or cgroup") in lacking(
        serving(0.3, requests=60, running=8, waiting=0)
    )


@one_pass
def test_one_request_at_a_time_with_a_queue_is_unbatched(fleet: Fleet) -> Iterator[None]:
    """A busy GPU, one request running, others waiting."""
    serves(fleet, 0.99, requests=60, running=1, waiting=3)
    yield
    found = told(fleet)
    assert list(found) == ["unbatched"]
    assert found["unbatched"].evidence[0].verdict == "<- unbatched"


@one_pass
def test_one_request_at_a_time_without_a_queue_is_the_load(fleet: Fleet) -> Iterator[None]:
    """There is nothing to batch it with."""
    serves(fleet, 0.99, requests=60, running=1, waiting=0)
    yield
    assert told(fleet) == {}


def test_late_answers_while_a_replica_stands_by(tmp_path: Path) -> None:
    """One replica is late and another has nothing to do; what is promised may stand in the policy."""
    fleet = serving(0.99, requests=60, running=8, waiting=0, first_token_seconds_p99=2.0)
    replica(fleet, 2, end=END, busy=0.0, rate=0)
    assert "late_while_replicas_stand_by" not in noticed(fleet)  # nobody promised anything
    found = noticed(fleet, declared(tmp_path, slo_seconds=0.5))
    assert "in 12 windows of ten minutes while a run of it stood by" in found["late_while_replicas_stand_by"].sentence


@one_pass
def test_late_answers_of_replicas_that_all_work_are_a_want_of_replicas(fleet: Fleet) -> Iterator[None]:
    """Then nobody stands by, and this rule has nothing to say."""
    serves(fleet, 0.99, requests=60, running=8, waiting=0, first_token_seconds_p99=2.0, slo_seconds=0.5)
    yield
    assert told(fleet) == {}


@one_pass
def test_starts_are_counted_with_their_gpu_hours(fleet: Fleet) -> Iterator[None]:
    """Two replicas whose GPU works ten minutes after they took it, and answers a minute later."""
    for number in (1, 2):
        run = replica(fleet, number, start=T + 10 * MINUTE, end=END, busy=0.9, rate=None)
        node, gpu = f"n{number}", f"G{number}"
        fleet.sample(
            node, gpu, T, T + 10 * MINUTE, utilization_ratio=0.0, utilization_zero_ratio=1.0, sm_active_ratio=0.0
        )
        fleet.hold(run, node, [gpu], T, END, name="chat", queue="serving")
        says(fleet, number, T + 10 * MINUTE, END, requests=60)
    yield
    notice = told(fleet)["cold_starts"]
    assert "spent 0.3 GPU-hours starting up" in notice.sentence
    seen = {line.what: line.seen for line in notice.evidence}
    assert seen["time of a start"] == "median 600 s, longest 600 s"
    assert seen["first answer"] == "11.0 min after the start of a run (median)"


def test_one_start_and_short_starts_are_not_mentioned() -> None:
    """Whatever runs has started once."""
    week = Span(T, T + 7 * DAY)
    assert list(start_notices(Starts("chat", None, ("r",), 10**9, 10**8, 1, 8, 8 * 10**5, 8 * 10**5, None), week)) == []
    assert list(start_notices(Starts("chat", None, ("r",), 10**9, 10**6, 9, 9, 10**5, 10**6, None), week)) == []


@one_pass.each((2, 8, 43), (1, 4, 27), (3, 2, 75))
def test_one_long_start_of_many_gpus_is_told_as_one(
    fleet: Fleet, hosts: int, gpus: int, minutes: int
) -> Iterator[None]:
    """A model on two hosts loads once, however many GPUs wait for it, and however its pods follow on one another."""
    run = "kubernetes/prod/coder"
    for host in range(hosts):
        begun, work = T + host * MINUTE, T + minutes * MINUTE
        names = [f"G{host}.{number}" for number in range(gpus)]
        fleet.own(f"n{host}", names)
        fleet.hold(run, f"n{host}", names, begun, END + 2 * HOUR, name="coder", queue="serving", scheduler="kubernetes")
        for gpu in names:
            for at in range(T, work, MINUTE):
                grown = 10**9 * (at - T) // MINUTE
                fleet.sample(f"n{host}", gpu, at, at + MINUTE, **(RESTS | {"memory_used_bytes": grown}))
            fleet.sample(f"n{host}", gpu, work, END + 2 * HOUR)
    yield
    notice = told(fleet)["cold_starts"]
    seen = {line.what: line.seen for line in notice.evidence}
    assert seen["starts"].startswith(f"1, of {hosts * gpus} GPUs")
    assert seen["time of a start"] == f"median {minutes * 60:,} s, longest {minutes * 60:,} s"


@pytest.mark.parametrize(("rule", "judge"), SERVICE_RULES)
def test_a_rule_without_its_signal_says_so(rule: str, judge: ServiceRule) -> None:
    """Not evaluated is an answer; a service of which all is told and nothing is wrong gives none."""
    said = judge(ServiceFigures("chat", None, ("r",), 7_200_000))
    assert isinstance(said, str), rule
    assert judge(WELL) is None


def lacking(fleet: Fleet) -> set[tuple[str, str]]:
    """Return the rules that were not evaluated, and why."""
    fleet.analyze()
    with fleet.store.session() as session:
        return {(each.rule, each.missing) for each in notices_in(session, T, T + DAY).unjudged}


@one_pass
def test_what_is_named_is_a_service_and_says_why_it_is_not_read(fleet: Fleet) -> Iterator[None]:
    """A key is wanted all the time: its stillness is a reserve and no starved training, and the way out is told."""
    replica(fleet, 1, end=END, rate=None)
    fleet.hold("slurm/alpha/2", "n2", ["G2"], T, END, name="finetune-7b", queue="batch")
    fleet.own("n2", ["G2"])
    fleet.sample("n2", "G2", T, END, **RESTS)
    says(fleet, 1, T, T + HOUR, state="read", requests=0)
    says(fleet, 1, T + HOUR, END, state="key_wanted")
    says(fleet, 2, T, END, state="server_error")
    yield
    end = fleet.names_end
    with fleet.store.session() as session:
        stages = dict(session.rows("SELECT run_id, stage FROM runs"))
    unread = [one for one in _notices_once(fleet.store) if one.rule == "serving/unread"]
    found = {one.subject.removesuffix(end): one for one in unread if one.subject.endswith(end)}
    assert stages[f"slurm/alpha/2{end}"] == "serving"
    assert not [state for state, _ in fleet.states("slurm/alpha/2") if state == "starved"]
    assert found["chat"].sentence.replace(end, "") == (
        "The metrics of chat were not read for 50% of the time: it wants a key; put it into a file and name that in "
        "agent.services (;token_file=/path). What it did then is not known."
    )
    assert "the server itself fails" in found["finetune-7b"].sentence
    assert found["finetune-7b"].run_ids == (f"slurm/alpha/2{end}",)


@one_pass
def test_a_service_that_starts_again_is_read_well_enough(fleet: Fleet) -> Iterator[None]:
    """Some minutes without a page are a restart."""
    serves(fleet, requests=0, state="read")
    says(fleet, 1, END, END + 5 * MINUTE, state="unreachable")
    yield
    assert "unread" not in told(fleet)


@one_pass
def test_a_promise_is_kept_missed_or_not_known(fleet: Fleet) -> Iterator[None]:
    """By the bounds between which the percentile lies; beyond the last bucket it is later than a promise within it."""
    replica(fleet, 1, end=T + 6 * HOUR, rate=None)
    for hour, (low, high, p99) in enumerate([(0.1, 0.25, 0.2), (0.5, 1.0, 0.7), (0.25, 0.5, 0.3), (10.0, None, None)]):
        told: dict[str, Any] = {
            "first_token_seconds_p99_low": low,
            "first_token_seconds_p99_high": high,
            "first_token_seconds_p99": p99,
        }
        says(fleet, 1, T + hour * HOUR, T + (hour + 1) * HOUR, slo_seconds=0.4, **told)
    says(fleet, 1, T + 4 * HOUR, T + 5 * HOUR, slo_seconds=12.0, first_token_seconds_p99_low=10.0)
    says(fleet, 1, T + 5 * HOUR, T + 6 * HOUR, slo_seconds=0.4, first_token_seconds_p99=0.3)
    yield
    with fleet.store.session() as session:
        rows = session.rows(
            "SELECT promised_us, coalesce(kept_us, 0), coalesce(undecided_us, 0) FROM served_amounts "
            "WHERE ends_with(run_id, ?) ORDER BY hour",
            [fleet.names_end],
        )
    assert rows == [
        (HOUR, HOUR, 0),
        (HOUR, 0, 0),
        (HOUR, 0, HOUR),
        (HOUR, 0, 0),
        (HOUR, 0, HOUR),
        (HOUR, HOUR, 0),
    ], "who tells a percentile and no bounds is believed"


@one_pass
def test_a_service_that_does_not_answer_yet_is_still_loading(fleet: Fleet) -> Iterator[None]:
    """Asked from the first minute on, read once its weights are there: until then it starts."""
    fleet.own("n1", ["G1"])
    fleet.hold("slurm/alpha/1", "n1", ["G1"], T, END, name="chat", queue="serving")
    loaded = T + 50 * MINUTE
    for place, at in enumerate(range(T, loaded, MINUTE)):
        fleet.sample("n1", "G1", at, at + MINUTE, **RESTS | {"memory_used_bytes": (1 + place) * 2**29})
    fleet.sample("n1", "G1", loaded, END, **RESTS)
    says(fleet, 1, T, loaded, state="unreachable")
    says(fleet, 1, loaded, END, state="read", requests=0)
    yield
    starting = {
        cause or state: ms for (state, cause), ms in fleet.states("slurm/alpha/1").items() if state == "starting"
    }
    assert sum(starting.values()) * 1000 == loaded + MINUTE - T  # its last gigabytes
