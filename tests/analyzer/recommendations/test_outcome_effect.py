"""Intervals hold what they promise: simulated, with a seed, and the tolerance said."""

from math import exp, log
from random import Random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st

from analyzer.recommendations.lifecycle.outcome import (
    Intervals,
    before_after,
    by_t,
    difference,
    runs_needed,
    spread_of,
    welch,
)

TIMES = 400
# Of 400 independent draws a rate of 0.8 varies by 0.02 and one of 0.95 by 0.011 (standard deviations); three of them.
TOLERANCE = {0.8: 0.06, 0.95: 0.033}
COSTS = st.lists(st.floats(0.01, 1e6), min_size=5, max_size=12)


def simulated(seed: int, runs: tuple[int, int], spread: float, change: float = 0.0) -> tuple[list[float], list[float]]:
    """Return logarithms of costs of runs before and after a change."""
    random, (before, after) = Random(seed), runs
    return [random.gauss(3, spread) for _ in range(before)], [random.gauss(3 + change, spread) for _ in range(after)]


def of_t(before: list[float], after: list[float]) -> Intervals:
    """Return what a before/after is told by, without the draws beside it."""
    return by_t(fmean(after) - fmean(before), *welch(before, after))


def covered(found: list[Intervals], truth: float) -> dict[float, float]:
    """Return how often each interval held the truth."""

    def rate(level: float) -> float:
        spans = [one.likely if level == 0.8 else one.sure for one in found]
        return sum(span.low <= truth <= span.high for span in spans) / len(spans)

    return {level: rate(level) for level in TOLERANCE}


@pytest.mark.parametrize(("before", "after"), [(5, 5), (5, 12), (20, 8)])
def test_without_an_effect_the_intervals_cover_zero_as_often_as_they_say(before: int, after: int) -> None:
    """An interval that is too narrow finds savings where there are none."""
    found = [of_t(*simulated(seed, (before, after), 0.2)) for seed in range(TIMES)]
    for level, rate in covered(found, 0.0).items():
        assert rate == pytest.approx(level, abs=TOLERANCE[level])


@pytest.mark.parametrize(("changed", "others"), [(1, 5), (1, 12), (3, 8)])
def test_the_difference_covers_zero_as_often_as_it_says(changed: int, others: int) -> None:
    """With one changed run the others' spread is all there is, and it is enough."""

    def one(seed: int) -> Intervals:
        random = Random(seed)
        moved = 0.3  # all of them, together: what a before/after would take for an effect
        mine, theirs = ([random.gauss(moved, 0.1) for _ in range(count)] for count in (changed, others))
        return difference(mine, theirs, draws=40).by_t

    for level, rate in covered([one(seed) for seed in range(TIMES)], 0.0).items():
        assert rate == pytest.approx(level, abs=TOLERANCE[level])


def test_a_saving_of_a_fifth_is_found() -> None:
    """At a spread of 10% and the runs that the rule of thumb asks for, four times in five and more."""
    runs = runs_needed(0.1, 0.2)
    assert runs == 4
    sides = [simulated(seed, (8, 8), 0.1, log(0.8)) for seed in range(TIMES)]
    found = [of_t(*both) for both in sides]
    assert sum(one.sure.high < 0 for one in found) / TIMES > 0.9
    assert covered(found, log(0.8))[0.95] == pytest.approx(0.95, abs=TOLERANCE[0.95])
    effects = [before_after(*both) for both in sides[:40]]
    assert sum(one.saved for one in effects) / 40 == pytest.approx(0.2, abs=0.03)
    # The draws are the narrower of the two with few runs: they stand beside, and decide nothing.
    assert sum(one.by_draws.sure.low <= log(0.8) <= one.by_draws.sure.high for one in effects) / 40 > 0.75


def test_a_saving_is_found_against_others_that_grew_dearer() -> None:
    """A before/after alone would say that nothing was saved."""
    random = Random(7)
    found = difference([log(0.8) + 0.2], [random.gauss(0.2, 0.03) for _ in range(12)])
    assert found.is_shown
    assert found.saved == pytest.approx(0.2, abs=0.03)


@given(COSTS)
@profile(max_examples=20)
def test_what_is_the_same_saved_nothing(costs: list[float]) -> None:
    """The same runs before and after: the estimate is nothing, and the interval holds it."""
    values = [log(cost) for cost in costs]
    effect = before_after(values, values)
    assert effect.change == 0
    assert effect.saved == 0
    assert not effect.is_shown


@given(COSTS, COSTS, st.floats(0.001, 1000))
@profile(max_examples=20)
def test_no_scale_changes_the_answer(before: list[float], after: list[float], factor: float) -> None:
    """Dollars or cents, steps or thousands of tokens: the share that was saved is one."""
    plain = before_after([log(one) for one in before], [log(one) for one in after])
    scaled = before_after([log(one * factor) for one in before], [log(one * factor) for one in after])
    for one, other in zip(
        (plain.by_t.likely, plain.by_t.sure, plain.by_draws.sure),
        (scaled.by_t.likely, scaled.by_t.sure, scaled.by_draws.sure),
        strict=True,
    ):
        assert (other.low, other.high) == pytest.approx((one.low, one.high), abs=1e-9, rel=1e-9)


@given(COSTS, COSTS)
@profile(max_examples=20)
def test_the_other_way_round_is_the_same_the_other_way_round(before: list[float], after: list[float]) -> None:
    """Undoing a change costs what it saved."""
    there = before_after([log(one) for one in before], [log(one) for one in after])
    back = before_after([log(one) for one in after], [log(one) for one in before])
    assert back.change == pytest.approx(-there.change)
    assert (-back.by_t.sure.high, -back.by_t.sure.low) == pytest.approx((there.by_t.sure.low, there.by_t.sure.high))
    assert there.by_t.sure.low <= there.by_t.likely.low <= there.change <= there.by_t.likely.high


def test_runs_that_do_not_vary_need_no_interval() -> None:
    """Nothing is divided by a spread of nothing."""
    effect = before_after([1.0] * 5, [log(0.5) + 1.0] * 5)
    assert effect.saved == pytest.approx(0.5)
    assert effect.by_t.sure.low == effect.by_t.sure.high == effect.change
    assert exp(effect.change) == pytest.approx(0.5)


def test_the_runs_that_it_takes_are_those_of_the_rule_of_thumb() -> None:
    """CV 20%, effect 10%: 64 runs an arm; what is not to be had in ten thousand is not promised."""
    assert runs_needed(0.2, 0.1) == 64
    assert runs_needed(0.2, 0.0) is None
    assert runs_needed(5.0, 0.001) is None
    assert spread_of([1.0, 2.0, 3.0], [10.0, 11.0, 12.0]) == pytest.approx(1.0)
    assert spread_of([1.0], [2.0]) is None
