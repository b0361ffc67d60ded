"""Rounding: what is printed adds up as printed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.text.words import apportion, apportion_tree, money, nearest

AMOUNTS = st.lists(st.integers(-(10**15), 10**15), min_size=1, max_size=12)
TREES = st.lists(st.lists(st.integers(0, 10**15), max_size=8), min_size=1, max_size=6)


@given(st.integers(-(10**18), 10**18), st.integers(1, 10**9))
def test_nearest_is_at_most_half_away(numerator: int, denominator: int) -> None:
    """A rounded figure that is off by more than half a unit would be a wrong figure."""
    assert abs(2 * (nearest(numerator, denominator) * denominator - numerator)) <= denominator


@given(AMOUNTS, st.integers(1, 10**9))
def test_parts_sum_to_the_rounded_total(amounts: list[int], denominator: int) -> None:
    """A column that does not add up on the page is the first thing that finance sees."""
    total = nearest(sum(amounts), denominator)
    assert sum(apportion(total, amounts, denominator)) == total


@given(AMOUNTS, st.integers(1, 10**9))
def test_each_part_is_its_value_rounded_up_or_down(amounts: list[int], denominator: int) -> None:
    """Adding up must not be bought by moving a figure away from its value."""
    total = nearest(sum(amounts), denominator)
    for amount, part in zip(amounts, apportion(total, amounts, denominator), strict=True):
        assert amount // denominator <= part <= -(-amount // denominator)


@given(TREES, st.integers(1, 10**9))
def test_members_sum_to_their_group_and_groups_to_the_total(tree: list[list[int]], denominator: int) -> None:
    """Class lines stand above their rows: both sums are checked by readers."""
    total = nearest(sum(map(sum, tree)), denominator)
    groups, members = apportion_tree(total, tree, denominator)
    assert sum(groups) == total
    assert [sum(group) for group in members] == groups


@given(AMOUNTS)
def test_exact_values_stay(amounts: list[int]) -> None:
    """With nothing to round, nothing may move."""
    assert apportion(sum(amounts), amounts, 1) == amounts


@pytest.mark.parametrize("currency", ["JPY", "KRW", "VND", "CLP"])
def test_a_currency_without_cents_is_shown_without(currency: str) -> None:
    """Nobody pays a hundredth of a yen; a rate that asks for more places keeps them."""
    assert "." not in money(9_452_330_000, currency)
    assert money(390_500_000, "JPY") == "¥391"
    assert money(390_500_000, "USD") == "$390.50"
    assert money(12_500, currency, 4).endswith("0.0125")
