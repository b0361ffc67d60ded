"""Money is divided without creating or losing a millionth."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.pricing.arithmetic import HOUR_MILLISECONDS, cost_micros, split

weights_strategy = st.lists(st.integers(0, 10**9), min_size=1, max_size=30).filter(any)


@given(total=st.integers(0, 10**15), weights=weights_strategy)
def test_parts_sum_to_their_whole(total: int, weights: list[int]) -> None:
    """The ledger's costs must sum to the price of what is owned, to the millionth."""
    assert sum(split(total, weights)) == total


@given(total=st.integers(0, 10**15), weights=weights_strategy)
def test_a_greater_weight_never_gets_less(total: int, weights: list[int]) -> None:
    """Who held longer must not be charged less; who held nothing is charged nothing."""
    by_weight = sorted(zip(weights, split(total, weights), strict=True))
    for (weight, share), (more_weight, more_share) in pairwise(by_weight):
        assert weight == more_weight or share <= more_share
    assert all(share == 0 for weight, share in by_weight if weight == 0)


@given(total=st.integers(0, 10**12), weights=weights_strategy)
def test_a_part_is_within_one_of_its_exact_share(total: int, weights: list[int]) -> None:
    """A remainder moves one millionth, never more."""
    for weight, share in zip(weights, split(total, weights), strict=True):
        assert abs(share * sum(weights) - total * weight) < sum(weights)


def test_ties_go_to_the_earlier_position() -> None:
    """The same input must give the same ledger, whatever the platform's sort does."""
    assert split(5, [1, 1, 1]) == [2, 2, 1]
    assert split(0, [0, 0]) == [0, 0]


def test_an_amount_without_a_taker_is_our_own_mistake() -> None:
    """Dropping it silently would break conservation."""
    with pytest.raises(ValueError, match="BUG"):
        split(1, [0, 0])


@given(micros=st.integers(0, 10**9))
def test_an_hour_costs_the_price_of_an_hour(micros: int) -> None:
    """The unit is a GPU-hour of 3,600,000 milliseconds."""
    assert cost_micros(HOUR_MILLISECONDS, micros) == micros


def test_halves_round_up() -> None:
    """One rule, the same in Python and SQL."""
    assert cost_micros(1, HOUR_MILLISECONDS // 2) == 1
    assert cost_micros(1, HOUR_MILLISECONDS // 2 - 1) == 0


@given(short=st.integers(0, 10**10), more=st.integers(0, 10**10), micros=st.integers(0, 10**9))
def test_longer_never_costs_less(short: int, more: int, micros: int) -> None:
    """Rounding keeps the order."""
    assert cost_micros(short, micros) <= cost_micros(short + more, micros)


def test_the_drawn_week_costs_what_the_screens_say() -> None:
    """128 H100 at $2.60 and 64 A100 at $1.10 for 168 hours are $67,737.60."""
    milliseconds = 168 * HOUR_MILLISECONDS
    assert 128 * cost_micros(milliseconds, 2_600_000) + 64 * cost_micros(milliseconds, 1_100_000) == 67_737_600_000
