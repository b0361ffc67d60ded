"""The answer in words: the mission's form, every figure from the solver, and no "on time" without its probability."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.capacity.planner.amounts import about, exact, when
from analyzer.capacity.planner.facts import Finish
from analyzer.capacity.planner.plan import Binding, Change, Verdict
from analyzer.capacity.planner.tables import chance, sentence, why_words
from analyzer.text.words import NO_BREAK
from tests.analyzer.capacity.planner_answers import answered, asked, impossible, of_ledger, on_time
from tests.analyzer.capacity.planner_example import HOUR

SECOND = 1_000_000


def said(text: str) -> str:
    """Return a text with plain blanks."""
    return text.replace(NO_BREAK, " ")


def test_the_answer_has_the_form_that_people_asked_for() -> None:
    """What to move and why, what to delay and by how much it could, when it ends, and how sure that is."""
    assert said(sentence(on_time())) == (
        "Move T3 from cpuB to ssdA in group C (rack network saves 28 min of transfers). "
        "Delay T2 8 h (it has 11 h of slack). "
        "Estimated finish Fri 15:20 (P50), 16:05 (P90); deadline 17:00, P(on time) 97%."
    )


def test_an_impossible_deadline_says_the_earliest_and_what_binds() -> None:
    """Both are proven: no figure of a plan that merely was not found stands in their place."""
    assert said(sentence(impossible())) == (
        "Impossible: earliest Fri 15:00 (1 h late); the critical path T1 → T2 → T4 binds."
    )


def test_a_deadline_within_the_same_minute_is_told_to_the_second() -> None:
    """Else it would read "earliest 15:00, deadline 15:00"."""
    facts = impossible()
    close = replace(facts, deadline_at=facts.earliest_at - SECOND)
    assert said(sentence(close)).startswith("Impossible: earliest Fri 15:00:11 (1 s late); ")


def test_a_resource_that_binds_is_named_with_its_nodes() -> None:
    """Who could add a node must know of which kind."""
    bound = Binding("resource", 9 * HOUR, ("T1", "T2"), "gpus", ("gpuA", "gpuB"))
    assert said(sentence(impossible(bound=bound))).endswith("; the GPUs of gpuA, gpuB bind: 2 tasks share them.")


def test_what_is_not_proven_is_not_called_impossible() -> None:
    """Between the bound and the best plan nobody knows."""
    facts = impossible()
    text = said(sentence(replace(facts, verdict="not_found", earliest_at=facts.earliest_at - 2 * HOUR * SECOND)))
    assert text.startswith("No plan found that keeps the deadline: the best ends Fri 15:00 (1 h late).")
    assert text.endswith("It is proven that none ends before Fri 13:00; whether one ends in between is not known.")
    assert "mpossible" not in text


def test_without_a_spread_no_probability_is_told() -> None:
    """One draw of one figure is always on time or never; both would be a lie."""
    finish = on_time().finish
    assert finish is not None
    alone = replace(finish, without_spread=("T1", "T2", "T3", "T4"), on_time_ratio=1.0)
    text = said(sentence(on_time(finish=alone)))
    assert "P(" not in text
    assert "%" not in text
    assert (
        "Estimated finish Fri 15:00, if every task takes its stated time; deadline 17:00. Its probability is N/A"
        in text
    )


def test_where_nothing_was_planned_the_gain_is_told_against_the_plainest_plan() -> None:
    """A saving without what it is against says nothing."""
    text = said(sentence(of_ledger()))
    assert text.endswith("(P90). That is 5 h sooner than each task on the next free node (OLB).")


def test_many_changes_are_counted_and_not_told() -> None:
    """The list below has them; a sentence of forty moves is none."""
    many = tuple(Change("T3", "cpuB", "ssdA", 0, 60, None) for _ in range(5))
    text = said(sentence(on_time(changes=many)))
    assert text.count("Move T3") == 3
    assert "And 2 more moves, listed below." in text


def test_a_move_that_costs_transfers_says_so() -> None:
    """It may still be right: for a GPU, or for a free node."""
    text = said(sentence(on_time(changes=(Change("T3", "cpuB", "ssdA", 0, -90, None),))))
    assert "Move T3 from cpuB to ssdA in group C (its transfers take 2 min longer there)." in text


@given(
    st.sampled_from(["on_time", "no_deadline", "impossible", "not_found"]),
    st.one_of(st.none(), st.floats(0, 1)),
    st.integers(0, 4),
)
def test_nothing_is_on_time_without_its_probability(verdict: Verdict, ratio: float | None, without: int) -> None:
    """The promise of the whole feature, in any verdict and with any spread."""
    facts = on_time()
    finish = Finish(facts.start_at, facts.end_at, facts.end_at, ratio, 1000, ("T1", "T2", "T3", "T4")[:without])
    text = said(sentence(replace(facts, verdict=verdict, finish=finish)))
    rest = text.replace("P(on time)", "").replace("P(every task on time)", "")
    assert "on time" not in rest
    assert ("P(on time)" in text) is (ratio is not None and without < 4 and ("%" in text))
    assert "100%" not in text


def test_chances_never_say_always_or_never() -> None:
    """A thousand draws do not know."""
    assert [said(chance(ratio)) for ratio in (0.0, 0.004, 0.5, 0.987, 0.996, 1.0)] == [
        "under 1%", "under 1%", "50%", "99%", "over 99%", "over 99%",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("seconds", "roughly", "precisely"),
    [
        (0, "0 s", "0 s"),
        (61, "1 min", "1 min 01 s"),
        (3599, "1 h", "59 min 59 s"),
        (32_411, "9 h", "9 h 00 min 11 s"),
        (33_301, "9 h 15 min", "9 h 15 min 01 s"),
        (34_200, "9 h 30 min", "9 h 30 min"),
        (183_600, "2 d 3 h", "51 h"),
    ],
)
def test_spans_are_told_as_people_say_them_and_to_the_second(seconds: int, roughly: str, precisely: str) -> None:
    """A sentence rounds; the comparison of solvers must not."""
    assert (said(about(seconds)), said(exact(seconds))) == (roughly, precisely)


def test_a_moment_of_another_year_has_its_year() -> None:
    """A slip in the year of a deadline was told as "Sat 1 Jan 00:00", and everything was on time."""
    start, day = 1_795_755_600_000_000, 86_400_000_000  # Fri 27 Nov 2026 05:00
    told = [when(start + days * day, "UTC", start) for days in (5, 6, 200, 400)]
    assert told == ["Wed 05:00", "Thu 3 Dec 05:00", "Tue 15 Jun 05:00", "Sat 1 Jan 2028 05:00"]


def test_the_example_is_the_one_of_the_reference() -> None:
    """9 h 00 m 11 s by HEFT and 14 h 00 m 20 s by OLB."""
    answer = answered(asked())
    assert [plan.makespan_seconds for plan in answer.compared] == [50_420, 32_411]


def test_a_plan_that_may_stay_as_it_is_says_so() -> None:
    """Whoever asks whether it can be done wants to know first that nothing has to be touched."""
    told = said(sentence(on_time(changes=(), is_planned=True)))
    assert told.startswith("Nothing has to be moved or delayed. Estimated finish ")
    assert "OLB" not in told


def test_what_is_told_of_a_search_is_what_it_proved() -> None:
    """A bound below every plan that was found rules out what is shorter than it, and no more."""
    proven = on_time(bound=Binding("search", 9 * HOUR + 10), is_optimal=True)
    assert "CP-SAT has ruled out every shorter plan." in str(why_words(proven))
    above = on_time(bound=Binding("search", 8 * HOUR), is_optimal=False)
    assert said(str(why_words(above))) == (
        "CP-SAT has ruled out every plan that takes less than 8 h. Whether a plan ends in between is not known."
    )
    rounds = on_time(bound=Binding("rounds", 8 * HOUR, ("a", "b", "c"), nodes=("n",), turns=2), is_optimal=False)
    assert said(str(why_words(rounds))) == (
        "Of 3 tasks at most 2 run at a time on n, one round after the other. "
        "Whether a plan ends in between is not known."
    )
