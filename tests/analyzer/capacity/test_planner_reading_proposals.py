"""A proposal comes from anybody: what is not exactly a proposal is refused with a sentence that says which part."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.capacity.planner.problem import ProposalError
from analyzer.capacity.planner.proposal import Claims, Placed, Proposal, read_proposal

PLACED = {"task": "a", "node": "n", "start_seconds": 0}


def test_all_that_a_proposal_may_say() -> None:
    """Amounts are dollars where a model writes them, and millionths here; what is left out stays unknown."""
    said = {
        "problem": "0123456789abcdef",
        "placements": [PLACED, PLACED | {"task": "b", "end_seconds": 60}],
        "makespan_seconds": 60,
        "cost_usd": 12.345678,
        "savings_usd": -3,
    }
    assert read_proposal(json.dumps(said)) == Proposal(
        (Placed("a", "n", 0), Placed("b", "n", 0, 60)), Claims(60, 12_345_678, -3_000_000), "0123456789abcdef"
    )
    assert read_proposal(b'{"placements": []}') == Proposal(())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "cannot be read as JSON"),
        ("[]", "the proposal must be a JSON object with problem, placements"),
        ("{}", "'placements' must be a list"),
        ('{"placements": [1]}', "placement 1 must be a JSON object"),
        ('{"placments": []}', "unknown field 'placments'; did you mean 'placements'?"),
        ('{"placements": [], "apply": true}', "unknown field 'apply'; it may have problem"),
        ('{"placements": [], "placements": []}', "a key occurs twice"),
        (json.dumps({"placements": [PLACED | {"gpu": 1}]}), "placement 1: unknown field 'gpu'"),
        (json.dumps({"placements": [{"task": "a", "node": "n"}]}), "'start_seconds' is missing"),
        (json.dumps({"placements": [PLACED | {"start_seconds": 1.5}]}), "must be a whole number of seconds"),
        (json.dumps({"placements": [PLACED | {"start_seconds": True}]}), "must be a whole number of seconds"),
        (json.dumps({"placements": [PLACED | {"start_seconds": "3 h"}]}), "must be a whole number of seconds"),
        (json.dumps({"placements": [PLACED | {"start_seconds": 10**11}]}), "must be a whole number of seconds"),
        (json.dumps({"placements": [PLACED | {"node": ""}]}), "'node' must be text of 1 to 200 printable"),
        (json.dumps({"placements": [PLACED | {"node": "n\x1b[2J"}]}), "printable characters"),
        ('{"placements": [{"task": "\\ud800", "node": "n", "start_seconds": 0}]}', "printable characters"),
        (json.dumps({"placements": [PLACED | {"task": "a" * 201}]}), "'task' must be text of 1 to 200"),
        ('{"placements": [], "cost_usd": NaN}', "NaN is not a valid number"),
        ('{"placements": [], "cost_usd": 1e999}', "'cost_usd' must be an amount in dollars"),
        ('{"placements": [], "cost_usd": 1e-99999999999999999999}', "cannot be read as JSON"),
        ('{"placements": [], "makespan_seconds": ' + "9" * 5000 + "}", "cannot be read as JSON"),
        ("[" * 100_000, "nested too deeply"),
        (" " * 1_000_001, "send no more than 1,000,000"),
        (json.dumps({"placements": [0] * 10_001}), "propose no more than 10,000"),
    ],
)
def test_what_is_no_proposal_is_refused_with_a_sentence(text: str, says: str) -> None:
    """Unknown fields are refused: who sends one believes that it does something."""
    with pytest.raises(ProposalError, match=re.escape(says)):
        read_proposal(text)


def test_bytes_that_are_no_text_are_refused() -> None:
    """A file of another kind is told apart from a proposal with a mistake in it."""
    with pytest.raises(ProposalError, match="cannot be read as JSON"):
        read_proposal(b"\xff\xfe")


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["placements", "task", "node", "start_seconds", "cost_usd", "problem", "x"]),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@given(values)
def test_nothing_but_our_own_error_comes_out(said: object) -> None:
    """Whatever is sent, the door answers with a sentence or a proposal."""
    try:
        read_proposal(json.dumps(said))
    except ProposalError:
        return
    assert isinstance(said, dict)
    assert isinstance(said["placements"], list)
