"""The gate on the terminal, byte for byte, and with names that would rewrite it."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from analyzer.capacity.gate.decided import Decided, Waiver, line
from analyzer.capacity.gate.policy import read_policy
from analyzer.capacity.gate.policy_check import check_request, with_waivers
from analyzer.capacity.gate.request import Request
from analyzer.capacity.gate.request_store import Event, KeptRequest
from analyzer.capacity.gate.supply import History, Supply
from analyzer.capacity.gate.text import decided_text, history_text, list_text, shown_of
from analyzer.capacity.profile.facts import Alternative, CapacityProfile
from analyzer.capacity.profile.signature import read_profile
from analyzer.interfaces.cli.capacity_gate import gate
from analyzer.text.as_json import as_json, plain_data
from analyzer.text.layout import TextLayout
from tests.analyzer.capacity.gate_asking import NOW, SOON, decided, policy, profile, read, request
from tests.analyzer.capacity.gate_signing import policy_file, signed_text
from tests.analyzer.capacity.test_gate_request import TOML
from tests.analyzer.capacity.test_gate_verdict import asks_for_a_pilot, good

PAPER = TextLayout(80, ascii=True)
HOSTILE = "<b>x\u202e\x1b[2J\r\n=cmd()|" + "\u00e9" * 80


def page(one: Decided, *, kept: bool = True) -> str:
    """Return the page, which fits on 80 columns."""
    text = decided_text(one, PAPER, kept=kept)
    assert max(map(len, text.splitlines())) <= 80
    return text


def test_the_page_is_the_one_that_was_drawn(golden: Callable[[str, str], None]) -> None:
    """Screen 5: FAIL with the other offer; PASS; a pilot; one with waivers."""
    golden("capacity/gate_fail.txt", page(decided()))
    golden("capacity/gate_pass.txt", page(good(), kept=False))
    waivers = tuple(Waiver(name, "the release is in March", "k7", "approver", NOW) for name in ("useful", "waiting"))
    golden("capacity/gate_waived.txt", page(with_waivers(decided(), waivers)))
    pilot = check_request(asks_for_a_pilot(), None, policy(), Supply(history=History(0, 0, "")), NOW)
    golden("capacity/gate_pilot.txt", page(pilot))
    golden(
        "capacity/gate_pilot_alone.txt",
        page(check_request(asks_for_a_pilot(), None, policy(), Supply(), NOW), kept=False),
    )


def test_the_data_is_stable(golden: Callable[[str, str], None]) -> None:
    """Programs read it: a field that goes is a change of the version."""
    golden("capacity/gate_fail.json", as_json("gate", {"decided": plain_data(decided())}))


def hostile_profile() -> CapacityProfile:
    """Return a profile whose every name is hostile."""
    (advice,) = profile().advice
    return profile(
        team=None,
        runs=tuple(replace(one, name=HOSTILE) for one in profile().runs),
        advice=(replace(advice, id=HOSTILE, title=HOSTILE, paste=HOSTILE, kind="other", run_names=(HOSTILE,)),),
        alternatives=(Alternative(HOSTILE, HOSTILE, False, None, 1, HOSTILE),),
    )


@pytest.mark.parametrize("state", ["trusted", "edited", "unsigned", "unknown_key"])
def test_no_name_rewrites_the_terminal(state: str) -> None:
    """Names come from users and from files that strangers attach."""
    one = check_request(
        request(work="81234"), replace(read(hostile_profile(), state), signed_by=HOSTILE), policy(), Supply(), NOW
    )
    for layout in (PAPER, TextLayout(80)):
        text = decided_text(one, layout, kept=True)
        assert all(character == "\n" or character.isprintable() for character in text)
        assert max(map(len, text.splitlines())) <= 81
    assert line(one).isprintable()


def kept(one: Decided) -> KeptRequest:
    """Return a decision as a registry has it."""
    asked = Event(NOW, "decided", "k3", "owner", "FAIL", None, None)
    waived = Event(NOW + 60_000_000, "waived", "k7", "approver", "FAIL", "useful", "the release is in March")
    return KeptRequest(one, NOW, "k3", (asked, waived))


def test_kept_requests_are_listed_with_their_history(golden: Callable[[str, str], None]) -> None:
    """One line each; and who said what, when."""
    listed = list_text([kept(decided()), kept(good())], "Europe/Berlin", PAPER)
    golden("capacity/gate_list.txt", listed + "\n" + history_text(kept(decided()), "Europe/Berlin", PAPER))
    assert list_text([], "UTC", PAPER) == "there are no capacity requests yet\n"


def test_a_request_is_one_line_of_the_e_mail() -> None:
    """What was asked, the verdict, and what would do."""
    told = line(decided()).partition(" ")[2]
    assert told == "team-nlp, 32 H100 for 8 weeks: FAIL, 16 would do after r-3mx8"
    assert line(decided(profile(advice=()))).endswith("FAIL, useful, input starvation")
    assert isinstance(decided().request, Request)


def test_page_one_has_the_same_figures(tmp_path: Path) -> None:
    """The profile's page with the verdict on it: request, choices with prices, every gate; hostile names are text."""
    (tmp_path / "r.toml").write_text(TOML.replace("2026-12-01", SOON))
    (tmp_path / "p.json").write_text(signed_text(profile(until_us=time.time_ns() // 1000)))
    words = [str(tmp_path / "r.toml"), "--profile", str(tmp_path / "p.json"), "--out", str(tmp_path / "page.html")]
    assert gate(words) == 1
    html = (tmp_path / "page.html").read_text("utf-8")
    for told in ("team-nlp asks for 32 more H100-80GB, ", " (8 weeks)", "$83,865.60", "B fix first, then 16"):
        assert told in html
    assert read_profile(tmp_path / "page.html", read_policy(policy_file(tmp_path)).keys).valid
    assert read_profile(tmp_path / "page.html").page == "unsigned"


def test_page_one_in_words() -> None:
    """A verdict with its count, a day that is the last one, and what the fix takes."""
    shown = shown_of(decided())
    assert (shown.verdict, shown.in_time) == ("FAIL, 3 of 12 policy checks failed", "March?")
    assert shown.stopped == "Failed: useful, input starvation, open recommendations."
    assert shown_of(good()).stopped is None
    assert shown_of(decided(needed_for=None)).in_time == "in time?"
    assert shown_of(decided(profile(scaling=()))).verdict == "FAIL, 3 of 12 policy checks failed, 1 not evaluated"
    assert shown.asked[0] == "team-nlp asks for 32 more H100-80GB, 1 Dec to 25 Jan (8 weeks)"
    assert shown.fix == "The fix: r-3mx8 (num_workers 4 -> 8), 46 hours to prove, on GPUs that the team already holds."
    assert [(one.what, one.gpus, one.to_buy, one.advised) for one in shown.options] == [
        ("A approve as asked", "+32", "15", False),
        ("B fix first, then 16", "+16", "0", True),
        ("C fix first, then 24", "+24", "7", False),
        ("D approve nothing", "+0", "0", False),
    ]
    assert shown_of(good()).verdict == "PASS"
    hostile = check_request(request(work="81234"), read(hostile_profile()), policy(), Supply(), NOW)
    assert all(text.isprintable() for text in shown_of(hostile).asked)
