"""What people decide: the last word counts, and a rejection says since when."""

import pytest

from analyzer.errors import ConfigError
from analyzer.recommendations.lifecycle.lifecycle_tables import (
    Decision,
    Word,
    last_words,
    moment_of,
    rejected_at,
    said_applied,
)

NOON = 1_795_435_200_000_000  # 2026-11-23 12:00 UTC


def word(number: int, decision: Decision, applied_at: int | None = None, one: str = "r-aaaaa") -> Word:
    """Return the word that was said as the number-th."""
    return Word(f"w{number}", one, "p", decision, "why", applied_at, "cli:ada", number, None)


def test_the_last_word_counts() -> None:
    """Whoever rejects what was accepted takes back that it was done, too."""
    words = [word(2, "rejected"), word(1, "accepted", 7), word(1, "accepted", one="r-bbbbb")]
    assert last_words(words)["r-aaaaa"].word == "rejected"
    assert said_applied(words) == {}
    assert rejected_at(words) == {"r-aaaaa": 2}
    assert rejected_at([*words, word(3, "accepted", 9)]) == {}
    assert said_applied([*words, word(3, "accepted", 9)]) == {"r-aaaaa": 9}


def test_that_it_was_done_stays_when_it_is_accepted_again() -> None:
    """A second word without a moment is no news of when."""
    assert said_applied([word(1, "accepted", 7), word(2, "accepted")]) == {"r-aaaaa": 7}


def test_a_date_is_its_beginning_in_the_zone_of_the_site() -> None:
    """Who says the 12th means the midnight on which it began there."""
    assert moment_of("2026-11-23", "Europe/Berlin", NOON) == NOON - 13 * 3_600_000_000
    assert moment_of("2026-11-23T12:00+00:00", "Europe/Berlin", NOON) == NOON


@pytest.mark.parametrize("text", ["2026-11-24", "tomorrow", "2026-13-01", ""])
def test_what_has_not_come_or_is_no_date_is_refused(text: str) -> None:
    """What will be done is accepted, and not said to be done."""
    with pytest.raises(ConfigError, match="give"):
        moment_of(text, "UTC", NOON)
