"""Step times: the run's own count before what its GPUs show, and each with how it is known."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzer.measures.efficiency.steps import (
    ReportedProgress,
    StepTime,
    Wave,
    by_period,
    by_progress,
    longest_even,
    step_time,
)

COUNTED = ReportedProgress("r", steps=1_000, working_us=1_800_000_000)
DIPPING = ([0.9] * 15 + [0.0] * 5) * 40


def test_a_run_that_counts_is_believed() -> None:
    """1,800 s of working time and 1,000 steps are 1.8 s."""
    assert step_time(COUNTED, None) == StepTime(1.8, "progress", "high", 1_000)


@pytest.mark.parametrize(
    ("told", "why"),
    [
        (None, "does not report steps"),
        (ReportedProgress("r", tokens=5, working_us=5), "does not report steps"),
        (ReportedProgress("r", steps=5), "no productive time"),
        (ReportedProgress("r", steps=5, working_us=5, is_chorus=True), "let rank 0 alone report"),
    ],
)
def test_a_count_that_cannot_be_used_says_why(told: ReportedProgress | None, why: str) -> None:
    """Each of them has another remedy."""
    found = by_progress(told)
    assert found.seconds is None
    assert why in (found.because or "")


def test_a_log_that_somebody_names_goes_before_all() -> None:
    """Who takes the trouble to name a log knows better than we."""
    log = StepTime(2.0, "log", "high", 10)
    assert step_time(COUNTED, None, log) is log


def test_the_period_of_a_gpu_is_a_step() -> None:
    """Dips every 20 samples of 0.1 s: 2 s; one signal alone is never of high confidence."""
    found = by_period(Wave(0.1, tuple(DIPPING), "sm_active_ratio"))
    assert found.seconds == pytest.approx(2.0, rel=0.01)
    assert (found.how, found.confidence) == ("period", "medium")
    assert by_period(Wave(0.1, tuple(500 * value + 150 for value in DIPPING), "power_watts")).confidence == "low"


@pytest.mark.parametrize(
    ("wave", "why"),
    [
        (None, "no samples of a GPU"),
        (Wave(60.0, (0.5,) * 400, "sm_active_ratio"), "show no period that could be a step"),
        (Wave(1.0, tuple(DIPPING[:100]), "sm_active_ratio"), "100 samples in a row"),
        # A step of 0.99 s seen once a second: a slow, shallow wave that is no step at all.
        (Wave(1.0, tuple(0.6 + 0.02 * (place % 99 < 50) for place in range(800)), "sm_active_ratio"), "too steady"),
    ],
)
def test_samples_that_cannot_show_steps_say_why(wave: Wave | None, why: str) -> None:
    """A step time that is invented is worse than none."""
    found = by_period(wave)
    assert found.seconds is None
    assert why in (found.because or "")


@settings(max_examples=50)
@given(period=st.floats(0.3, 9), duty=st.floats(0.05, 0.95))
def test_steps_that_are_faster_than_samples_are_not_told(period: float, duty: float) -> None:
    """Seen too seldom, a fast step comes back as a slow one: a wagon wheel that turns backwards."""
    fine = 20
    values = tuple(
        sum(0.9 * ((sample + place / fine) % period < duty * period) for place in range(fine)) / fine
        for sample in range(300)
    )
    assert by_period(Wave(1.0, values, "sm_active_ratio")).seconds is None


def test_without_a_count_both_reasons_are_told() -> None:
    """Either would do: who reads it may choose which to mend."""
    assert step_time(None, None).because == "the run does not report steps; no samples of a GPU of its own"


def test_samples_that_have_expired_are_not_samples_that_never_were() -> None:
    """The same run said something else of itself a fortnight ago: what is gone is told as gone."""
    found = step_time(None, None, is_expired=True)
    assert found.because == "the run does not report steps; its samples are no longer kept"


def test_only_samples_that_abut_make_a_series() -> None:
    """A gap within would shift all that comes after it, and with it the period."""
    second = 1_000_000
    early = [(at * second, (at + 1) * second, 0.1) for at in range(5)]
    late = [(at * second, (at + 1) * second, 0.2) for at in range(9, 16)]
    odd = [(16 * second, 19 * second, 0.3)]
    assert longest_even([*early, *late, *odd]) == (1.0, (0.2,) * 7)
    assert longest_even(early[:1]) is None
