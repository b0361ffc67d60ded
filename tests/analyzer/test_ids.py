"""Short ids: typed by people, quoted in mails, and the same next week."""

from hypothesis import given
from hypothesis import strategies as st

from analyzer.ids import short_id


def test_an_id_is_the_same_in_every_release() -> None:
    """Somebody wrote it into a ticket: changing the digest would break every link to it."""
    assert short_id("f", "llama-sft", "team-nlp", "starved", "preprocessing") == "f-4pbn"


@given(st.lists(st.text(max_size=20), max_size=5))
def test_an_id_can_be_read_aloud_and_typed(parts: list[str]) -> None:
    """Four letters, none of which is mistaken for another: no i, l, o, u, 0 or 1."""
    prefix, dash, letters = short_id("r", *parts).partition("-")
    assert (prefix, dash, len(letters)) == ("r", "-", 4)
    assert set(letters) <= set("abcdefghjkmnpqrstvwxyz23456789")


def test_where_one_part_ends_matters() -> None:
    """Parts that run together would give two things one id."""
    assert short_id("f", "a", "bc") != short_id("f", "ab", "c")


def test_a_fleets_worth_of_findings_have_ids_of_their_own() -> None:
    """Thirty letters to the fourth are 810,000: some hundred findings of a week hardly ever meet."""
    made = {short_id("f", f"run-{number}", "team", "starved", "storage") for number in range(200)}
    assert len(made) == 200
