"""Shifts of level: a doubled cost is found at its hour, and neither nights, weekends nor noise are called one."""

from collections.abc import Callable
from math import exp
from random import Random

import pytest

from analyzer.finops.unit_cost.units import At, ratio_at, shift

HOUR = 3_600_000_000


def service(days: int, random: Random, level: Callable[[int], float] = lambda _: 1.0, noise: float = 0.1) -> list[At]:
    """Return a service's cost a request: dear at night and on weekends, with noise, times a level by hour."""
    found = []
    for number in range(24 * days):
        day, hour = divmod(number, 24)
        weekend = day % 7 >= 5
        base = (3.0 if hour < 7 else 1.0) * (1.6 if weekend else 1.0)
        found.append(At(number * HOUR, weekend, hour, base * level(number) * exp(random.gauss(0, noise))))
    return found


@pytest.mark.parametrize(("days", "at"), [(28, 22 * 24 + 14), (5, 3 * 24 + 14), (14, 11 * 24 + 3)])
def test_a_doubled_cost_is_found_at_its_hour(days: int, at: int) -> None:
    """The release that did it went out in that hour: an hour off names another."""
    found = shift(service(days, Random(1), lambda number: 1.9 if number >= at else 1.0))
    assert found is not None
    assert abs(found.at - at * HOUR) <= 2 * HOUR
    assert found.ratio == pytest.approx(1.9, rel=0.1)


def test_a_service_that_repeats_to_the_digit_is_judged_too() -> None:
    """Without noise no sum turned around a median of nothing, and the last fifth of five weeks was never looked at."""
    at = 29 * 24 + 14
    found = shift(service(35, Random(1), lambda number: 1.9 if number >= at else 1.0, noise=0.0))
    assert found is not None
    assert found.at == at * HOUR
    assert found.ratio == pytest.approx(1.9)


def test_nights_weekends_and_noise_are_no_shift() -> None:
    """An accusation a week would teach people to look away: of 300 quiet services none is named, or one."""
    named = [
        seed for seed in range(300) if shift(service(7 + 7 * (seed % 4), Random(seed), noise=0.05 + seed % 5 * 0.1))
    ]
    assert len(named) <= 1


def test_the_first_weekend_is_not_judged() -> None:
    """Of one week nobody knows whether its Saturday is dear."""
    assert shift(service(7, Random(3), lambda number: 2.0 if number >= 5 * 24 else 1.0)) is None


def test_an_hour_that_is_dear_is_no_shift() -> None:
    """A restart or a gap of telemetry passes; a level stays."""
    assert shift(service(21, Random(4), lambda number: 9.0 if 400 <= number < 406 else 1.0)) is None


def test_small_changes_are_left_to_the_table() -> None:
    """A tenth more, however surely, is no alarm."""
    assert shift(service(28, Random(5), lambda number: 1.1 if number >= 500 else 1.0, noise=0.01)) is None


def test_what_fell_is_a_shift_too() -> None:
    """Whoever made it cheaper should read it."""
    found = shift(service(28, Random(6), lambda number: 0.5 if number >= 500 else 1.0))
    assert found is not None
    assert found.ratio == pytest.approx(0.5, rel=0.1)


def test_a_ratio_compares_hours_of_a_kind() -> None:
    """A factor that did not move is 1, though it was night before and day after."""
    series = service(10, Random(7), noise=0.01)
    ratio = ratio_at(series, series[9 * 24 - 5].start)
    assert ratio == pytest.approx(1.0, abs=0.05)
    assert ratio_at(series[:24], series[24].start) is None
