"""What a file says must be possible, whoever signed it: pages and gates count on it."""

from dataclasses import replace

import pytest

from analyzer.capacity.profile.canonical_json import check
from analyzer.capacity.profile.facts import CapacityProfile, Free, Represented
from analyzer.errors import ProfileError
from tests.analyzer.capacity.profile_example import BOOKED, EXAMPLE

assert EXAMPLE.data_path is not None
assert EXAMPLE.runs


def parted(less: int) -> Represented:
    """Return the first run as if it had been idle for so many milliseconds less than all of its time.

    All three of them together were not idle for so long.
    """
    run = EXAMPLE.runs[0]
    return replace(run, booked=(replace(BOOKED[2], milliseconds=run.milliseconds - less),))


def negative() -> Represented:
    """Return the first run with a part below nothing, made up for by another."""
    run = EXAMPLE.runs[0]
    parts = (replace(BOOKED[0], milliseconds=run.milliseconds + 5), replace(BOOKED[1], milliseconds=-5))
    return replace(run, booked=parts)


def test_the_example_makes_sense() -> None:
    """Else the cases below would prove nothing."""
    check(EXAMPLE)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (replace(EXAMPLE, timezone="Europe/../../etc/passwd"), "timezone"),
        (replace(EXAMPLE, until_us=2**62), "not a valid date"),
        (replace(EXAMPLE, until_us=EXAMPLE.since_us), "is not after"),
        (replace(EXAMPLE, booked=(replace(BOOKED[0], klass="avoidable"), *BOOKED[1:])), "avoidable/productive"),
        (replace(EXAMPLE, booked=(replace(BOOKED[0], state="resting"), *BOOKED[1:])), "does not know"),
        (replace(EXAMPLE, booked=BOOKED[1:]), "does not add up to profile.milliseconds"),
        (replace(EXAMPLE, runs=EXAMPLE.runs[1:]), "profile.runs does not add up"),
        (replace(EXAMPLE, runs=(parted(1), *EXAMPLE.runs[1:])), "do not add up to its milliseconds"),
        (replace(EXAMPLE, runs=(parted(0), *EXAMPLE.runs[1:])), "runs do not add up to profile.booked"),
        (replace(EXAMPLE, runs=(negative(), *EXAMPLE.runs[1:])), "negative amount"),
        (replace(EXAMPLE, micros=1), "does not add up to profile.micros"),
        (replace(EXAMPLE, booked=(replace(BOOKED[0], micros=-1), *BOOKED[1:])), "negative"),
        (replace(EXAMPLE, measured_ratio=9.0), "share"),
        (replace(EXAMPLE, data_path=replace(EXAMPLE.data_path, limit="weather")), "limit"),
        (replace(EXAMPLE, scaling=EXAMPLE.scaling[::-1]), "ascending order"),
        (replace(EXAMPLE, free=(Free("H100-80GB", 8, 1.0, 0, "soon", 0),)), "is not a date"),
    ],
)
def test_what_cannot_be_is_refused(made: CapacityProfile, said: str) -> None:
    """A class that is not the state's would pass waste for useful time."""
    with pytest.raises(ProfileError, match=said):
        check(made)
