"""What can be said of a change: proven, not provable yet, or not at all, and never by luck alone."""

from math import log
from random import Random

import pytest

from analyzer.recommendations.lifecycle.outcome import Cluster, Evidence, outcome


def runs(count: int, mean: float = 1.0, spread: float = 0.05, seed: int = 1) -> list[float]:
    """Return logarithms of costs about a mean."""
    random = Random(seed)
    return [log(mean) + random.gauss(0, spread) for _ in range(count)]


def others(count: int, change: float = 0.0, seed: int = 3) -> list[Cluster]:
    """Return clusters that were not changed, with a change that all of them have."""
    random = Random(seed)
    return [Cluster(0.0, change + random.gauss(0, 0.03)) for _ in range(count)]


def test_a_saving_of_a_fifth_is_verified() -> None:
    """Six runs on each side are enough at five percent of spread."""
    found = outcome(Evidence("tokens", runs(6), (), runs(6, 0.8, seed=2), expected=0.2))
    assert (found.standing, found.before, found.after, found.is_checked) == ("verified", 6, 6, True)
    assert found.effect is not None
    assert found.effect.saved == pytest.approx(0.2, abs=0.05)
    assert found.needs is None


def test_what_became_dearer_is_said_so() -> None:
    """A change that costs is no saving with a sign."""
    assert outcome(Evidence("tokens", runs(6), (), runs(6, 1.3, seed=2))).standing == "dearer"


def test_the_runs_that_a_change_was_picked_by_are_left_out_where_others_are_enough() -> None:
    """They were picked because they were bad; the next are better by themselves."""
    bad, usual = runs(6, 2.0), runs(6, 1.0, seed=4)
    found = outcome(Evidence("tokens", [*usual, *bad], usual, runs(6, 1.0, seed=2)))
    assert (found.standing, found.is_held_out, found.before) == ("no_effect", True, 6)


def test_runs_that_were_getting_better_anyway_prove_nothing() -> None:
    """A placebo in the middle of the time before would have saved as much."""
    falling = [*runs(5, 1.5), *runs(5, 1.0, seed=4)]
    found = outcome(Evidence("tokens", falling, (), runs(6, 0.8, seed=2)))
    assert found.standing == "not_provable"
    assert "already changing" in found.why
    assert found.effect is None


def test_too_few_runs_say_how_many_more_it_takes() -> None:
    """At the least five, and more where they vary: n = 16 CV^2 / delta^2 an arm."""
    assert outcome(Evidence("tokens", runs(6), (), runs(2, 0.8), expected=0.5)).needs == 3
    wild = outcome(Evidence("tokens", runs(8, spread=0.5), (), runs(8, 0.9, 0.5, 2), expected=0.1))
    assert wild.standing == "no_effect"
    assert wild.needs is not None
    assert wild.needs > 50
    assert outcome(Evidence("tokens", runs(6), (), ())).standing == "not_yet"


def test_without_a_unit_nothing_is_compared() -> None:
    """GPU time of runs that did different work is no cost of anything."""
    found = outcome(Evidence(None, (), (), [0.0, 0.0]))
    assert found.standing == "not_provable"
    assert "no run reports" in found.why


def test_a_run_that_does_not_recur_is_held_against_others() -> None:
    """All of them got dearer by a tenth; the changed one by less."""
    dearer = others(12, 0.1)
    found = outcome(Evidence("tokens", [0.0], (), [log(0.8) + 0.1], dearer, others(12), Cluster(0.0, 0.0)))
    assert found.standing == "verified"
    assert found.effect is not None
    assert (found.effect.method, found.others, found.is_checked) == ("difference", 12, True)
    assert found.effect.saved == pytest.approx(0.2, abs=0.05)


def test_a_run_that_was_leaving_the_others_before_proves_nothing() -> None:
    """Over the time before, cut in its middle, it had moved away from them already."""
    found = outcome(Evidence("tokens", [0.0], (), [log(0.8)], others(12), others(12, seed=9), Cluster(0.0, -0.4)))
    assert found.standing == "not_provable"
    assert "relative to the others" in found.why


def test_one_run_and_nothing_like_it_proves_nothing() -> None:
    """It says what is missing."""
    found = outcome(Evidence("tokens", [0.0], (), [-0.2], others(3)))
    assert found.standing == "not_provable"
    assert "too little to compare with" in found.why
