"""Percentiles of an interval: from what was observed in it alone, and never outside what the buckets say."""

import math
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.sources.service_page import FIRST_RESPONSE, Buckets, Quantile, SeriesKey, quantile
from agent.sources.service_page import buckets as buckets_of

BOUNDS = (0.1, 0.5, 1.0, math.inf)
COUNTS = st.lists(st.integers(0, 1000), min_size=4, max_size=4)


def buckets(*inside: float) -> Buckets:
    """Return a histogram of as many observations in each bucket."""
    return dict(zip(BOUNDS, accumulate(inside), strict=True))


def merged(moved: dict[SeriesKey, float]) -> Buckets | None:
    """Return the buckets of the first token."""
    return buckets_of(moved, FIRST_RESPONSE)


def series(inside: Buckets, **labels: str) -> dict[SeriesKey, float]:
    """Return a histogram as a page has it."""
    return {
        SeriesKey(FIRST_RESPONSE, "t_bucket", frozenset({("le", f"{bound:g}"), *labels.items()})): count
        for bound, count in inside.items()
    }


@pytest.mark.parametrize(
    ("inside", "share", "value"),
    [
        ((10, 0, 0, 0), 0.5, Quantile(0.0, 0.1, 0.05)),
        ((10, 10, 0, 0), 0.5, Quantile(0.0, 0.1, 0.1)),
        ((10, 10, 0, 0), 0.75, Quantile(0.1, 0.5, 0.30000000000000004)),
        ((0, 0, 4, 0), 0.25, Quantile(0.5, 1.0, 0.625)),
        ((1, 0, 0, 99), 0.99, Quantile(1.0, None, None)),
        ((0, 0, 0, 5), 0.5, Quantile(1.0, None, None)),
    ],
)
def test_a_percentile(inside: tuple[int, ...], share: float, value: Quantile) -> None:
    """Certainly within its bucket, estimated as spread evenly in it; beyond the last bound there is no estimate."""
    assert quantile(buckets(*inside), share) == value


@given(COUNTS.filter(any), st.floats(0, 1), st.floats(0, 1))
def test_percentiles_are_in_order_and_within_bounds(inside: list[int], first: float, second: float) -> None:
    """A p99 below the p50 would be noticed by everybody, and believed by nobody."""
    low, high = (quantile(buckets(*inside), share) for share in sorted([first, second]))
    assert 0 <= low.least <= high.least <= 1.0
    assert high.estimate is None or 0 <= (low.estimate or 0) <= high.estimate <= (high.most or 0)


@given(st.lists(st.floats(0.001, 3), min_size=1, max_size=60), st.floats(0.01, 0.99))
def test_a_percentile_lies_between_its_bounds(observed: list[float], share: float) -> None:
    """Whether a promise was kept is known from what lies certainly on either side."""
    counted = {bound: float(sum(value <= bound for value in observed)) for bound in BOUNDS}
    found = quantile(counted, share)
    exact = sorted(observed)[math.ceil(share * len(observed)) - 1]
    assert found.least < exact <= (found.most or math.inf)


def test_a_histogram_that_is_none_says_nothing() -> None:
    """Counts that fall from bound to bound are of no histogram, and nothing observed has no percentile."""
    assert merged(series({0.1: 5.0, 0.5: 3.0, math.inf: 5.0})) is None
    assert merged(series(buckets(0, 0, 0, 0))) is None


def test_series_are_added_up_where_their_bounds_agree() -> None:
    """Two engines are one replica; two versions behind one address cannot be compared."""
    first, second = series({0.1: 2.0, math.inf: 2.0}, engine="0"), series({0.1: 3.0, math.inf: 3.0}, engine="1")
    assert merged(first | second) == {0.1: 5.0, math.inf: 5.0}
    assert merged(first | dict(list(second.items())[1:])) is None
    assert merged({}) is None
    assert merged(series({0.1: 1.0})) is None, "without the last bound nobody knows how many there were"
    assert merged({SeriesKey(FIRST_RESPONSE, "t_bucket", frozenset({("le", "wide")})): 1.0}) is None
