"""Localities: how far bytes went, as far as that is known."""

import pytest

from analyzer.measures.traffic.matrix import ClassBytes, HostLocation, between, by_class, locality

HERE = HostLocation("r1", "b1", "z1", "eu")
PLACES = {
    "n1": HERE,
    "n2": HERE,
    "rack": HostLocation("r2", "b1", "z1", "eu"),
    "block": HostLocation("r9", "b2", "z1", "eu"),
    "zone": HostLocation("r1", "b1", "z2", "eu"),
    "region": HostLocation("r1", "b1", "z1", "us"),
    "unplaced": HostLocation(),
    "zoned": HostLocation(zone="z1", region="eu"),
    "far": HostLocation(zone="z2"),
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
    assert between(HostLocation(), HostLocation()) == "unknown"
    assert between(HostLocation(zone="z"), HostLocation(zone="z")) == "unknown"


def test_classes_are_added_up_from_near_to_far() -> None:
    """Estimates stay marked."""
    one = by_class([("unknown", 1, False), ("rack", 5, True), ("rack", 7, False), ("internet", 0, False)])
    assert one == (ClassBytes("rack", 12, 5), ClassBytes("unknown", 1, 0))
