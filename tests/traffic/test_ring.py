"""Rings: how often an order of ranks crosses racks, and what that moves."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.traffic.evidence import ring_evidence
from analyzer.traffic.ring import (
    Collective,
    contiguous,
    crossing_bytes,
    crossings,
    factor,
    interleaved,
    next_hosts,
    ring,
)

GB = 1_000_000_000
SIXTEEN = [f"n{number:02}" for number in range(1, 17)]
BY_HALVES = {host: f"rack-{1 + place // 8}" for place, host in enumerate(SIXTEEN)}
ALTERNATING = {host: f"rack-{1 + place % 2}" for place, host in enumerate(SIXTEEN)}


def test_seven_billion_gradients_cross_eight_times_as_often_where_racks_alternate() -> None:
    """14 GB of gradients on 16 hosts in two racks: 52.5 GB a step over the racks' border, or 420 GB."""
    together, mixed = ring("rack", SIXTEEN, BY_HALVES), ring("rack", SIXTEEN, ALTERNATING)
    assert (together.crossings, together.contiguous, together.interleaved) == (2, 2, 16)
    assert (mixed.crossings, mixed.contiguous, mixed.interleaved) == (16, 2, 16)
    assert crossing_bytes("all_reduce", 14 * GB, 16, 2) == 52_500_000_000
    assert crossing_bytes("all_reduce", 14 * GB, 16, 16) == 420_000_000_000


@pytest.mark.parametrize(
    ("collective", "expected"),
    [
        ("all_reduce", (14, 8)),
        ("all_reduce_in_network", (7, 9)),
        ("reduce_scatter", (7, 8)),
        ("all_gather", (7, 8)),
        ("all_to_all", (7, 8)),
        ("broadcast", (1, 1)),
    ],
)
def test_factors_are_those_of_nccl_tests(collective: Collective, expected: tuple[int, int]) -> None:
    """doc/PERFORMANCE.md of nccl-tests, for eight ranks; one rank alone moves nothing."""
    assert factor(collective, 8) == expected
    assert crossing_bytes(collective, GB, 1, 1) == 0


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


def test_evidence_of_a_ring_names_racks_and_crossings() -> None:
    """An engineer sees where the ranks stand, and what ordering them would change."""
    where, circle = ring_evidence(SIXTEEN, ALTERNATING)
    assert (where.what, where.seen) == ("ranks by rack", "rack-1: 8 hosts, rack-2: 8 hosts")
    assert (circle.seen, circle.verdict) == ("changes rack 16 times of 16; ordered by rack 2 times", "<- the limit")
    assert ring_evidence(SIXTEEN, BY_HALVES)[1].verdict == ""
    assert ring_evidence(SIXTEEN, {}) == ()
