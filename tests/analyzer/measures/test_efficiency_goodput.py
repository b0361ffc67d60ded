"""Goodput: the ledger's states in the published terms, by hand."""

import pytest

from analyzer.measures.efficiency.goodput import Attempt, Life, Loss, Spent, goodput, kind_of
from analyzer.states import BOOKINGS

HOUR_MS, HOUR_US = 3_600_000, 3_600_000_000
# Two GPUs, submitted at 0, begun at 1 h, ended at 11 h: 20 GPU-hours in 22.
LIFE = Life(gpus=2, submitted_at=0, started_at=HOUR_US, known_from=HOUR_US, until=11 * HOUR_US)
SPENT = (
    Spent("productive", "compute", 10 * HOUR_MS),
    Spent("communicating", "collective", 2 * HOUR_MS),
    Spent("starved", "storage", 4 * HOUR_MS),
    Spent("lost_work", "failed", 2 * HOUR_MS),
    Spent("communicating", "hang", HOUR_MS),
    Spent("unobserved", "gap", HOUR_MS),
)


def attempt(number: int, started: int, worked: int | None, ended: int | None) -> Attempt:
    """Return an attempt by hours."""
    first, begun, last = (None if hour is None else hour * HOUR_US for hour in (started, worked, ended))
    return Attempt(number, first, begun, last)


def test_by_hand() -> None:
    """12 of 20 GPU-hours are good, 7 are badput, 1 is unknown; over the 22 since it was submitted 12 are left."""
    found = goodput(SPENT, [attempt(0, 1, 2, 11)], LIFE)
    assert found.goodput.value == 0.6
    assert found.badput == (Loss("data loading", 0.2), Loss("wasted progress", 0.1), Loss("hang", 0.05))
    assert found.unknown_ratio == 0.05
    assert found.ettr.value == pytest.approx(12 / 22)
    assert found.time_to_start_seconds.value == 7_200
    assert found.time_to_recover_seconds.because == "it never had to restart"


def test_goodput_badput_and_unknown_are_the_whole() -> None:
    """Every second of a run is one of them."""
    found = goodput(SPENT, [], LIFE)
    assert found.goodput.value is not None
    assert found.goodput.value + sum(loss.ratio for loss in found.badput) + found.unknown_ratio == pytest.approx(1)


@pytest.mark.parametrize("booking", BOOKINGS, ids=lambda booking: f"{booking.state}/{booking.cause}")
def test_every_state_is_one_kind(booking: object) -> None:
    """A state that nobody sorted would raise in a report."""
    assert kind_of(booking.state, booking.cause)  # type: ignore[attr-defined]


def test_the_time_to_recover_is_the_median_between_attempts() -> None:
    """Ended at 3, working at 4 (1 h); ended at 6, working at 9 (3 h); ended at 10, at once (0 h): 1 h."""
    tries = [attempt(0, 1, 2, 3), attempt(1, 3, 4, 6), attempt(2, 8, 9, 10), attempt(3, 10, 10, None)]
    assert goodput(SPENT, tries, LIFE).time_to_recover_seconds.value == 3_600


@pytest.mark.parametrize(
    ("life", "why"),
    [
        (Life(2, None, HOUR_US, HOUR_US, 11 * HOUR_US), "its submission time is not reported"),
        (Life(2, 0, 0, HOUR_US, 11 * HOUR_US), "it began before the ledger does"),
        (Life(1, 0, HOUR_US, HOUR_US, 11 * HOUR_US), "its size changed"),
    ],
)
def test_a_beginning_that_is_not_known_is_not_guessed(life: Life, why: str) -> None:
    """A run that is older than the ledger would be told to have queued for days."""
    found = goodput(SPENT, [attempt(0, 1, 2, 11)], life)
    assert found.goodput.value == 0.6
    assert why in (found.ettr.because or "")


def test_a_run_that_was_hardly_seen_has_no_goodput() -> None:
    """What was not measured is neither good nor bad."""
    found = goodput([Spent("unobserved", "gap", 3), Spent("productive", "compute", 2)], [], LIFE)
    assert found.goodput.value is None
    assert found.badput == ()
    assert goodput([], [], LIFE).unknown_ratio == 1.0


def test_a_run_that_was_never_seen_to_work_has_no_times() -> None:
    """Nobody knows when it began."""
    found = goodput(SPENT, [attempt(0, 1, None, 2), attempt(1, 3, None, 4)], LIFE)
    assert "never observed working" in (found.time_to_start_seconds.because or "")
    assert "observed working" in (found.time_to_recover_seconds.because or "")
