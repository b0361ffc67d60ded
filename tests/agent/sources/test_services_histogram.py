"""Percentiles of an interval: from what was observed in it alone, and never outside what the buckets say."""

import math
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.sources.service_page import Buckets, Sample, histogram_delta, merged, quantile

BOUNDS = (0.1, 0.5, 1.0, math.inf)
COUNTS = st.lists(st.integers(0, 1000), min_size=4, max_size=4)


def buckets(*inside: float) -> Buckets:
    """Return a histogram of as many observations in each bucket."""
    return dict(zip(BOUNDS, accumulate(inside), strict=True))


@pytest.mark.parametrize(
    ("inside", "share", "value"),
    [
        ((10, 0, 0, 0), 0.5, 0.05),
        ((10, 10, 0, 0), 0.5, 0.1),
        ((10, 10, 0, 0), 0.75, 0.3),
        ((0, 0, 4, 0), 0.25, 0.625),
        ((1, 0, 0, 99), 0.99, 1.0),
        ((0, 0, 0, 5), 0.5, 1.0),
    ],
)
def test_a_percentile(inside: tuple[int, ...], share: float, value: float) -> None:
    """Spread evenly within its bucket; beyond the last bound it is at least that bound."""
    assert quantile(buckets(*inside), share) == pytest.approx(value)


@given(COUNTS.filter(any), st.floats(0, 1), st.floats(0, 1))
def test_percentiles_are_in_order_and_within_bounds(inside: list[int], first: float, second: float) -> None:
    """A p99 below the p50 would be noticed by everybody, and believed by nobody."""
    low, high = sorted([first, second])
    assert 0 <= quantile(buckets(*inside), low) <= quantile(buckets(*inside), high) <= 1.0


@given(COUNTS, COUNTS)
def test_what_moved_is_what_was_added(before: list[int], added: list[int]) -> None:
    """Observations from before the interval do not shine through."""
    now = buckets(*(old + new for old, new in zip(before, added, strict=True)))
    assert histogram_delta(buckets(*before), now) == (buckets(*added) if any(added) else None)


def test_a_histogram_that_began_anew_says_nothing() -> None:
    """The server was restarted: what it saw until then is not known."""
    assert histogram_delta(buckets(5, 5, 0, 0), buckets(1, 0, 0, 0)) is None
    assert histogram_delta(buckets(5, 5, 0, 0), {0.1: 20.0, math.inf: 20.0}) is None


def test_series_are_added_up_where_their_bounds_agree() -> None:
    """Two engines are one replica; two versions behind one address cannot be compared."""
    first = [Sample({"engine": "0", "le": le}, 2.0) for le in ("0.1", "+Inf")]
    second = [Sample({"engine": "1", "le": le}, 3.0) for le in ("0.1", "+Inf")]
    assert merged([*first, *second]) == {0.1: 5.0, math.inf: 5.0}
    assert merged([*first, *second[1:]]) is None
    assert merged([]) is None
    assert merged([Sample({"le": "0.1"}, 1.0)]) is None, "without the last bound nobody knows how many there were"
    assert merged([Sample({"le": "wide"}, 1.0), Sample({}, 1.0)]) is None
