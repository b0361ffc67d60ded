"""Rings: how often an order of ranks crosses racks."""

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from analyzer.measures.traffic.matrix import contiguous, crossings, interleaved, next_hosts, ring

SIXTEEN = [f"n{number:02}" for number in range(1, 17)]
BY_HALVES = {host: f"rack-{1 + place // 8}" for place, host in enumerate(SIXTEEN)}
ALTERNATING = {host: f"rack-{1 + place % 2}" for place, host in enumerate(SIXTEEN)}


def test_a_ring_crosses_eight_times_as_often_where_racks_alternate() -> None:
    """16 hosts in two racks: by halves, or every other one."""
    together, mixed = ring("rack", SIXTEEN, BY_HALVES), ring("rack", SIXTEEN, ALTERNATING)
    assert (together.crossings, together.contiguous, together.interleaved) == (2, 2, 16)
    assert (mixed.crossings, mixed.contiguous, mixed.interleaved) == (16, 2, 16)


def test_a_host_of_unknown_rack_makes_the_ring_unknown() -> None:
    """It may stand anywhere: no crossing is claimed, and the host is named."""
    found = ring("rack", ["n04", "n05", "n06"], {"n04": "rack-1", "n06": "rack-1"})
    assert (found.crossings, found.contiguous, found.places) == (None, None, None)
    assert found.missing == "the rack of n05 is unknown"
    two = ring("block", ["n04", "n05", "n06"], {"n04": "b"})
    assert two.missing == "the block of n05 and of 1 more is unknown"


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=6))
def test_best_and_worst_orders_are_those_of_all_orders(order: list[str]) -> None:
    """What is said of contiguous and interleaved rings is what trying every order finds."""
    counts = [order.count(place) for place in sorted(set(order))]
    every = {crossings(each) for each in permutations(order)}
    assert min(every) == contiguous(counts)
    assert max(every) == interleaved(counts)
    assert crossings(order) in every


def test_a_ring_closes() -> None:
    """The last host sends to the first; one host alone sends to nobody."""
    assert next_hosts(["a", "b", "c"]) == {"a": "b", "b": "c", "c": "a"}
    assert next_hosts(["a"]) == {}
