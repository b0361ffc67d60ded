"""A run's time from its start to its end: as many points as the eye wants, and no millisecond lost on the way."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from analyzer.ledger.coverage import TimelinePoint, timeline
from collector.store.session import Session
from tests.analyzer.ledger.fleet import HOUR, MINUTE, MONDAY, Fleet

T = MONDAY
RUN = "slurm/alpha/1"
BUCKET = 10 * MINUTE
IDLE: dict[str, Any] = {"utilization_ratio": 0.0, "utilization_zero_ratio": 1.0, "sm_active_ratio": 0.0}


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    """Two hours of work on two GPUs, then one of rest."""
    fleet = Fleet()
    fleet.own("n1", ["G1", "G2"])
    fleet.hold(RUN, "n1", ["G1", "G2"], T, T + 3 * HOUR)
    for gpu in ("G1", "G2"):
        fleet.sample("n1", gpu, T, T + 2 * HOUR)
        fleet.sample("n1", gpu, T + 2 * HOUR, T + 3 * HOUR, **IDLE)
    fleet.analyze()
    with fleet.store.session() as opened:
        yield opened
    fleet.store.close()


def test_a_run_is_kept_by_ten_minutes(session: Session) -> None:
    """Asked for more points than there are, it gives what was kept."""
    points = timeline(session, RUN, points=60)
    assert [point.bucket_start for point in points] == list(range(T, T + 3 * HOUR, BUCKET))
    assert points[0] == TimelinePoint(T, "productive", "compute", 1_200_000)
    assert points[-1] == TimelinePoint(T + 3 * HOUR - BUCKET, "held_idle", "abandoned", 1_200_000)


@pytest.mark.parametrize("points", [1, 2, 3, 5, 7, 18, 60])
def test_fewer_points_hold_the_same_time(session: Session, points: int) -> None:
    """However coarse: all the GPU time of the run, at no more points than were asked for, equally wide."""
    told = timeline(session, RUN, points)
    starts = sorted({point.bucket_start for point in told})
    assert sum(point.milliseconds for point in told) == 2 * 3 * 3_600_000
    assert len(starts) <= points
    assert len({later - earlier for earlier, later in pairwise(starts)}) <= 1


def test_a_stretch_of_two_states_has_a_point_for_each(session: Session) -> None:
    """The whole run in one stretch: two hours of work and one of rest."""
    assert timeline(session, RUN, 1) == [
        TimelinePoint(T, "held_idle", "abandoned", 2 * 3_600_000),
        TimelinePoint(T, "productive", "compute", 4 * 3_600_000),
    ]


def test_an_unknown_run_has_no_time(session: Session) -> None:
    """Nothing is known of it, and nothing is drawn."""
    assert timeline(session, "slurm/alpha/404") == []


def test_a_shared_gpu_is_told_once() -> None:
    """Three runs on one GPU for an hour: their times are the ledger's, and sum to what was held."""
    fleet, runs = Fleet(), [f"slurm/alpha/{number}" for number in (1, 2, 3)]
    fleet.own("n1", ["G1"])
    for run in runs:
        fleet.hold(run, "n1", ["G1"], T, T + HOUR)
    fleet.sample("n1", "G1", T, T + 40 * MINUTE, every=7 * MINUTE)
    fleet.sample("n1", "G1", T + 40 * MINUTE, T + HOUR, **IDLE)
    fleet.analyze()
    told = [fleet.states(run, "run_timeline") for run in runs]
    assert told == [fleet.states(run) for run in runs]
    assert sum(sum(states.values()) for states in told) == 3_600_000
    fleet.store.close()
