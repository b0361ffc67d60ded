"""The verdict follows from the gates alone: no PASS while a required gate has failed or could not be evaluated."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.capacity.gate.decided import Decided, Gate, Outcome, Waiver, decided_of, line, verdict_of
from analyzer.capacity.gate.policy_check import check_request, with_waivers
from analyzer.capacity.gate.request import Request
from analyzer.capacity.gate.supply import History, Supply
from analyzer.capacity.gate.text import decided_text
from analyzer.errors import LedgerError
from analyzer.text.as_json import plain_data
from analyzer.text.layout import TextLayout
from tests.analyzer.capacity.gate_asking import HOUR_MS, NOW, decided, policy, profile, request

OUTCOMES = st.sampled_from(["PASS", "FAIL", "N/E"])
GATES = st.lists(st.tuples(OUTCOMES, st.booleans(), st.booleans(), st.booleans()), max_size=12)


@given(drawn=GATES)
def test_nothing_passes_that_stops(drawn: list[tuple[Outcome, bool, bool, bool]]) -> None:
    """Whatever is waived: only who may be waived and was waived stops nothing."""
    gates = tuple(
        Gate(f"g{number}", "", outcome, "", "", required, waivable)
        for number, (outcome, required, waivable, _) in enumerate(drawn)
    )
    waivers = tuple(Waiver(f"g{number}", "", "", "", 0) for number, (*_, waived) in enumerate(drawn) if waived)
    stops = [outcome for outcome, required, waivable, waived in drawn if required and not (waivable and waived)]
    verdict = verdict_of(gates, waivers)
    assert (verdict == "PASS") == (bool(gates) and set(stops) <= {"PASS"})
    assert (verdict == "FAIL") == ("FAIL" in stops)
    assert verdict_of(gates) == "PASS" or verdict_of(gates, waivers) in ("PASS", "FAIL", "INCOMPLETE")


def good() -> Decided:
    """Return what is decided on work that passes every gate but the optional one."""
    booked = profile().booked
    useful = replace(booked[0], milliseconds=profile().milliseconds - sum(each.milliseconds for each in booked[3:]))
    return decided(profile(booked=(useful, *booked[3:]), advice=()))


def test_what_passes_says_so() -> None:
    """An optional gate that nobody could evaluate stops nothing, and is named."""
    one = good()
    assert one.verdict == "PASS"
    assert one.headline == "All 11 required policy checks passed. Optional and not passed: cheaper GPU type."
    assert [option.letter for option in one.options if option.advised] == ["A"]
    assert "exit code 0" in decided_text(one, TextLayout(80, True), kept=False)


def test_waivers_are_counted_and_named() -> None:
    """Whoever reads PASS sees by whose word."""
    one, names = decided(), ("useful", "waiting", "recommendations")
    waivers = tuple(Waiver(name, "the release is in March", "k7", "approver", NOW) for name in names)
    assert with_waivers(one, waivers[:2]).verdict == "FAIL"
    passed = with_waivers(one, waivers)
    assert (passed.verdict, passed.headline[:60]) == (
        "PASS",
        "All 11 required policy checks passed, 3 of them by override.",
    )
    assert "k7 (approver), 21 Nov 2026" in decided_text(passed, TextLayout(80, True), kept=True)
    assert line(passed).endswith("PASS with overrides")


def test_an_edited_profile_stays_failed() -> None:
    """Its gate cannot be waived, also where somebody wrote a waiver into the registry."""
    one = decided(state="edited")
    waivers = tuple(Waiver(gate.name, "x", "k7", "approver", NOW) for gate in one.gates)
    assert with_waivers(one, waivers).verdict == "FAIL"


def test_incomplete_is_not_a_pass() -> None:
    """What could not be evaluated is named in the answer."""
    one = decided(profile(memory=(), advice=(), booked=good_booked()))
    assert one.verdict == "INCOMPLETE"
    assert one.headline == "memory peak could not be evaluated. That is not a pass."


def good_booked() -> tuple[object, ...]:
    """Return bookings that are nearly all useful."""
    (first, *_) = profile().booked
    return (replace(first, milliseconds=profile().milliseconds, micros=profile().micros),)


def asks_for_a_pilot(**changes: object) -> Request:
    """Return a request of a team without history."""
    said: dict[str, object] = {"pilot": True, "gpus": 8, "weeks": 2, "growth": None, "gpus_per_run": None}
    return request(**(said | changes))


def pilot(history: History | None, **changes: object) -> Decided:
    """Return what is decided on a pilot."""
    return check_request(asks_for_a_pilot(**changes), None, policy(), Supply(history=history), NOW)


NEW = History(0, 0, "the ledger")


def test_a_new_team_gets_a_small_pilot_on_a_condition() -> None:
    """Who has no history could otherwise never have one."""
    one = pilot(NEW)
    assert (one.verdict, one.pilot) == ("PASS", True)
    assert "a profile of what these GPUs did, 2 weeks after they are granted" in one.headline
    assert line(one).endswith("PASS as a pilot")


@pytest.mark.parametrize(
    ("history", "changes", "verdict"),
    [
        (NEW, {"gpus": 9}, "FAIL"),
        (NEW, {"weeks": 3}, "FAIL"),
        (History(50 * HOUR_MS, 0, ""), {}, "FAIL"),
        (History(50 * HOUR_MS - 1, 0, ""), {}, "PASS"),
        (History(0, 1, ""), {}, "FAIL"),
        (History(0, None, ""), {}, "INCOMPLETE"),
        (None, {}, "INCOMPLETE"),
    ],
)
def test_a_pilot_is_no_way_round_the_gates(history: History | None, changes: dict[str, object], verdict: str) -> None:
    """Neither large nor long, neither for who has a history nor twice, nor where nobody looked."""
    assert pilot(history, **changes).verdict == verdict


def test_a_decision_comes_back_as_it_was_kept() -> None:
    """The registry keeps it as data; and what is none of ours is told."""
    for one in (decided(), good(), pilot(NEW), with_waivers(decided(), (Waiver("useful", "x", "k", "approver", 1),))):
        assert decided_of(plain_data(one)) == one
    with pytest.raises(LedgerError, match="this version cannot read"):
        decided_of({"schema": "gpuledger-gate-9"})
    with pytest.raises(LedgerError, match="cannot be read"):
        decided_of({"schema": "gpuledger-gate-1"})


def test_the_same_request_has_the_same_id() -> None:
    """Wherever it is judged; another word or another profile is another request."""
    assert decided().request_id == decided().request_id
    assert decided().request_id != decided(why="something else").request_id
