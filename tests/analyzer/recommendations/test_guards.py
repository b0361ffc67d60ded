"""The guards: too little gained, too soon again, too much at once, a no that was said. What is held back says why."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.recommendations.guards import Moment, guarded
from analyzer.recommendations.recommendation import Constraint, Recommendation
from analyzer.settings.settings import DEFAULT, Guards
from tests.analyzer.recommendations.advice import DAY, DOLLAR, HOUR, advice, restart

NOW = 100 * DAY
AT = Moment(end=NOW, now=NOW, clock=NOW, fleet_gpus=1000)


def one(given_: Recommendation, at: Moment = AT, guards: Guards = DEFAULT) -> Recommendation:
    """Return what the guards make of a single one."""
    (made,) = guarded([given_], at, guards)
    return made


def test_a_setting_that_costs_nothing_is_recommended_however_little_it_saves() -> None:
    """Nobody loses by trying; the list puts small ones last."""
    assert one(advice(dollars=1)).stands


@pytest.mark.parametrize(
    ("dollars", "costs", "days", "stands"),
    [
        (100, 10, 28, True),  # 4 weeks at $50 (P20) against $10
        (100, 190, 28, False),  # 200 - 190 = 10, and 10% of 190 are 19
        (100, 180, 28, True),  # 200 - 180 = 20, which is over 18
        (16, 21, 28, True),  # 32 - 21 = 11
        (16, 23, 28, False),  # 32 - 23 = 9, under $10
        (100, 10, 1, False),  # $7 in the day that is left
        (100, 10, 400, True),
    ],
)
def test_a_restart_has_to_pay_at_p20_within_what_is_left_of_the_run(
    dollars: int, costs: int, days: int, stands: bool
) -> None:
    """By $10 and by 10% of its own price, within four weeks at most."""
    made = one(restart(dollars=dollars, costs=costs, days=days))
    assert made.stands is stands
    assert stands or "at P20" in (made.held_back or "")


def test_four_weeks_are_the_furthest_that_a_saving_counts() -> None:
    """A run without an end must not pay for any restart."""
    assert not one(restart(dollars=100, costs=250, days=4000)).stands
    assert one(restart(dollars=100, costs=250, days=4000), guards=Guards(horizon_days=56)).stands


def test_what_does_not_pay_now_waits_for_the_next_start_of_a_run_that_comes_again() -> None:
    """Its next start costs nothing: that is no move."""
    made = one(restart(dollars=100, costs=10, days=1, recurs=3))
    assert made.stands
    assert (made.takes_effect, made.cost_to_move_micros, made.cost_to_move_milliseconds) == ("next_start", 0, 0)
    assert "not now" in made.cost_to_move


def test_without_a_price_time_is_compared_with_time() -> None:
    """A site without prices has guards too."""
    cheap, dear = restart(dollars=100, costs=10), restart(dollars=100, costs=195)
    assert one(replace(cheap, saves_micros=None, cost_to_move_micros=None)).stands
    assert not one(replace(dear, saves_micros=None, cost_to_move_micros=None)).stands


@pytest.mark.parametrize(("hours", "stands"), [(1, False), (11, False), (12, True)])
def test_a_run_is_moved_once_in_twelve_hours(hours: int, stands: bool) -> None:
    """What was begun anew is left alone, or it would never work."""
    assert one(restart(moved_at=NOW - hours * HOUR)).stands is stands


@pytest.mark.parametrize(("hours", "stands"), [(0, False), (23, False), (24, True)])
def test_what_was_rejected_is_not_said_again_for_a_day(hours: int, stands: bool) -> None:
    """Who said no has said it, also of a setting; by the clock, whichever week is read."""
    at = replace(AT, now=NOW - 50 * DAY, rejected={"r-aaaaa": NOW - hours * HOUR})
    assert one(advice(), at).stands is stands
    assert one(advice("r-bbbbb"), at).stands


def test_a_change_that_breaks_its_own_constraint_is_held_back() -> None:
    """The check is printed so that nobody has to trust it, and decides."""
    checks = (Constraint("rack", None, "not known"), Constraint("cores", False, "96 wanted, 64 there"))
    made = one(advice(constraints=checks))
    assert made.held_back == "a check failed: cores (96 wanted, 64 there)"


def test_two_restarts_of_one_run_are_one() -> None:
    """The one that gains most; the other may be done with it. Settings beside it are no restart."""
    better = restart("r-bbbbb", 200, finding_ids=("f-bbbbb",))
    setting = advice("r-ccccc", finding_ids=("f-ccccc",))
    first, second, third = guarded([restart(), better, setting], AT)
    assert (first.stands, second.stands, third.stands) == (False, True, True)
    assert "r-bbbbb restarts the same run" in (first.held_back or "")


def test_at_most_a_twentieth_of_the_fleet_is_restarted_at_once() -> None:
    """Those that gain most go first; 50 of 1,000 GPUs may, whole runs at a time."""
    several = [
        restart(f"r-{n:05d}", 100 + n, gpus=20, run_ids=(f"run-{n}",), finding_ids=(f"f-{n}",)) for n in range(4)
    ]
    made = guarded(several, AT)
    assert [each.id for each in made if each.stands] == ["r-00002", "r-00003"]
    assert made[0].held_back == "later: restarts of 40 GPUs come first, and 5% of the fleet are 50"


def test_a_run_that_is_larger_than_that_share_is_restarted_alone() -> None:
    """A gang moves whole or not at all: otherwise the largest, which lose most, were never helped."""
    large = restart("r-large", 900, gpus=600, run_ids=("large",), finding_ids=("f-large",))
    small = restart("r-small", 100, gpus=8, run_ids=("small",), finding_ids=("f-small",))
    assert [each.stands for each in guarded([small, large], AT)] == [False, True]


def test_a_recommendation_ends_two_weeks_after_its_period_or_with_its_run() -> None:
    """Nobody acts on what was true a season ago."""
    assert one(advice()).expires_at == NOW + 14 * DAY
    assert one(advice(expires_at=NOW + DAY)).expires_at == NOW + DAY
    assert one(advice(expires_at=NOW + 30 * DAY)).expires_at == NOW + 14 * DAY


ids = st.sampled_from(["a", "b", "c"])
changes = st.builds(
    lambda n, dollars, costs, gpus, runs, found, moves: replace(
        restart(f"r-{n}", dollars, costs=costs, gpus=gpus, run_ids=tuple(runs), finding_ids=tuple(found))
        if moves
        else advice(f"r-{n}", dollars, run_ids=tuple(runs), finding_ids=tuple(found))
    ),
    st.integers(0, 10**6),
    st.integers(1, 1000),
    st.integers(0, 300),
    st.integers(1, 60),
    st.sets(ids, min_size=1),
    st.sets(ids, min_size=1),
    st.booleans(),
)


@given(st.lists(changes, max_size=8, unique_by=lambda change: change.id), st.integers(0, 400))
def test_what_stands_shares_no_second_and_moves_no_run_twice(several: list[Recommendation], fleet_gpus: int) -> None:
    """Only what stands is added up: nothing is lost from the list, and every one that does not stand says why."""
    made = guarded(several, replace(AT, fleet_gpus=fleet_gpus))
    assert [each.id for each in made] == [each.id for each in several]
    standing = [each for each in made if each.stands]
    claimed = [(found, run) for each in standing for found in each.finding_ids for run in each.run_ids]
    assert len(claimed) == len(set(claimed))
    moved = [run for each in standing if each.restarts for run in each.run_ids]
    assert len(moved) == len(set(moved))
    assert all(each.held_back or each.instead_of for each in made if not each.stands)
    assert {each.instead_of for each in made if each.instead_of} <= {each.id for each in made}
    gpus = [each.moving.gpus for each in standing if each.restarts and each.moving]
    assert len(gpus) <= 1 or sum(gpus) <= fleet_gpus * DEFAULT.moved_percent // 100


def test_the_lesser_of_two_against_one_finding_names_the_better() -> None:
    """Both would save the same seconds; of other runs of that finding they would not."""
    lesser, better = advice(dollars=10), advice("r-bbbbb", 90)
    first, second = guarded([lesser, better], AT)
    assert (first.instead_of, second.instead_of) == ("r-bbbbb", None)
    elsewhere = advice(dollars=10, run_ids=("slurm/alpha/2",))
    assert all(each.stands for each in guarded([elsewhere, better], AT))


def test_what_another_restart_of_its_run_holds_back_gives_its_place_to_the_next_best() -> None:
    """To take a slow host out saves more than to cool it, but the run is restarted for its order of ranks already."""
    order = restart("r-order", 900, finding_ids=("f-order",))
    out = restart("r-out", 100, finding_ids=("f-slow",))
    cooled = advice("r-cool", 90, finding_ids=("f-slow",))
    made = {one.id: one for one in guarded([order, out, cooled], AT)}
    assert made["r-order"].stands
    assert "r-order restarts the same run" in (made["r-out"].held_back or "")
    assert made["r-cool"].stands
    alone = {one.id: one for one in guarded([out, cooled], AT)}
    assert (alone["r-out"].stands, alone["r-cool"].instead_of) == (True, "r-out")


def test_of_two_that_save_as_much_the_one_that_costs_less_to_move_stands() -> None:
    """Nobody restarts a run for what can be had without."""
    out, cooled = restart("r-a", 100), advice("r-b", 100)
    assert [one.instead_of for one in guarded([out, cooled], AT)] == ["r-b", None]


def test_what_is_held_back_replaces_nothing() -> None:
    """Where the better one was rejected, the lesser is what is left to do."""
    at = replace(AT, rejected={"r-bbbbb": NOW - HOUR})
    first, second = guarded([advice(dollars=10), advice("r-bbbbb", 90)], at)
    assert first.stands
    assert second.held_back == "rejected 1 h ago: it may be recommended again after 24 h"
    assert first.saves_micros is not None
    assert first.saves_micros.p50 == 10 * DOLLAR
