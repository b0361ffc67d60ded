"""What a file says must be possible, whoever signed it: pages and gates count on it."""

from dataclasses import replace

import pytest

from analyzer.capacity.profile.facts import CapacityProfile, Free
from analyzer.capacity.profile.sense import check
from analyzer.errors import ProfileError
from tests.capacity.profile.example import BOOKED, EXAMPLE

assert EXAMPLE.data_path is not None
assert EXAMPLE.runs


def test_the_example_makes_sense() -> None:
    """Else the cases below would prove nothing."""
    check(EXAMPLE)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (replace(EXAMPLE, timezone="Europe/../../etc/passwd"), "timezone"),
        (replace(EXAMPLE, until_us=2**62), "no date"),
        (replace(EXAMPLE, until_us=EXAMPLE.since_us), "is not after"),
        (replace(EXAMPLE, booked=(replace(BOOKED[0], klass="avoidable"), *BOOKED[1:])), "avoidable/productive"),
        (replace(EXAMPLE, booked=(replace(BOOKED[0], state="resting"), *BOOKED[1:])), "does not know"),
        (replace(EXAMPLE, booked=BOOKED[1:]), "does not add up to profile.milliseconds"),
        (replace(EXAMPLE, runs=EXAMPLE.runs[1:]), "profile.runs does not add up"),
        (replace(EXAMPLE, micros=1), "does not add up to profile.micros"),
        (replace(EXAMPLE, booked=(replace(BOOKED[0], micros=-1), *BOOKED[1:])), "negative"),
        (replace(EXAMPLE, measured_ratio=9.0), "share"),
        (replace(EXAMPLE, data_path=replace(EXAMPLE.data_path, limit="weather")), "limit"),
        (replace(EXAMPLE, scaling=EXAMPLE.scaling[::-1]), "smallest first"),
        (replace(EXAMPLE, free=(Free("H100-80GB", 8, 1.0, 0, "soon", 0),)), "is no day"),
    ],
)
def test_what_cannot_be_is_refused(made: CapacityProfile, said: str) -> None:
    """A class that is not the state's would pass waste for useful time."""
    with pytest.raises(ProfileError, match=said):
        check(made)
