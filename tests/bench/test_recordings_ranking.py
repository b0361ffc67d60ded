"""The coefficients say what textbooks say; ties are the case that is easily got wrong."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.truth.real.ranking import kendall, parting, ranks, spearman

VALUES = st.lists(st.integers(-50, 50).map(float), min_size=2, max_size=20)


def test_equal_values_share_their_mean_rank() -> None:
    """Two that stand second and third are both at two and a half."""
    assert ranks([10.0, 30.0, 20.0, 20.0]) == [1.0, 4.0, 2.5, 2.5]


def test_one_exchange_of_neighbours_in_five() -> None:
    """Spearman 0.9 and Kendall 0.8: what the checks of five epochs allow."""
    first, second = [1.0, 2.0, 3.0, 4.0, 5.0], [1.0, 3.0, 2.0, 4.0, 5.0]
    assert spearman(first, second) == pytest.approx(0.9)
    assert kendall(first, second) == pytest.approx(0.8)


@given(VALUES)
def test_an_order_agrees_with_itself_and_not_with_its_reverse(values: list[float]) -> None:
    """Whatever keeps the order keeps the coefficient; what does not vary has none."""
    if len(set(values)) == 1:
        assert spearman(values, values) is None
        assert kendall(values, values) is None
        return
    assert spearman(values, [value**3 + 2 for value in values]) == pytest.approx(1)
    assert kendall(values, [-value for value in values]) == pytest.approx(-1)


@given(VALUES, VALUES)
def test_one_group_is_above_as_often_as_the_other_is_not(above: list[float], below: list[float]) -> None:
    """Every pair is won, lost or halved."""
    there, back = parting(above, below), parting(below, above)
    assert there is not None
    assert back is not None
    assert there + back == pytest.approx(1)


def test_an_empty_group_parts_nothing() -> None:
    """None, and not the half that a coin would give."""
    assert parting([], [1.0]) is None
