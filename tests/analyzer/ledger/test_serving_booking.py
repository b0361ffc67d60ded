"""What of a service's reserve is booked beyond its policy: exact milliseconds, and never without evidence."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from analyzer.findings.ledger_findings import findings
from tests.analyzer.ledger.copies import OnePass
from tests.analyzer.ledger.fleet import HOUR, MINUTE, Beside, Fleet
from tests.analyzer.ledger.serving_services import RESTS, SOURCE, T, declared, policy, replica, says, working

MINUTE_MS = 60_000
HOUR_MS = 3_600_000


def by_their_policies(store: Fleet, policies: Sequence[object]) -> None:
    """Analyse services by what each test declares of its own."""
    with TemporaryDirectory() as folder:
        store.analyze(settings=declared(Path(folder), "\n".join(map(str, policies))))


one_pass = OnePass()
one_pass_by_policies = OnePass(by_their_policies)


def six(fleet: Fleet, busy: float = 0.5, rate: int = 10, idle: int | None = 0) -> None:
    """Add a service of six replicas: three share the traffic, three rest."""
    for number in range(1, 7):
        works = number <= 3
        replica(fleet, number, busy=busy if works else 0.0, rate=rate if works else idle)


@one_pass
def test_without_a_policy_all_reserve_is_declared(fleet: Fleet) -> Iterator[None]:
    """Nobody said how much is too much: it is the service's reserve, and the ledger says what it lacks."""
    six(fleet)
    yield
    assert set(fleet.states()) == {("headroom", "declared"), ("productive", "decode")}
    assert ("replicas beyond policy", "no policy declared") in missing(fleet)


@one_pass_by_policies
def test_six_replicas_where_the_traffic_needs_three(fleet: Fleet) -> Iterator[str]:
    """Three are kept and rest between requests; the three beyond answered nothing for half an hour, and are idle.

    30 requests a second at 10 a replica. The first hour is the look-back of the second: judged from window 5 on, when
    fewer than a fifth of the look-back's windows are unknown.
    """
    six(fleet)
    yield policy(fleet)
    hours = fleet.states("slurm/alpha/4")
    first_judged = judged_from(fleet, "slurm/alpha/4")
    rests = 3 * HOUR_MS - first_judged
    assert hours["held_idle", "abandoned"] == rests
    assert hours["headroom", "declared"] == first_judged - MINUTE_MS
    assert "beyond_policy" not in {cause for _, cause in hours}
    for kept in ("slurm/alpha/1", "slurm/alpha/2", "slurm/alpha/3"):
        assert set(fleet.states(kept)) == {("headroom", "declared"), ("productive", "decode")}
    assert fleet.unbalanced() == []


@one_pass_by_policies
def test_a_reserve_that_answers_now_and_then_is_beyond_policy_and_not_idle(fleet: Fleet) -> Iterator[str]:
    """Its count moves: somebody asks it. One request a second in all needs the minimum of two."""
    for number in range(1, 7):
        replica(fleet, number, busy=0.1 * number, rate=1)
    yield policy(fleet)
    judged_ms = 3 * HOUR_MS - judged_from(fleet, "slurm/alpha/1")
    for surplus in (1, 2, 3, 4):  # the least used first
        assert fleet.states(f"slurm/alpha/{surplus}")["headroom", "beyond_policy"] == judged_ms * (10 - surplus) // 10
    for kept in (5, 6):
        assert ("headroom", "beyond_policy") not in fleet.states(f"slurm/alpha/{kept}")
    assert "held_idle" not in {state for state, _ in fleet.states()}


@one_pass_by_policies
def test_standby_is_kept(fleet: Fleet) -> Iterator[str]:
    """What the policy allows is no finding: 30 a second and two thirds over it need five of six."""
    six(fleet, idle=None)
    for number in (4, 5, 6):
        says(fleet, number, T, T + 3 * HOUR, requests=1)
    yield policy(fleet, standby_ratio=0.6)
    found = {run for run in range(1, 7) if ("headroom", "beyond_policy") in fleet.states(f"slurm/alpha/{run}")}
    assert found == {4}


@one_pass_by_policies
def test_a_minimum_is_kept(fleet: Fleet) -> Iterator[str]:
    """As many as somebody wants, whatever the traffic needs."""
    six(fleet)
    yield policy(fleet, minimum_replicas=6)
    assert set(fleet.states()) == {("headroom", "declared"), ("productive", "decode")}


@one_pass_by_policies
def test_the_busiest_window_of_the_look_back_counts(fleet: Fleet) -> Iterator[str]:
    """Reserve for the next peak is what a policy is for: an hour after it, nothing is beyond."""
    for number in range(1, 5):
        replica(fleet, number, end=T + 4 * HOUR, busy=0.2, rate=None)
        says(fleet, number, T, T + HOUR, requests=600)
        says(fleet, number, T + HOUR, T + 4 * HOUR, requests=30)
    yield policy(fleet)
    first = beyond_windows(fleet)[0]
    assert (
        first == T // 1000 + 2 * HOUR_MS
    )  # the peak's last window is 50 minutes to an hour; its look-back ends at two
    assert fleet.states()["headroom", "beyond_policy"] == 2 * 2 * HOUR_MS * 8 // 10


@one_pass_by_policies
def test_a_share_of_time_is_a_target_that_needs_no_counter(fleet: Fleet) -> Iterator[str]:
    """Three replicas at 20% are 0.6 of one: two at a target of 0.4. Nothing is called idle without a counter."""
    for number in range(1, 5):
        replica(fleet, number, busy=0.2 if number < 4 else 0.0, rate=None)
    yield policy(fleet, requests_per_second=None, busy_ratio=0.4, minimum_replicas=0)
    states = fleet.states("slurm/alpha/4")
    assert states["headroom", "beyond_policy"] == 3 * HOUR_MS - judged_from(fleet, "slurm/alpha/4")
    assert "held_idle" not in {state for state, _ in fleet.states()}
    assert ("idle service", "its count of answered requests") in missing(fleet)


@one_pass_by_policies
def test_unknown_traffic_accuses_nobody(fleet: Fleet) -> Iterator[str]:
    """Half of the replicas say nothing: what they answered is not known, and silence is no want of requests."""
    six(fleet, idle=None)
    yield policy(fleet)
    assert set(fleet.states()) == {("headroom", "declared"), ("productive", "decode")}
    assert [rule for rule, why in missing(fleet) if "requests of its replicas" in why] == ["replicas beyond policy"]


@one_pass_by_policies.each((0.5,), (1,))
def test_a_promise_that_is_not_kept_keeps_all_replicas(fleet: Fleet, slo_seconds: float) -> Iterator[str]:
    """While first tokens come too late, no replica is too many by a rate that somebody measured last year."""
    six(fleet, rate=0)
    for number in (1, 2, 3):
        says(fleet, number, T, T + 3 * HOUR, requests=600, first_token_seconds_p99=0.9)
    yield policy(fleet, slo_seconds=slo_seconds)
    if slo_seconds < 0.9:
        assert set(fleet.states()) == {("headroom", "declared"), ("productive", "decode")}
    else:
        assert ("held_idle", "abandoned") in fleet.states()


@one_pass_by_policies
def test_a_policy_counts_from_its_date(fleet: Fleet) -> Iterator[str]:
    """Declared at two o'clock, it says nothing of one o'clock."""
    six(fleet)
    yield policy(fleet, **{"from": "2025-11-10T02:00:00Z"})
    assert fleet.states("slurm/alpha/6")["held_idle", "abandoned"] == HOUR_MS


def test_another_policy_makes_the_ledger_anew(tmp_path: Path) -> None:
    """The file is part of the rules: the same samples under another minimum are another ledger, and the same again."""
    fleet = Fleet()
    six(fleet)
    fleet.analyze(settings=declared(tmp_path))
    before = fleet.rows()
    assert fleet.analyze(settings=declared(tmp_path)).hours == 0
    fleet.analyze(settings=declared(tmp_path, minimum_replicas=5))
    idle = fleet.states()["held_idle", "abandoned"]
    assert idle == 3 * HOUR_MS - judged_from(fleet, "slurm/alpha/4")
    fleet.analyze(settings=declared(tmp_path))
    assert fleet.rows() == before


@one_pass_by_policies.each((None, True), (1, False))
def test_replicas_within_one_run_are_told_apart_by_pod_or_declared(
    fleet: Fleet, gpus: int | None, members: bool
) -> Iterator[str]:
    """A deployment is one run: half of its pods beyond policy are half of its stand-still."""
    fleet.own("n1", [f"G{gpu}" for gpu in range(4)])
    for gpu in range(4):
        member = {"member": f"chat-{gpu}"} if members else {}
        fleet.hold("kubernetes/prod/a", "n1", [f"G{gpu}"], T, T + 3 * HOUR, **{"name": "chat", **member})
        fleet.sample("n1", f"G{gpu}", T, T + MINUTE, **working(1.0))
        fleet.sample("n1", f"G{gpu}", T + MINUTE, T + 3 * HOUR, **working(0.5))
    for _ in range(4):
        told = {"node": "n1", "run_id": "kubernetes/prod/a", "requests": 60}
        fleet.add(
            "service_samples",
            [told | {"started_at": at, "ended_at": at + MINUTE} for at in range(T, T + 3 * HOUR, MINUTE)],
        )
    yield policy(fleet, requests_per_second=2, gpus_per_replica=gpus)
    judged_ms = 3 * HOUR_MS - judged_from(fleet, "kubernetes/prod/a")
    assert fleet.states()["headroom", "beyond_policy"] == 2 * judged_ms // 2
    assert fleet.unbalanced() == []


LOADED, WAITS, NEVER_USED = 30 * 2**30, ("headroom", "declared"), ("held_idle", "never_used")


@one_pass.each((LOADED, "works", WAITS), (LOADED, "told", WAITS), (LOADED, None, NEVER_USED), (0, "works", NEVER_USED))
def test_a_model_that_waits_for_its_first_request_is_not_a_gpu_never_used(
    fleet: Fleet, memory: int, word: str | None, state: tuple[str, str]
) -> Iterator[None]:
    """A standby replica loads 30 GB and may never be asked; but a name alone is no service that anybody could ask.

    Another replica of it works, or its stack tells of itself, though not how much it answered. A GPU that loaded
    nothing is not part of the service.
    """
    _standby(fleet, memory)
    if word == "works":
        replica(fleet, 2, end=T + HOUR, busy=0.5, rate=None)
    if word == "told":
        says(fleet, 1, T + 15 * MINUTE, T + HOUR, running=0)
    yield
    assert fleet.states("slurm/alpha/1") == {("starting", "model_load"): 900_000, state: 2_700_000}


@one_pass_by_policies
def test_a_model_that_somebody_declared_is_not_a_gpu_never_used(fleet: Fleet) -> Iterator[str]:
    """A policy is a word for it too."""
    _standby(fleet, LOADED)
    yield policy(fleet)
    assert fleet.states("slurm/alpha/1") == {("starting", "model_load"): 900_000, WAITS: 2_700_000}


def _standby(fleet: Fleet, memory: int) -> None:
    """Let a replica hold a GPU for an hour on which nothing runs."""
    fleet.own("n1", ["G1"])
    fleet.hold("slurm/alpha/1", "n1", ["G1"], T, T + HOUR, name="chat", queue="serving")
    fleet.sample("n1", "G1", T, T + HOUR, **(RESTS | {"memory_used_bytes": memory}))


@one_pass.each((1, 60, 2**30), (4, 30, 60 * 2**30), (8, 300, 12 * 2**30))
def test_a_service_by_its_name_alone_is_idle(fleet: Fleet, gpus: int, seconds: int, memory: int) -> Iterator[None]:
    """Pods called sd-serving held GPUs for weeks: no stack told of them, nothing ran, and nothing was avoidable."""
    run, names = "kubernetes/prod/1", [f"G{gpu}" for gpu in range(gpus)]
    fleet.own("n1", names)
    fleet.hold(run, "n1", names, T, T + 6 * HOUR, name="sd-serving", scheduler="kubernetes")
    for gpu in names:
        fleet.sample("n1", gpu, T, T + 6 * HOUR, every=seconds * 10**6, **(RESTS | {"memory_used_bytes": memory}))
    yield
    assert fleet.states(run) == {
        ("starting", "model_load"): gpus * 900_000,
        ("held_idle", "never_used"): gpus * (6 * HOUR_MS - 900_000),
    }


@one_pass.each((30 * 2**30, WAITS), (10**7, ("held_idle", "abandoned")))
def test_a_replica_that_is_gone_from_its_gpu_is_no_reserve(
    fleet: Fleet, memory: int, state: tuple[str, str]
) -> Iterator[None]:
    """It worked for an hour; what holds no memory any more answers nobody."""
    _works_an_hour(fleet, memory)
    yield
    assert fleet.states() == {("productive", "decode"): HOUR_MS, state: 2 * HOUR_MS}


@one_pass_by_policies
def test_a_replica_that_is_gone_from_its_gpu_may_be_declared(fleet: Fleet) -> Iterator[str]:
    """A policy says itself what is too many."""
    _works_an_hour(fleet, 10**7)
    yield policy(fleet)
    assert fleet.states() == {("productive", "decode"): HOUR_MS, WAITS: 2 * HOUR_MS}


def _works_an_hour(fleet: Fleet, memory: int) -> None:
    """Let a replica rest after its first hour, with so much memory in use."""
    replica(fleet, 1, end=T, rate=None)
    fleet.hold("slurm/alpha/1", "n1", ["G1"], T, T + 3 * HOUR, name="chat", queue="serving")
    fleet.sample("n1", "G1", T, T + HOUR, **working(1.0))
    fleet.sample("n1", "G1", T + HOUR, T + 3 * HOUR, **(RESTS | {"memory_used_bytes": memory}))


# Another GPU, interval of samples, and size: sku, seconds, GPUs of the run
NEIGHBOURS: tuple[tuple[str, int, int], ...] = (("H100-80GB", 60, 8), ("A100-80GB", 20, 4), ("L4-24GB", 120, 2))


def pods(fleet: Fleet, neighbour: tuple[str, int, int], busy: float, rest: float, **told: Any) -> None:
    """Add a deployment of pods of one GPU: the first is busy for a share of the time, the others for another.

    Each pod's stack says what is told of the first; the others answer nothing.
    """
    (sku, seconds, gpus), run, end = neighbour, "kubernetes/prod/a", T + 3 * HOUR
    fleet.own("n1", [f"G{gpu}" for gpu in range(gpus)], sku=sku)
    for gpu in range(gpus):
        fleet.hold(run, "n1", [f"G{gpu}"], T, end, name="chat", member=f"chat-{gpu}", scheduler="kubernetes")
        fleet.sample("n1", f"G{gpu}", T, T + 2 * MINUTE, every=seconds * 10**6, **working(1.0))
        fleet.sample("n1", f"G{gpu}", T + 2 * MINUTE, end, seconds * 10**6, **working(rest if gpu else busy))
        row = {"node": "n1", "run_id": run} | (told if gpu == 0 else {"requests": 0, "running": 0})
        spans = range(T, end, 30 * 10**6)
        fleet.add("service_samples", [row | {"started_at": at, "ended_at": at + 30 * 10**6} for at in spans])


@one_pass.each(*((neighbour,) for neighbour in NEIGHBOURS))
def test_gpus_of_a_run_that_no_request_reaches_are_idle(
    fleet: Fleet, neighbour: tuple[str, int, int]
) -> Iterator[None]:
    """One pod has all requests, the others none for hours, and nobody declared them as a reserve."""
    pods(fleet, neighbour, 0.8, 0.0, requests=60, running=0)
    yield
    idle_ms = (neighbour[2] - 1) * (3 * HOUR_MS - 2 * MINUTE_MS)
    assert fleet.states()["held_idle", "abandoned"] == idle_ms
    assert fleet.seen("state", "starts_with(gpu_uuid, 'G0')") == ["headroom", "productive"]
    assert fleet.unbalanced() == []


@one_pass_by_policies.each(*((neighbour,) for neighbour in NEIGHBOURS))
def test_gpus_of_a_run_that_a_policy_keeps_are_not_idle(fleet: Fleet, neighbour: tuple[str, int, int]) -> Iterator[str]:
    """Now somebody declared them."""
    pods(fleet, neighbour, 0.8, 0.0, requests=60, running=0)
    yield policy(fleet, minimum_replicas=neighbour[2])
    assert set(fleet.states()) == {("headroom", "declared"), ("productive", "decode")}
    assert fleet.unbalanced() == []


@one_pass.each(*((neighbour,) for neighbour in NEIGHBOURS))
def test_what_stands_still_while_requests_run_is_no_reserve(
    fleet: Fleet, neighbour: tuple[str, int, int]
) -> Iterator[None]:
    """Requests run all the time, and the GPU has no kernel for 40% of it: the service waits, and nobody for it."""
    pods(fleet, neighbour, 0.6, 0.0, requests=60, running=9)
    yield
    stood_ms = (3 * HOUR_MS - 2 * MINUTE_MS) * 4 // 10
    found = fleet.states()
    assert abs(found["unexplained", None] - stood_ms) <= 5 * MINUTE_MS
    assert found.get(("headroom", "declared"), 0) <= 5 * MINUTE_MS
    assert fleet.unbalanced() == []


@one_pass.each(*((neighbour,) for neighbour in NEIGHBOURS))
def test_what_stands_still_between_requests_is_reserve(fleet: Fleet, neighbour: tuple[str, int, int]) -> Iterator[None]:
    """All pods are asked for a half of each minute, and work as long: what is left is theirs to keep."""
    pods(fleet, neighbour, 0.5, 0.5, requests=30, running=0)
    run, end = "kubernetes/prod/a", T + 3 * HOUR
    row = {"node": "n1", "run_id": run, "requests": 30, "running": 4}
    for _ in range(neighbour[2]):
        fleet.add(
            "service_samples", [row | {"started_at": at, "ended_at": at + 30 * 10**6} for at in range(T, end, MINUTE)]
        )
    yield
    assert {state for state, _ in fleet.states()} == {"headroom", "productive"}


@one_pass
def test_a_serving_fleet_that_rests_two_thirds_of_the_time_is_headroom(fleet: Fleet) -> Iterator[None]:
    """Of serving pods, 66.8% of samples are 0 while memory is held (Alibaba GenTD26): that is never starved."""
    for number in range(1, 5):
        replica(fleet, number, end=T, rate=None)
        fleet.hold(f"slurm/alpha/{number}", f"n{number}", [f"G{number}"], T, T + 3 * HOUR, name="chat", queue="serving")
        for at in range(T, T + 3 * HOUR, 15 * MINUTE):
            fleet.sample(f"n{number}", f"G{number}", at, at + 5 * MINUTE, **working(1.0))
            fleet.sample(f"n{number}", f"G{number}", at + 5 * MINUTE, at + 15 * MINUTE, **RESTS)
        row = {"node": f"n{number}", "run_id": f"slurm/alpha/{number}", "workers": 8, "workers_busiest_cpu_ratio": 1.0}
        fleet.add(
            "process_samples",
            [row | {"started_at": at, "ended_at": at + MINUTE} for at in range(T, T + 3 * HOUR, MINUTE)],
        )
    yield
    assert fleet.states() == {("headroom", "declared"): 8 * HOUR_MS, ("productive", "decode"): 4 * HOUR_MS}


def test_a_finding_shows_replicas_need_and_the_row(tmp_path: Path) -> None:
    """Who is told of too many replicas wants to see by whose word."""
    fleet = Fleet()
    for number in range(1, 7):
        replica(fleet, number, busy=0.5, rate=1)
    fleet.analyze(settings=declared(tmp_path))
    with fleet.store.session() as session:
        (found,) = [one for one in findings(session, T, T + 3 * HOUR) if one.cause == "beyond_policy"]
    seen = {line.what: line.seen for line in found.evidence}
    assert seen["replicas"] == "6, where the policy needs 2"
    assert seen["policy"] == f"row 1, since 2025-01-01: {SOURCE}"
    assert found.actor == "run"


@dataclass(frozen=True)
class Drawn:
    """A service of up to four replicas: how each is asked, until which minute, and how many are declared."""

    busy: list[float]
    rates: list[int | None]
    minimum: int
    ends: list[int]


ANY_SERVICE = st.builds(
    Drawn,
    busy=st.lists(st.sampled_from((0.0, 0.013, 0.3, 0.777, 1.0)), min_size=1, max_size=4),
    rates=st.lists(st.sampled_from((None, 0, 1, 7)), min_size=4, max_size=4),
    minimum=st.integers(0, 3),
    ends=st.lists(st.sampled_from((95, 120, 133)), min_size=4, max_size=4),
)


# Side by side in one store; the first that is drawn is the simplest. One by one in `make soak`, so that they shrink.
@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(services=st.lists(ANY_SERVICE, min_size=6, max_size=6))
def test_every_millisecond_stays_booked_once(services: Sequence[Drawn]) -> None:
    """Whatever is moved from declared to beyond and idle, each GPU's hours sum to what is owned."""
    _only_reserve_moves(services)


@pytest.mark.soak
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(service=ANY_SERVICE)
def test_every_millisecond_of_many_services_stays_booked_once(service: Drawn) -> None:
    """The same at length."""
    _only_reserve_moves([service])


def _only_reserve_moves(services: Sequence[Drawn]) -> None:
    store = Fleet()
    pairs = [(Beside(store, f"~{at}held"), Beside(store, f"~{at}bare")) for at in range(len(services))]
    with store.together():
        for pair, drawn in zip(pairs, services, strict=True):
            for each in pair:
                for number, share in enumerate(drawn.busy):
                    replica(each, number, end=T + drawn.ends[number] * MINUTE, busy=share, rate=drawn.rates[number])
    policies = [policy(held, minimum_replicas=one.minimum) for (held, _), one in zip(pairs, services, strict=True)]
    by_their_policies(store, policies)
    assert store.unbalanced() == []
    reserve = {("headroom", "declared"), ("headroom", "beyond_policy"), ("held_idle", "abandoned")}
    for fleet, bare in pairs:
        held, without = fleet.states(), bare.states()
        assert sum(ms for key, ms in held.items() if key in reserve) == without.get(("headroom", "declared"), 0)
        assert {k: v for k, v in held.items() if k not in reserve} == {
            k: v for k, v in without.items() if k not in reserve
        }
    store.store.close()


def missing(fleet: Fleet) -> set[tuple[str, str]]:
    """Return the rules that were not evaluated of a fleet's runs, and why."""
    told = "SELECT rule, missing FROM not_evaluated WHERE ends_with(subject, ?)"
    with fleet.store.session() as session:
        return set(session.rows(told, [fleet.names_end]))


def judged_from(fleet: Fleet, run: str) -> int:
    """Return how many milliseconds after the start a run's service was first held to its policy."""
    with fleet.store.session() as session:
        (first,) = session.row(
            "SELECT min(window_start) FROM run_windows WHERE run_id = ? AND (counts->>'$.needed') IS NOT NULL",
            [f"{run}{fleet.names_end}"],
        )
    return int(first - T) // 1000


def beyond_windows(fleet: Fleet) -> list[int]:
    """Return the first milliseconds of the windows in which anything was beyond policy, in order."""
    with fleet.store.session() as session:
        rows = session.rows(
            "SELECT DISTINCT window_start // 1000 FROM run_windows "
            "WHERE (verdict->>'$.beyond_policy_permille')::BIGINT > 0 AND ends_with(run_id, ?) ORDER BY 1",
            [fleet.names_end],
        )
    return [at for (at,) in rows]
