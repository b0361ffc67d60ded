"""A site keeps what was asked and decided; waivers hold for the decision that they were given on."""

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from analyzer.capacity.gate.decided import Decided, decided_of
from analyzer.capacity.gate.policy_check import check_request, request_id
from analyzer.capacity.gate.request_store import (
    KeptRequest,
    Teller,
    decide,
    identity_of,
    kept_request,
    kept_requests,
    requests_of,
    waive,
)
from analyzer.capacity.gate.supply import History, Supply
from analyzer.errors import ConfigError, LedgerError
from collector.registry import Bounds, CapacityEvent, CapacityRequest, Registry, open_registry
from tests.analyzer.capacity.gate_asking import NOW, decided, policy, profile, read, request

SMALL = {"pilot": True, "gpus": 8, "weeks": 2, "growth": None, "gpus_per_run": None}
OWNER, APPROVER = Teller("k3", "owner", NOW), Teller("k7", "approver", NOW + 1)


def keep(registry: Registry, one: Decided, teller: Teller) -> KeptRequest:
    """Keep what was decided."""
    return decide(registry, lambda: (one, None), teller)


@pytest.fixture
def registry() -> Iterator[Registry]:
    """A registry in memory."""
    with open_registry(None) as opened:
        yield opened


def test_what_is_kept_comes_back(registry: Registry) -> None:
    """Whole, by its id or by the beginning of it that is typed."""
    one = decided()
    assert keep(registry, one, OWNER).decided == one
    for typed in (one.request_id, one.request_id[:-1]):
        assert kept_request(registry, typed).decided == one
    assert [event.verdict for event in kept_request(registry, one.request_id).history] == ["FAIL"]
    for absent in ("q-zzzzz", "q-", "q-%", "useful", one.request_id.removeprefix("q-")):
        with pytest.raises(LedgerError, match="there is no capacity request"):
            kept_request(registry, absent)


def test_the_same_again_adds_nothing(registry: Registry) -> None:
    """A pipeline that runs each night asks one request, and its waivers stay."""
    keep(registry, decided(), OWNER)
    waive(registry, decided().request_id, "useful", "the release is in March", APPROVER)
    again = keep(registry, replace(decided(), decided_at=NOW + 5), Teller("k4", "owner", NOW + 5))
    assert [event.kind for event in again.history] == ["decided", "waived"]
    assert [one.gate for one in again.decided.waivers] == ["useful"]


def test_another_decision_begins_without_waivers(registry: Registry) -> None:
    """Whoever waived saw the gates of that day: a profile that has grown too old since is another matter."""
    one = keep(registry, decided(starts="2027-03-01"), OWNER).decided
    waive(registry, one.request_id, "useful", "the release is in March", APPROVER)
    later = check_request(request(starts="2027-03-01"), read(), policy(), Supply(), NOW + 40 * 86_400_000_000)
    again = keep(registry, later, OWNER)
    assert again.decided.waivers == ()
    assert [event.kind for event in again.history] == ["decided", "waived", "decided"]


def test_waivers_lead_to_a_pass_one_by_one(registry: Registry) -> None:
    """Each is named, dated and kept with its reason."""
    one = keep(registry, decided(), OWNER).decided
    verdicts = [
        waive(registry, one.request_id, gate, "the release\n is in March", APPROVER).decided.verdict
        for gate in ("useful", "waiting", "recommendations")
    ]
    assert verdicts == ["FAIL", "FAIL", "PASS"]
    held = kept_request(registry, one.request_id)
    assert held.decided.headline.startswith("All 11 required policy checks passed, 3 of them by override.")
    assert {(event.who, event.role, event.reason) for event in held.history[1:]} == {
        ("k7", "approver", "the release is in March")
    }


@pytest.mark.parametrize(
    ("gate", "reason", "says"),
    [
        ("usefull", "x", "has no policy check 'usefull'; did you mean 'useful'"),
        ("age", "x", "'age' has passed: there is nothing to override"),
        ("useful", " \n", "say why"),
        ("useful", "x" * 501, "a maximum of 500 characters"),
        ("signed", "x", "the policy does not allow 'signed' to be overridden"),
    ],
)
def test_what_cannot_be_waived_is_told(registry: Registry, gate: str, reason: str, says: str) -> None:
    """And nothing is written."""
    one = keep(registry, decided(state="edited"), OWNER).decided
    with pytest.raises(ConfigError, match=says):
        waive(registry, one.request_id, gate, reason, APPROVER)
    assert len(kept_request(registry, one.request_id).history) == 1


def test_a_gate_is_waived_once(registry: Registry) -> None:
    """A second word would hide the first."""
    one = keep(registry, decided(), OWNER).decided
    waive(registry, one.request_id, "useful", "x", APPROVER)
    with pytest.raises(ConfigError, match="is already overridden"):
        waive(registry, one.request_id, "useful", "y", APPROVER)


def test_of_pilots_that_are_asked_for_at_once_one_passes(tmp_path: Path) -> None:
    """Whoever counted before another was kept counts again: a team has one pilot, however many ask."""
    start, verdicts = threading.Barrier(6), list[str]()

    def ask(registry: Registry, number: int) -> None:
        asked = request(**SMALL, why=f"pilot {number}")
        is_first = True

        def judged() -> tuple[Decided, History]:
            nonlocal is_first
            seen = registry.capacity.pilots("team-nlp", NOW - 1, request_id(asked, ""))
            if is_first:
                is_first = False
                start.wait()
            history = History(0, seen, "", NOW - 1)
            return check_request(asked, None, policy(), Supply(history=history), NOW), history

        verdicts.append(decide(registry, judged, Teller("k3", "owner", NOW)).decided.verdict)

    with ExitStack() as stack:
        where = tmp_path / "registry.sqlite"
        registries = [stack.enter_context(open_registry(where)) for _ in range(6)]
        threads = [threading.Thread(target=ask, args=(each, number)) for number, each in enumerate(registries)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(verdicts) == ["FAIL"] * 5 + ["PASS"]


def test_a_team_that_asks_too_much_is_told(tmp_path: Path) -> None:
    """In a sentence with the bound; what it asked before can still be asked again, and others go on."""
    with open_registry(tmp_path / "registry.sqlite", Bounds(2, 400)) as registry:
        made = [keep(registry, decided(why=why), OWNER).decided for why in ("a", "b")]
        with pytest.raises(ConfigError, match="team-nlp has 2 capacity requests, the maximum per team"):
            keep(registry, decided(why="c"), OWNER)
        assert keep(registry, made[0], OWNER).decided == made[0]
        theirs = decided(profile(team="team-vision"), team="team-vision")
        assert keep(registry, theirs, OWNER).decided == theirs


def test_a_decision_of_an_older_version_is_read(registry: Registry) -> None:
    """What it did not say yet has its default: a kept verdict stays readable for as long as it is kept."""
    one = keep(registry, decided(), OWNER).decided
    ((_, event),) = registry.capacity.history(one.request_id)
    said = json.loads(event.decided or "")
    del said["waits_permille"], said["evidence"]["judged"]
    assert decided_of(said) == replace(one, waits_permille=None)


def test_what_may_not_be_seen_is_not_there(registry: Registry) -> None:
    """Neither to read nor to waive."""
    one = keep(registry, decided(), OWNER).decided
    with pytest.raises(LedgerError, match="there is no capacity request"):
        kept_request(registry, one.request_id, lambda team: team == "other")
    with pytest.raises(LedgerError, match="there is no capacity request"):
        waive(registry, one.request_id, "useful", "x", APPROVER, lambda team: team == "other")


def test_two_requests_never_share_an_id(registry: Registry) -> None:
    """Where one has the letters already, the other takes one more."""
    usual = decided().request_id
    registry.capacity.add(
        CapacityRequest(usual, "another", "other", False, "FAIL", NOW, "k"),
        CapacityEvent(usual, NOW, "decided", "k", "owner", "FAIL", decided="{}"),
    )
    longer = identity_of(registry, request(), read().sha256)
    assert (longer.startswith(usual), len(longer)) == (True, len(usual) + 1)
    one = check_request(request(), read(), policy(), Supply(), NOW, longer)
    assert keep(registry, one, OWNER).decided.request_id == longer


def test_the_week_has_its_requests(registry: Registry) -> None:
    """The e-mail's section: what was asked in the period, in order."""
    asked = []
    for day, why in enumerate(("a", "b", "c")):
        one = check_request(request(why=why), read(profile(advice=())), policy(), Supply(), NOW)
        asked.append(keep(registry, one, Teller("k3", "owner", NOW + day)).decided)
    assert list(requests_of(registry, NOW, NOW + 2)) == asked[:2]
    assert [one.decided for one in kept_requests(registry, 0, 2 * NOW, ["team-nlp"])] == asked[::-1]
    assert kept_requests(registry, 0, 2 * NOW, ["team-vision"]) == []
