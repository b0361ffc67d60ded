"""Localities: how far bytes went, as far as that is known."""

import pytest

from analyzer.measures.traffic.locality import ClassBytes, Place, between, by_class, locality

HERE = Place("r1", "b1", "z1", "eu")
PLACES = {
    "n1": HERE,
    "n2": HERE,
    "rack": Place("r2", "b1", "z1", "eu"),
    "block": Place("r9", "b2", "z1", "eu"),
    "zone": Place("r1", "b1", "z2", "eu"),
    "region": Place("r1", "b1", "z1", "us"),
    "unplaced": Place(),
    "zoned": Place(zone="z1", region="eu"),
    "far": Place(zone="z2"),
}


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        ("n2", "rack"),
        ("rack", "across_racks"),
        ("block", "across_blocks"),
        ("zone", "across_zones"),
        ("region", "across_regions"),
        ("unplaced", "unknown"),
        ("zoned", "unknown"),
        ("far", "across_zones"),
        ("nas1", "outside"),
        ("10.4.0.7", "outside"),
        ("fd00:213::1", "outside"),
        ("52.216.10.3", "internet"),
        ("2600:1f60::1", "internet"),
        ("other", "unknown"),
    ],
)
def test_a_class_is_the_widest_border_that_is_known_to_be_crossed(there: str, expected: str) -> None:
    """Both ways alike; a rack of the same name in another zone is another rack, an unknown one is not this one."""
    assert locality("n1", there, PLACES) == expected
    assert locality(there, "n1", PLACES) == expected


def test_hosts_of_unknown_rack_are_not_in_one_rack() -> None:
    """Two unknown racks are not equal."""
    assert between(Place(), Place()) == "unknown"
    assert between(Place(zone="z"), Place(zone="z")) == "unknown"


def test_classes_are_added_up_from_near_to_far() -> None:
    """Estimates stay marked."""
    one = by_class([("unknown", 1, False), ("rack", 5, True), ("rack", 7, False), ("internet", 0, False)])
    assert one == (ClassBytes("rack", 12, 5), ClassBytes("unknown", 1, 0))
