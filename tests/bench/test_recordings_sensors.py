"""What is told in a sensor's name is what such a sensor tells: nothing is lost, nothing known that it cannot know."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from bench.truth.real.sensors import SECOND, SENSORS, Activity, averaged, beats, fraction, ring

MINUTE = 60 * SECOND


def every(step: int, busy: int, end: int = MINUTE) -> Activity:
    """Return steps that are busy first and then wait."""
    starts = np.arange(0, end, step, dtype=np.int64)
    return Activity.of_stretches(starts, starts + busy)


@given(
    st.lists(st.tuples(st.integers(1, 900_000), st.floats(0, 1)), min_size=1, max_size=30), st.integers(10_000, 400_000)
)
@hypothesis_settings(max_examples=60)
def test_beats_abut_and_lose_no_busy_time(stretches: list[tuple[int, float]], beat: int) -> None:
    """What the intervals say adds up to what was recorded, however they are cut."""
    edges = np.cumsum([0, *(length for length, _ in stretches)]).astype(np.int64)
    activity = Activity(edges, np.array([busy for _, busy in stretches]))
    cut = beats(0, int(edges[-1]) + beat, beat)
    rows = fraction(activity, cut)
    assert all(before["ended_at"] == after["started_at"] for before, after in pairwise(rows))
    said = sum(float(str(row["utilization_ratio"])) for row in rows) * beat
    assert said == pytest.approx(sum(length * busy for length, busy in stretches), rel=1e-6, abs=1e-3)


@pytest.mark.parametrize("sensor", SENSORS)
def test_the_mean_is_right_through_every_sensor(sensor: str) -> None:
    """Whole percents of many intervals average out; half a point is the most that one may keep."""
    rows = SENSORS[sensor](every(355_000, 323_000), beats(0, MINUTE, SECOND))
    mean = sum(float(str(row["utilization_ratio"])) for row in rows) / len(rows)
    assert mean == pytest.approx(323 / 355, abs=0.005)


def test_a_wait_shorter_than_the_drivers_sample_never_reads_zero() -> None:
    """A third of the time is lost, and not one of six samples a second is idle throughout: shares cannot see it."""
    rows = ring(every(150_000, 100_000), beats(0, MINUTE, SECOND))
    assert {row["utilization_zero_ratio"] for row in rows} == {0.0}
    assert all(float(str(row["utilization_ratio"])) < 0.75 for row in rows)


def test_a_wait_of_seconds_reads_zero() -> None:
    """Four of ten seconds idle are four tenths of the samples, within one sample at each of their ends."""
    rows = ring(every(10 * SECOND, 6 * SECOND), beats(0, MINUTE, SECOND))
    assert sum(float(str(row["utilization_zero_ratio"])) for row in rows) / 60 == pytest.approx(0.4, abs=0.02)


def test_a_beat_without_a_new_sample_repeats_the_last_and_gives_no_share() -> None:
    """At ten beats a second the driver has something new for six: the agent says so, and no more."""
    rows = ring(every(10 * SECOND, 6 * SECOND), beats(0, MINUTE, SECOND // 10))
    with_shares = [row for row in rows if "utilization_zero_ratio" in row]
    assert len(with_shares) == pytest.approx(360, abs=1)
    assert "utilization_ratio" not in rows[0]
    assert all("utilization_ratio" in row for row in rows[2:])


def test_an_exporter_rounds_to_whole_percents() -> None:
    """What is lost between the two kinds is lost in the sensor, not in the ledger."""
    rows = averaged(every(355_000, 323_000), beats(0, MINUTE, SECOND))
    assert all(
        100 * float(str(row["utilization_ratio"])) == pytest.approx(round(100 * float(str(row["utilization_ratio"]))))
        for row in rows
    )
