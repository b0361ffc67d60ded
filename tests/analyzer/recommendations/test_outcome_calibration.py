"""How often predictions held, and shares made of what came out."""

from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st

from analyzer.recommendations.lifecycle.realised import (
    LEAST,
    SHARES_LEAST,
    CalibrationCase,
    calibration,
    proposed_shares,
)

PREDICTED = {"p5": 50, "p20": 200, "p50": 500, "p80": 800, "p95": 950}


def case(realised: int, kind: str = "release", when: str = "2026-11", **predicted: int) -> CalibrationCase:
    """Return a case of a loss of a thousand."""
    return CalibrationCase(kind, when, predicted or PREDICTED, realised, 1000)


def test_no_rate_is_told_of_fewer_than_ten() -> None:
    """One more or less would decide it."""
    few, enough = calibration([case(500)] * (LEAST - 1)), calibration([case(500)] * LEAST)
    assert few.whole.permille is None
    assert few.whole.outer_permille is None
    assert enough.whole.permille == enough.whole.outer_permille == 1000


def test_a_prediction_without_its_ends_counts_for_the_inner_range_alone() -> None:
    """Earlier releases predicted three quantiles."""
    found = calibration([case(500, p20=200, p50=500, p80=800), case(900), case(100)])
    assert (found.whole.cases, found.whole.inside, found.whole.below) == (3, 1, 1)
    assert (found.whole.outer, found.whole.inside_outer) == (2, 2)


def test_it_is_told_by_kind_and_over_time() -> None:
    """A predictor may be right of one kind and wrong of another, and may have become better."""
    found = calibration([case(500), case(0, kind="pack"), case(500, when="2026-12")])
    assert [(kind, tally.cases, tally.inside) for kind, tally in found.by_kind.items()] == [
        ("pack", 1, 0),
        ("release", 2, 2),
    ]
    assert [(when, tally.cases) for when, tally in found.by_month.items()] == [("2026-11", 2), ("2026-12", 1)]


def test_shares_are_offered_of_enough_cases_alone() -> None:
    """The P5 of five cases is the worst of them."""
    cases = [case(50 * number) for number in range(1, SHARES_LEAST + 1)]
    assert proposed_shares(cases[1:]) == {}
    assert proposed_shares(cases)["release"] == {"p5": 50, "p20": 200, "p50": 500, "p80": 800, "p95": 950}


@given(st.lists(st.integers(-3000, 3000), min_size=SHARES_LEAST, max_size=60))
@profile(max_examples=30)
def test_shares_rise_and_lie_between_nothing_and_all(realised: list[int]) -> None:
    """A change cannot recover more than was lost, however lucky the next runs were."""
    shares = list(proposed_shares(map(case, realised))["release"].values())
    assert shares == sorted(shares)
    assert 0 <= shares[0] <= shares[-1] <= 1000
