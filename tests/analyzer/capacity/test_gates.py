"""Every gate at its bar: what passes, what fails, and what nobody can say."""

from dataclasses import replace

import pytest

from analyzer.capacity.gate.decided import Decided, Gate
from analyzer.capacity.gate.policy_check import check_request
from analyzer.capacity.gate.supply import Supply
from analyzer.capacity.profile.facts import Alternative, CapacityProfile, Holding, Memory, Scale, StateHours
from analyzer.errors import ConfigError
from tests.analyzer.capacity.gate_asking import (
    A100,
    H100,
    HOUR_MS,
    HOUR_US,
    NOW,
    decided,
    policy,
    profile,
    read,
    request,
    run,
)


def gate(of: Decided, name: str) -> Gate:
    """Return one gate."""
    return next(each for each in of.gates if each.name == name)


def of_shares(**permille: int) -> CapacityProfile:
    """Return a profile of 1,000 GPU-hours of which these states have so many; the rest is unexplained."""
    klasses = {"productive": "useful", "unexplained": "unknown", "unobserved": "unknown"}
    rest = 1000 - sum(permille.values())
    booked = tuple(
        StateHours(klasses.get(state, "avoidable"), state, None, hours * HOUR_MS, None)
        for state, hours in ({**permille, "unexplained": rest}).items()
    )
    return profile(booked=booked, milliseconds=1000 * HOUR_MS, advice=())


def aged(days: int, more_us: int = 0) -> CapacityProfile:
    """Return a profile of a run that went on until it was made, so many days ago."""
    running = replace(run("1", "2026-10-01T00:00", 4.0), ended_at=None)
    return profile(until_us=NOW - days * 24 * HOUR_US - more_us, runs=(running,))


def scaled(efficiency: float) -> CapacityProfile:
    """Return a profile that scales so to 16 GPUs."""
    return profile(scaling=(Scale(8, 1, 1.0, "steps", 1.0), Scale(16, 1, 1.0, "steps", efficiency)))


def other(sku: str, tried: bool, fits: bool | None, micros: int | None = 1_100_000) -> CapacityProfile:
    """Return a profile with one other choice."""
    return profile(alternatives=(Alternative(sku, "another kind", tried, fits, micros, ""),))


GIBI = 2**30
SMALL = (Memory(H100, 40 * GIBI, 80 * GIBI),)
CASES = [
    ("age", aged(30), "PASS", "30 days"),
    ("age", aged(31), "FAIL", "31 days"),
    ("age", aged(0), "PASS", "0 days"),
    ("age", aged(0, -1), "FAIL", "not over yet"),
    ("age", profile(until_us=NOW, runs=(run("1", "2026-10-01T00:00", 4.0),)), "FAIL", "51 days"),
    ("age", profile(until_us=NOW), "PASS", "8 days"),
    ("measured", profile(measured_ratio=0.95), "PASS", "95.0%"),
    ("measured", profile(measured_ratio=0.949999), "FAIL", "94.9999%"),
    ("measured", profile(milliseconds=0, booked=()), "N/E", "no GPU time"),
    ("runs", profile(runs=(run("1", "2026-11-01T00:00", 1.0),) * 3), "PASS", "3, 48.0"),
    ("runs", profile(runs=(run("1", "2026-11-01T00:00", 1.0),) * 2), "FAIL", "2, 32.0"),
    ("runs", profile(runs=(run("1", "2026-11-01T00:00", 3.125),)), "PASS", "1, 50.0"),
    ("idle", of_shares(held_idle=50), "PASS", "5.0%"),
    ("idle", of_shares(held_idle=51), "FAIL", "5.1%"),
    ("useful", of_shares(productive=500), "PASS", "50.0%"),
    ("useful", of_shares(productive=499), "FAIL", "49.9%"),
    ("useful", profile(milliseconds=0, booked=()), "N/E", "no GPU time"),
    ("idle", of_shares(held_idle=50, unobserved=500), "FAIL", "10.0%"),
    ("waiting", of_shares(starved=100, unobserved=400), "FAIL", "16.7%"),
    ("useful", of_shares(productive=400, unobserved=400), "PASS", "66.7%"),
    *((name, of_shares(unobserved=1000), "N/E", "nothing measured") for name in ("idle", "waiting", "useful")),
    ("waiting", of_shares(starved=150), "PASS", "15.0%"),
    ("waiting", of_shares(starved=151), "FAIL", "15.1%"),
    ("memory", profile(memory=(Memory(H100, 40 * GIBI + 1, 80 * GIBI),)), "PASS", "40 of 80 GiB"),
    ("memory", profile(memory=SMALL), "PASS", "40 of 80 GiB"),  # the A100 has a price
    ("memory", profile(memory=SMALL, alternatives=()), "FAIL", "40 of 80 GiB"),
    ("memory", profile(memory=(Memory(A100, 1, 2),)), "N/E", "not known"),
    ("memory", profile(memory=(Memory(H100, 1, None),)), "N/E", "not known"),
    ("scaling", scaled(0.7), "PASS", "70%"),
    ("scaling", scaled(0.6999), "FAIL", "69.99%"),
    ("scaling", profile(scaling=(Scale(16, 3, 1.0, "steps", 1.0),)), "N/E", "one size seen"),
    ("scaling", profile(scaling=(Scale(8, 3, 1.0, "steps", 1.0),), runs=()), "N/E", "not at 16"),
    ("recommendations", profile(advice=()), "PASS", "none open"),
    ("cheaper", other(A100, tried=True, fits=True), "PASS", "A100-80GB tried"),
    ("cheaper", other(A100, tried=False, fits=None), "N/E", "no run on A100"),
    ("cheaper", other(A100, tried=False, fits=False), "PASS", "it does not fit"),
    ("cheaper", other("B200", tried=False, fits=True, micros=9_000_000), "N/E", "none known"),
    ("team_idle", profile(holdings=(Holding(H100, 82.0, 31.9, 7.0),)), "PASS", "31.9"),
    ("team_idle", profile(holdings=(Holding(H100, 82.0, 32.0, 7.0),)), "FAIL", "32.0"),
    ("team_idle", profile(holdings=(Holding(A100, 82.0, 50.0, 7.0),)), "PASS", "holds no H100-80GB"),
    ("team_idle", profile(holdings=()), "N/E", "not known"),
]


@pytest.mark.parametrize(("name", "one", "outcome", "value"), CASES)
def test_a_gate_stands_at_its_bar(name: str, one: CapacityProfile, outcome: str, value: str) -> None:
    """A figure that is shown never contradicts the word beside it."""
    one = replace(one, runs=one.runs or (replace(run("1", "2026-11-01T00:00", 9.0), gpus=4),))
    found = gate(decided(one), name)
    assert (found.outcome, found.value.replace("\u00a0", " ")) == (outcome, value)


@pytest.mark.parametrize(
    ("state", "outcome", "value"),
    [("trusted", "PASS", "alpha"), ("edited", "FAIL", "edited"), ("unsigned", "FAIL", "nobody")],
)
def test_whose_word_it_is(state: str, outcome: str, value: str) -> None:
    """An edited profile fails, whatever else it says, and nobody can waive that."""
    found = decided(state=state)
    signed = gate(found, "signed")
    assert (signed.outcome, signed.value, signed.bar) == (outcome, value, "alpha, beta")
    assert not signed.waivable


def test_a_page_whose_words_were_edited_fails() -> None:
    """Its figures may be as they were signed; what a director reads on it is not."""
    one = check_request(request(), replace(read(), page="edited"), policy(), Supply(), NOW)
    assert (gate(one, "signed").outcome, gate(one, "signed").value) == ("FAIL", "page edited")


def test_a_key_that_no_policy_names_is_not_evaluated() -> None:
    """A site that has not said whom it believes gets no pass, and is told what to write."""
    one = check_request(request(), read(state="unknown_key"), replace(policy(), keys=()), Supply(), NOW)
    assert gate(one, "signed").outcome == "N/E"
    assert "[[key]] with the public key of 7f3a91c2d4e5f607" in one.remedies[0].text
    assert gate(decided(state="unknown_key"), "signed").outcome == "FAIL"


def test_what_recommendations_are_worth_does_not_hang_on_the_growth_that_is_told() -> None:
    """Else a growth of a thousand would make every fix look worthless, and the gate pass."""
    values = {gate(decided(growth=growth), "recommendations").value for growth in (None, 0.5, 3, 1000)}
    assert values == {"16 of 32 GPUs"}


def test_busy_is_not_useful() -> None:
    """A loop that only keeps the GPU busy is `underused` in the ledger, and full in every utilization."""
    one = replace(of_shares(underused=990), at_zero_ratio=0.0)
    assert gate(decided(one), "useful").outcome == "FAIL"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"team": "team-vision"}, "the profile is of team-nlp, the request of team-vision"),
        ({"work": "pretrain-7b"}, "the profile has no run of pretrain-7b: it has llama-sft"),
        ({"pilot": True}, "a request with a profile is not a pilot"),
    ],
)
def test_a_profile_of_something_else_is_no_evidence(changes: dict[str, object], says: str) -> None:
    """Another team's good profile must not open the gate."""
    with pytest.raises(ConfigError, match=says):
        check_request(request(**changes), read(), policy(), Supply(), NOW)


def test_without_a_profile_there_is_no_verdict() -> None:
    """The one line of an organisation's process: no capacity request without a profile attached."""
    with pytest.raises(ConfigError, match="a capacity request needs the profile of the work"):
        check_request(request(), None, policy(), Supply(), NOW)


def test_runs_are_named_by_their_ids_too() -> None:
    """As people type them: the number alone, or the whole id."""
    for work in ("81234", "slurm/alpha/81234", ["80417", "81234"]):
        assert decided(work=work).evidence is not None
