"""What the pieces of a gang count together: true of every way to divide it, or a bound would be above a plan."""

from collections import Counter
from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from analyzer.placement.gang.counts import Count, counts_of


def _divided(units: int, largest: int) -> Iterator[tuple[int, ...]]:
    """Return every way to divide units into pieces, each no larger than the last."""
    if units == 0:
        yield ()
    for piece in range(min(units, largest), 0, -1):
        for rest in _divided(units - piece, piece):
            yield (piece, *rest)


@given(st.integers(1, 20), st.dictionaries(st.integers(0, 9), st.integers(1, 50)))
@settings(max_examples=100, deadline=None)
def test_every_way_to_divide_a_gang_counts_enough(units: int, rooms: dict[int, int]) -> None:
    """One that counted less would be cut off: the bound would be above the plan that divides so."""
    largest = min(units, max(rooms, default=0))
    for count in counts_of(units, Counter(rooms)):
        for pieces in _divided(units, largest):
            assert sum(count.of[piece - 1] for piece in pieces) >= count.least


def test_sixteen_units_lie_in_two_bins_of_eight_or_in_three() -> None:
    """By hand, of bins of 7 and 8: 8 + 8, 8 + 7 + 1 and 7 + 7 + 2 count six, and no fraction of a bin counts less."""
    assert counts_of(16, Counter({7: 2, 8: 1})) == (Count((1, 2, 2, 2, 2, 2, 2, 3), 6),)


def test_a_gang_that_any_bin_can_hold_needs_no_count() -> None:
    """Each count is a row of the programme, and rows that say nothing cost time."""
    assert counts_of(4, Counter({7: 2, 8: 1})) == ()
    assert counts_of(8, Counter({8: 3})) == ()
