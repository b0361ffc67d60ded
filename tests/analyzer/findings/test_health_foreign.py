"""What is noticed of processes of others on GPUs that a run holds, and what of them is no business of anybody's."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from analyzer.errors import LedgerError
from analyzer.findings.health.gpus import ForeignProcess, foreign_process_notices
from analyzer.reports.run import run_span
from collector.lake.tiers import roll_up
from collector.store.schemas import make_tier_tables
from tests.analyzer.findings.health_fleets import GB, UNTIL, hosts, not_judged, noticed, own_notices, train
from tests.analyzer.ledger.copies import OnePass
from tests.analyzer.ledger.fleet import HOUR, MINUTE, MONDAY, Fleet

RUN = "slurm/alpha/7"
OTHER = "process/n1/31330.88"
RULE = "fleet/foreign_processes"
SHARES: dict[str, Any] = {"sm_utilization_ratio": 0.66, "cpu_seconds": 60.0, "memory_used_bytes": 2 * GB}
UNTOLD = SHARES | {"sm_utilization_ratio": None}

one_pass = OnePass(lambda store, _: store.analyze(UNTIL))


def process(fleet: Fleet, run: str, gpu: str, start: int = MONDAY, end: int = UNTIL, **told: Any) -> None:
    """Let a process of a run be seen on a GPU, minute by minute."""
    row = {"node": gpu.split("-")[0], "gpu_uuid": gpu, "run_id": run, "pid": 9} | SHARES | told
    rows = [row | {"started_at": at, "ended_at": at + MINUTE} for at in range(start, end, MINUTE)]
    fleet.add("process_samples", rows)


def foreign(fleet: Fleet, run: str, gpu: str, start: int = MONDAY, end: int = UNTIL, **told: Any) -> None:
    """Let somebody compute on a GPU of whom its scheduler knows nothing."""
    user = told.pop("user", "u9")
    fleet.hold(run, gpu.split("-")[0], [gpu], start, end, scheduler="process", user=user, name=None)
    process(fleet, run, gpu, start, end, **told)


def held(*held_gpus: str, into: Fleet | None = None, user: str = "u2", **told: Any) -> Fleet:
    """Return hosts on which a run holds GPUs, and works on each."""
    fleet = hosts(into=into)
    train(fleet, held_gpus, RUN, "yank", user=user, until=UNTIL)
    for gpu in held_gpus:
        process(fleet, RUN, gpu, **{"sm_utilization_ratio": 0.31} | told)
    return fleet


@one_pass.each(
    (("n1-a", "n1-b"), 2, 0.66, "8.0", "5.3"),
    (("n3-b",), 1, 0.4, "5.0", "2.0"),
    (("n2-a", "n3-a", "n4-a", "n4-b"), 5, 0.92, "4.0", "3.7"),
)
def test_processes_of_others_on_a_held_gpu_are_named_with_what_they_took(
    fleet: Fleet, gpus: tuple[str, ...], from_hour: int, share: float, hours: str, taken: str
) -> Iterator[None]:
    """A run that computes a third as fast did not slow down by itself: sixteen processes past the scheduler did it."""
    held(*gpus, into=fleet)
    others = [f"process/{gpu.split('-')[0]}/3133{n}.88" for n, gpu in enumerate(gpus)]
    for gpu, run in zip(gpus, others, strict=True):
        foreign(fleet, run, gpu, MONDAY + from_hour * HOUR, sm_utilization_ratio=share)
    yield
    (notice,) = own_notices(fleet, RULE)
    assert (notice.subject, notice.actor, notice.confidence) == ("yank", "platform", "high")
    assert notice.run_ids == (RUN, *others)
    assert others[0] in notice.sentence
    assert f"{hours} GPU-hours" in notice.sentence
    assert f"took {taken} GPU-hours" in notice.sentence


def test_the_teams_of_those_who_are_known_are_named() -> None:
    """Whom to talk to; a user's name is for owners alone, and stands in none."""
    seen = ForeignProcess(
        RUN, "yank", "chem", OTHER, "physics", "n1", "n1-a", False, 3_600_000, 3_600_000, 3_600_000, 900_000, 9, 9, 900
    )
    (notice,) = foreign_process_notices([seen, replace(seen, foreign_run="process/n1/5.5", foreign_team=None)])
    assert notice.sentence.startswith(f"2 other runs of physics ({OTHER}, process/n1/5.5) computed for 2.0 GPU-hours")


@one_pass
def test_what_they_took_is_not_told_where_the_driver_tells_no_shares(fleet: Fleet) -> Iterator[None]:
    """Memory beyond a context and a core that drives it are what is seen: who computes, not how much."""
    held("n1-a", sm_utilization_ratio=None, into=fleet)
    foreign(fleet, OTHER, "n1-a", MONDAY + HOUR, **UNTOLD)
    yield
    (notice,) = own_notices(fleet, RULE)
    assert (notice.run_ids, notice.actor, notice.confidence) == ((RUN, OTHER), "platform", "medium")
    assert "5.0 GPU-hours" in notice.sentence
    assert "driver does not report how much" in notice.sentence


@one_pass
def test_a_job_on_a_gpu_that_its_scheduler_gave_to_another_is_as_foreign(fleet: Fleet) -> Iterator[None]:
    """It was given n2-a, and computes on n1-a: where it was put is no excuse."""
    held("n1-a", into=fleet)
    train(fleet, ["n2-a"], "slurm/alpha/99", "stray", user="u9", until=UNTIL)
    fleet.hold("slurm/alpha/99", "n1", ["n1-a"], MONDAY, UNTIL, scheduler="cgroup", name=None)
    process(fleet, "slurm/alpha/99", "n1-a", MONDAY, UNTIL)
    yield
    (notice,) = own_notices(fleet, RULE)
    assert notice.run_ids == (RUN, "slurm/alpha/99")


@one_pass
def test_processes_of_the_same_user_are_the_users_own_to_end(fleet: Fleet) -> Iterator[None]:
    """A notebook that was left on the host of one's own job: no platform can know which of the two is meant."""
    held("n1-a", into=fleet)
    foreign(fleet, OTHER, "n1-a", user="u2")
    yield
    (notice,) = own_notices(fleet, RULE)
    assert (notice.rule, notice.actor) == (f"{RULE}/own", "run")
    assert OTHER in notice.sentence


@one_pass.each(
    (SHARES | {"sm_utilization_ratio": 0.01},),  # reads the driver, or shows a desktop
    (SHARES | {"sm_utilization_ratio": 0.0, "memory_used_bytes": 20 * GB},),  # holds memory and computes nothing
    (UNTOLD | {"memory_used_bytes": 3 * GB // 10},),  # a context alone
    (UNTOLD | {"cpu_seconds": 2.0},),  # a notebook that waits for its person
)
def test_what_does_not_compute_takes_nothing(fleet: Fleet, told: dict[str, Any]) -> Iterator[None]:
    """Monitoring agents, desktops and idle notebooks are on every host, and slow nobody."""
    held("n1-a", sm_utilization_ratio=None if told["sm_utilization_ratio"] is None else 0.9, into=fleet)
    foreign(fleet, OTHER, "n1-a", **told)
    yield
    assert own_notices(fleet, RULE) == []


@one_pass
def test_runs_that_one_scheduler_put_on_a_gpu_share_it(fleet: Fleet) -> Iterator[None]:
    """Time slices, MPS and shards: both have the same word, or the scheduler knows the host and not the GPU."""
    held("n1-a", "n1-b", "n2-a", into=fleet)
    train(fleet, ["n1-a"], "slurm/alpha/8", "beside", user="u9", until=UNTIL)
    process(fleet, "slurm/alpha/8", "n1-a")
    fleet.hold("slurm/alpha/9", "n1", ["n1-b"], MONDAY, UNTIL, scheduler="cgroup")
    fleet.add("allocations", [_on_host("slurm/alpha/9")])
    process(fleet, "slurm/alpha/9", "n1-b")
    fleet.add("run_aliases", [{"alias_run_id": "declared/n2/ranks-1.2", "run_id": RUN}])
    process(fleet, "declared/n2/ranks-1.2", "n2-a")  # the run itself, by another name
    yield
    assert own_notices(fleet, RULE) == []


def _on_host(run: str) -> dict[str, object]:
    return {"run_id": run, "node": "n1", "started_at": MONDAY, "ended_at": UNTIL, "scheduler": "slurm"}


@one_pass
def test_a_run_whose_own_processes_are_not_seen_may_be_the_others(fleet: Fleet) -> Iterator[None]:
    """A container past the scheduler's cgroup looks like a process of somebody's, and is the run itself."""
    hosts(into=fleet)
    train(fleet, ["n1-a"], RUN, "yank", until=UNTIL)
    foreign(fleet, OTHER, "n1-a")
    yield
    assert own_notices(fleet, RULE) == []


@one_pass
def test_who_computed_before_the_run_began_or_after_it_ended_took_nothing_of_it(fleet: Fleet) -> Iterator[None]:
    """In the same hour, and not at the same time; and a look of five minutes is nobody's worry."""
    hosts(into=fleet)
    begun = MONDAY + 90 * MINUTE
    fleet.hold(RUN, "n1", ["n1-a"], begun, UNTIL, user="u2")
    process(fleet, RUN, "n1-a", begun)
    foreign(fleet, OTHER, "n1-a", MONDAY, begun)
    foreign(fleet, "process/n1/5.5", "n1-a", begun, begun + 5 * MINUTE)
    yield
    assert own_notices(fleet, RULE) == []


def test_where_neither_shares_nor_processors_are_told_nobody_is_accused_and_nobody_cleared() -> None:
    """What could not be read is not told as nobody."""
    fleet = held("n1-a", sm_utilization_ratio=None)
    foreign(fleet, OTHER, "n1-a", **UNTOLD | {"cpu_seconds": None})
    assert noticed(fleet, RULE) == []
    assert not_judged(fleet, RULE) == ["neither SM shares nor CPU time of processes beside runs were reported"]


@one_pass
def test_a_process_whose_gpus_were_anothers_did_not_wait(fleet: Fleet) -> Iterator[None]:
    """Who asks for its report is told where its time is booked, and not that it stood in a queue."""
    held("n1-a", sm_utilization_ratio=None, into=fleet)
    foreign(fleet, OTHER, "n1-a", MONDAY, MONDAY + 3 * HOUR, **UNTOLD)
    yield
    with fleet.store.session() as session, pytest.raises(LedgerError, match="allocated to another run"):
        run_span(session, f"{OTHER}{fleet.names_end}", "UTC")


def test_hours_say_of_processes_what_samples_say() -> None:
    """The list must not change with the upkeep."""
    fleet = held("n1-a")
    foreign(fleet, OTHER, "n1-a", MONDAY + HOUR)
    (before,) = noticed(fleet, RULE)
    make_tier_tables(fleet.store)
    roll_up(fleet.store, 1e12, now_us=UNTIL + HOUR)
    assert noticed(fleet, RULE) == [before]
