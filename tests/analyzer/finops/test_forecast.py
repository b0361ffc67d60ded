"""Forecasts of daily series: what repeats is found, what is not known is said, and the interval covers what it says."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzer.finops.forecast import (
    CORE,
    ORIGINS_LEAST,
    Model,
    backtest,
    days_missing,
    fitted,
    forecast,
    seasonal_naive,
    weekday_mean,
)

WEEK = [100, 120, 110, 130, 125, 20, 10]


def test_what_repeats_each_week_is_continued_exactly() -> None:
    """Weekends are cheap: a mean of days would be wrong on each of them."""
    found = forecast(WEEK * 6, 10)
    assert found is not None
    assert list(found.by_day) == [*WEEK, *WEEK[:3]]
    assert (found.low, found.high) == (found.total, found.total)


def test_less_than_a_week_forecasts_nothing() -> None:
    """Of three days nobody knows the weekend."""
    assert forecast([100, 120, 110], 7) is None
    assert forecast([], 7) is None


def test_an_interval_needs_forecasts_that_could_be_tested() -> None:
    """Two weeks give a figure; how far off such figures are, they do not say."""
    found = forecast(WEEK * 2, 7)
    assert found is not None
    assert (found.low, found.high) == (None, None)
    assert days_missing(WEEK * 2, 7) > 0


def test_the_days_that_are_missing_are_enough() -> None:
    """What a person is told to wait for must then do."""
    for days in (1, 7, 20):
        history = WEEK * 2
        more = days_missing(history, days)
        whole = (WEEK * 10)[: len(history) + more]
        found = forecast(whole, days, CORE[:1])
        assert found is not None
        assert found.origins == ORIGINS_LEAST
        assert found.low is not None


def test_a_day_that_is_not_known_counts_as_the_week_before_and_not_as_nothing() -> None:
    """An outage of the collector must not forecast a cheap month."""
    history: list[int | None] = [*(WEEK * 5)]
    history[-3] = None
    found = forecast(history, 7)
    assert found is not None
    assert found.total == sum(WEEK)


def test_the_backtest_decides_which_model_is_shown() -> None:
    """Noise around a fixed week: the mean of four weeks forgives it, the last week repeats it."""
    random = Random(7)
    noisy = [amount * 100 + random.randint(-800, 800) for _ in range(20) for amount in WEEK]
    by_model = {model.name: backtest(model, noisy, 7).mase for model in CORE}
    found = forecast(noisy, 7, CORE)
    assert found is not None
    assert found.mase == min(mase for mase in by_model.values() if mase is not None)
    assert found.model == "mean of four weeks"


def test_after_a_change_of_level_the_last_week_is_shown() -> None:
    """Where the level rises steadily a mean of four weeks lags behind."""
    growing = [amount * (100 + 10 * week) for week in range(20) for amount in WEEK]
    found = forecast(growing, 7, CORE)
    assert found is not None
    assert found.model == "as a week before"


def test_intervals_cover_about_four_of_five() -> None:
    """An interval that says 80% is held to it: over 60 noisy series, between 65 and 95%."""
    inside = 0
    for seed in range(60):
        random = Random(seed)
        series = [amount * 100 + random.randint(-2_000, 2_000) for _ in range(16) for amount in WEEK]
        past, coming = series[:-14], series[-14:]
        found = forecast(past, 14, CORE)
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        inside += found.low <= sum(coming) <= found.high
    assert 39 <= inside <= 57


def test_a_backtest_never_sees_what_it_forecasts() -> None:
    """A model that was shown the answer would look perfect and be worth nothing."""
    seen: list[int] = []

    def spy(history: "list[int]", days: int) -> list[int]:
        seen.append(len(history))
        return [0] * days

    backtest(Model("spy", 7, spy), list(range(40)), 5)  # type: ignore[arg-type]
    assert seen == list(range(7, 36))


@settings(max_examples=60)
@given(
    st.lists(st.one_of(st.none(), st.integers(0, 10**12)), min_size=0, max_size=120),
    st.integers(0, 31),
)
def test_every_forecast_has_its_days_and_its_sum_inside_its_interval(history: list[int | None], days: int) -> None:
    """Whatever the history: no negative money, days that sum to the total, and a total within its own interval."""
    found = forecast(history, days, CORE)
    if found is None:
        return
    assert len(found.by_day) == days
    assert sum(found.by_day) == found.total
    assert min(found.by_day, default=0) >= 0
    if found.low is not None and found.high is not None:
        assert 0 <= found.low <= found.total <= found.high


@pytest.mark.parametrize("days", [1, 7, 9])
def test_models_agree_where_all_weeks_are_alike(days: int) -> None:
    """Then there is only one answer."""
    assert seasonal_naive(WEEK * 4, days) == weekday_mean(WEEK * 4, days)


def test_a_fitted_model_follows_the_weeks() -> None:
    """What the extra brings must be better than a mean of days, or nobody should install it."""
    pytest.importorskip("statsforecast", reason="optional: the extra forecast is not installed")
    noisy = [amount * 100 + Random(place).randint(-300, 300) for place, amount in enumerate(WEEK * 10)]
    said = fitted(noisy, 7)
    assert len(said) == 7
    assert all(abs(a - 100 * b) < 1_500 for a, b in zip(said, WEEK, strict=True))
