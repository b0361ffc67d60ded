"""A service is judged with all its replicas and its traffic so far, however rows arrive and however it is cut."""

from pathlib import Path

import pytest

from analyzer.ledger import pending
from analyzer.settings.settings import Settings
from tests.analyzer.ledger.fleet import HOUR, MINUTE, Fleet
from tests.analyzer.ledger.serving_services import RESTS, T, declared, replica, says, working


def service(*, late: bool = False) -> Fleet:
    """Return five replicas for five hours, whose traffic falls after two; with or without the last word of one."""
    fleet = Fleet()
    for number in range(1, 6):
        replica(fleet, number, end=T + 5 * HOUR, busy=0.1 * number if number < 4 else 0.0, rate=None)
        if number == 3:
            continue
        says(fleet, number, T, T + 2 * HOUR, requests=300 if number < 4 else 0)
        says(fleet, number, T + 2 * HOUR, T + 5 * HOUR, requests=60 if number < 4 else 0)
    if not late:
        last_word(fleet)
    return fleet


def last_word(fleet: Fleet) -> None:
    """Say what the third replica answered, a peak in the second hour among it."""
    says(fleet, 3, T, T + 90 * MINUTE, requests=60)
    says(fleet, 3, T + 90 * MINUTE, T + 100 * MINUTE, requests=1_500)
    says(fleet, 3, T + 100 * MINUTE, T + 5 * HOUR, requests=60)


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """A policy by which the service has too many replicas."""
    return declared(tmp_path_factory.mktemp("policy"), minimum_replicas=1, requests_per_second=5)


@pytest.fixture(scope="module")
def whole(policy: Settings) -> Fleet:
    """The service with all that was said, judged at once."""
    fleet = service()
    fleet.analyze(settings=policy)
    return fleet


@pytest.mark.parametrize("size", [1, pytest.param(3, marks=pytest.mark.soak)])
def test_a_service_is_never_cut_in_two(
    size: int, policy: Settings, whole: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory decides how much is booked at once; a part of the replicas would have a part of the traffic."""
    parts = service()
    monkeypatch.setattr(pending, "GPU_HOURS", size)
    monkeypatch.setattr(pending, "GPUS", size)
    parts.analyze(settings=policy)
    assert {("headroom", "beyond_policy"), ("held_idle", "abandoned")} <= set(whole.states())
    assert parts.rows() == whole.rows()


def test_what_one_replica_says_late_is_heard_by_all(policy: Settings, whole: Fleet) -> None:
    """Its peak is the others' need for the whole look-back: their later hours are judged anew."""
    later = service(late=True)
    later.analyze(settings=policy)
    assert later.rows() != whole.rows()
    last_word(later)
    later.analyze(settings=policy)
    assert later.rows() == whole.rows()
    assert later.analyze(settings=policy).hours == 0


def test_what_is_read_from_another_host_touches_the_service(tmp_path: Path) -> None:
    """The agent that asks a pod may run beside another one: its word is about the run, not about its own host."""
    policy = declared(tmp_path, minimum_replicas=0)
    at_once, later = Fleet(), Fleet()
    for fleet in (at_once, later):
        replica(fleet, 1, end=T + 4 * HOUR, rate=None)
        fleet.own("n9", ["G9"])
        fleet.sample("n9", "G9", T, T + 4 * HOUR, **RESTS)
    row = {"node": "n9", "run_id": "slurm/alpha/1", "requests": 0}
    rows = [row | {"started_at": at, "ended_at": at + MINUTE} for at in range(T, T + 4 * HOUR, MINUTE)]
    later.analyze(settings=policy)
    for fleet in (at_once, later):
        fleet.add("service_samples", rows)
        fleet.analyze(settings=policy)
    assert ("held_idle", "abandoned") in at_once.states()
    assert later.rows() == at_once.rows()


def test_a_replica_that_works_again_is_no_longer_idle(tmp_path: Path) -> None:
    """Half an hour is seen whole from either side of an hour's end."""
    fleet = Fleet()
    replica(fleet, 1, end=T + 2 * HOUR + 50 * MINUTE)
    fleet.sample("n1", "G1", T + 2 * HOUR + 50 * MINUTE, T + 4 * HOUR, **working(0.5))
    fleet.hold("slurm/alpha/1", "n1", ["G1"], T, T + 4 * HOUR, name="chat", queue="serving")
    says(fleet, 1, T + 2 * HOUR + 50 * MINUTE, T + 4 * HOUR, requests=60)
    fleet.analyze(settings=declared(tmp_path, minimum_replicas=0))
    with fleet.store.session() as session:
        by_hour = session.rows(
            "SELECT (hour - ?) // 3600000000, sum(milliseconds)::BIGINT FROM ledger WHERE cause = 'abandoned' "
            "GROUP BY 1 ORDER BY 1",
            [T],
        )
    assert by_hour[-1] == (2, 50 * 60_000)
