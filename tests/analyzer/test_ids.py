"""Short ids: typed by people, quoted in mails, and the same next week."""

import re
from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.errors import LedgerError
from analyzer.ids import LENGTH, LONGEST, by_id, pattern, short_id


@dataclass(frozen=True)
class Thing:
    """Anything with an id."""

    id: str


THINGS = [Thing("f-4pbn2"), Thing("f-4pbn2k"), Thing("f-4pbnz"), Thing("f-7kq2x")]


def test_an_id_is_the_same_in_every_release() -> None:
    """Somebody wrote it into a ticket: changing the digest would break every link to it."""
    assert short_id("f", "llama-sft", "team-nlp", "starved", "preprocessing") == "f-4pbng"


@given(st.lists(st.text(max_size=20), max_size=5), st.integers(4, LONGEST))
def test_an_id_can_be_read_aloud_and_typed(parts: list[str], length: int) -> None:
    """Letters of which none is mistaken for another: no i, l, o, u, 0 or 1; and the fewer begin the more."""
    one = short_id("r", *parts, length=length)
    prefix, dash, letters = one.partition("-")
    assert (prefix, dash, len(letters)) == ("r", "-", length)
    assert set(letters) <= set("abcdefghjkmnpqrstvwxyz23456789")
    assert short_id("r", *parts, length=LONGEST).startswith(one)
    assert re.search(pattern("r"), one)


def test_where_one_part_ends_matters() -> None:
    """Parts that run together would give two things one id."""
    assert short_id("f", "a", "bc") != short_id("f", "ab", "c")


def test_a_finding_of_ten_thousand_hardly_ever_shares_its_letters() -> None:
    """Fewer than 1 in 1,000 of 10,000 do; four letters would be shared by 1 in 81."""
    made = [short_id("f", f"run-{number}", "team", "starved", "storage") for number in range(10_000)]
    shared = {"now": LENGTH, "before": 4}
    for name, length in shared.items():
        cut = Counter(one[: len("f-") + length] for one in made)
        shared[name] = sum(count for count in cut.values() if count > 1)
    assert shared["now"] < 10 < 100 < shared["before"] < 150


def test_an_id_of_former_releases_is_the_beginning_of_todays() -> None:
    """A ticket of last year names f-7kq2; whoever types that means the one finding that begins so."""
    assert by_id(THINGS, "f-7kq2", "absent") == THINGS[3]
    assert by_id(THINGS, "f-4pbn2", "absent") == THINGS[0]  # its very own, though another begins with it


@pytest.mark.parametrize(
    ("typed", "says"), [("f-4pbn", "f-4pbn2 or f-4pbn2k or f-4pbnz"), ("f-7kq", "absent"), ("", "absent")]
)
def test_a_beginning_that_several_have_or_none_is_refused(typed: str, says: str) -> None:
    """Judging the wrong finding would be worse than typing one more letter."""
    with pytest.raises(LedgerError, match=says):
        by_id(THINGS, typed, "absent")
