"""What is saved: five quantiles in their order, two parts that sum to it, and shares that realized cases replace."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.wire.units import WEEK_US
from analyzer.findings.finding import Finding
from analyzer.findings.ledger_findings import findings
from analyzer.recommendations.advise import AdviceRequest, Spent, divided, recommendations
from analyzer.recommendations.recommendation import (
    ASSUMED,
    CASES_LEAST,
    SPEAKS_FOR_A_WEEK_US,
    Range,
    Saved,
    Share,
    over_words,
    realised_share,
    recovered,
    sureness,
    told_over_us,
)
from collector.store.session import Session
from tests.analyzer.ledger.fleet import HOUR, MONDAY, Fleet, priced

amounts = st.integers(0, 10**12)
shares = (
    st.lists(st.integers(0, 1000), min_size=3, max_size=3)
    .map(sorted)
    .map(lambda parts: Share(parts[0], parts[1], parts[2]))
)


def ordered(range_: Range) -> bool:
    """Return whether no quantile is above the next."""
    return 0 <= range_.p5 <= range_.p20 <= range_.p50 <= range_.p80 <= range_.p95


@given(amounts, shares, st.integers(1, 10 * WEEK_US))
def test_quantiles_keep_their_order_and_never_exceed_the_loss(amount: int, share: Share, period_us: int) -> None:
    """The luckiest change gives back all that was lost, and no more."""
    told = recovered(amount, period_us, share)
    assert ordered(told)
    assert told.p95 <= amount * told_over_us(period_us) // period_us


@given(amounts, shares, st.integers(1, SPEAKS_FOR_A_WEEK_US - 1))
def test_less_than_a_day_speaks_for_itself_alone(amount: int, share: Share, period_us: int) -> None:
    """Two hours told as a week's are 84 times what anybody has seen, and more than the fleet has cost so far."""
    told = recovered(amount, period_us, share)
    assert told.p95 <= amount
    assert told_over_us(period_us) == period_us
    assert told_over_us(SPEAKS_FOR_A_WEEK_US) == WEEK_US
    assert recovered(amount, SPEAKS_FOR_A_WEEK_US, share).p50 >= told.p50


def test_a_span_is_told_in_words() -> None:
    """Every paper says of what time it speaks, in the same words."""
    said = [over_words(seconds) for seconds in (604_800, 7_200, 3_600 * 23, 2_700, 20)]
    assert said == ["per week", "in the 2 h seen", "in the 23 h seen", "in the 45 min seen", "in the 1 min seen"]


@given(shares, amounts, amounts, st.integers(0, 1000))
def test_what_is_freed_and_what_is_billed_sum_to_what_is_saved(share: Share, ms: int, micros: int, part: int) -> None:
    """Quantile by quantile, to the millionth; both parts are ranges themselves."""
    saved = Saved(recovered(ms, WEEK_US, share), recovered(micros, WEEK_US, share))
    freed, billed = divided(saved, Spent(1000, part, 0, 2000, 2 * part))
    assert freed is not None
    assert billed is not None
    for whole, one, other in (
        (saved.milliseconds, freed.milliseconds, billed.milliseconds),
        (saved.micros, freed.micros, billed.micros),
    ):
        assert whole is not None
        assert one is not None
        assert other is not None
        assert whole.less(one) == other
        assert ordered(one)
        assert ordered(other)
    if part == 0:
        assert billed.milliseconds == Range(0, 0, 0, 0, 0)


def test_of_gpus_of_which_nobody_says_how_they_are_paid_for_no_bill_is_said_to_stay() -> None:
    """They may be on demand: "the bill itself stays as it is" was told of a site that had said nothing of it."""
    saved = Saved(Range(1, 2, 3), Range(4, 5, 6))
    assert divided(saved, Spent(1000, 500, 1)) == (None, None)
    assert divided(saved, Spent(1000, 0, 0))[1] == Saved(Range(0, 0, 0, 0, 0), Range(0, 0, 0, 0, 0))


def test_what_has_no_price_has_none_freed_or_billed() -> None:
    """None is unknown, and never 0."""
    parts = divided(Saved(Range(10, 20, 30), None), Spent(1000, 500))
    assert [part and part.micros for part in parts] == [None, None]
    assert [part and part.milliseconds.p50 for part in parts] == [10, 10]


def test_tails_that_nobody_tells_are_those_of_a_normal_distribution() -> None:
    """1.645 of its deviations for 0.842 of them: nearly twice as far out, and never below nothing."""
    assert (Range(80, 100, 110).p5, Range(80, 100, 110).p95) == (61, 119)
    assert Range(10, 100, 110).p5 == 0
    assert Share(500, 900, 990).p95 == 1000
    assert Range(1, 2, 3, 0, 9) == Range(1, 2, 3, p5=0, p95=9)


@pytest.mark.parametrize("share", ASSUMED.values(), ids=ASSUMED)
def test_every_assumption_says_where_it_is_from(share: Share) -> None:
    """A number without a source is a guess that nobody owns up to."""
    assert share.source
    assert share.assumed


def test_an_assumed_share_lowers_confidence_until_cases_show_it() -> None:
    """A high finding with a guessed share is a medium recommendation."""
    assert sureness("high", ASSUMED["setting"])[0] == "medium"
    assert sureness("medium", ASSUMED["setting"])[0] == "low"
    assert sureness("high", replace(ASSUMED["setting"], cases=CASES_LEAST))[0] == "high"
    assert sureness("high", Share(1, 2, 3, computed=True))[0] == "high"
    assert sureness("medium", None)[0] == "medium"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Two abandoned runs: one on a GPU that is owned, and one of two GPUs, of which one is on demand."""
    fleet = Fleet()
    options = {"n1": "owned", "n2": "owned", "n3": "on_demand"}
    for node, option in options.items():
        fleet.own(node, [f"{node}g"], purchase_option=option)
        fleet.sample(node, f"{node}g", MONDAY, MONDAY + HOUR, memory_used_bytes=10**10)
        idle: dict[str, Any] = {"utilization_ratio": 0.0, "utilization_zero_ratio": 1.0, "sm_active_ratio": 0.0}
        fleet.sample(node, f"{node}g", MONDAY + HOUR, MONDAY + 6 * HOUR, memory_used_bytes=10**10, **idle)
    fleet.hold("slurm/alpha/1", "n1", ["n1g"], MONDAY, MONDAY + 6 * HOUR)
    for node in ("n2", "n3"):
        fleet.hold("slurm/alpha/2", node, [f"{node}g"], MONDAY, MONDAY + 6 * HOUR)
    fleet.analyze(settings=priced(tmp_path_factory.mktemp("prices"), H100_80GB=2.0))
    with fleet.store.session() as opened:
        yield opened
    fleet.store.close()


@pytest.fixture(scope="module")
def found(session: Session) -> list[Finding]:
    """What was found of them."""
    return [finding for finding in findings(session, MONDAY, MONDAY + WEEK_US) if finding.cause == "abandoned"]


def test_only_gpus_that_are_paid_by_use_take_something_off_the_bill(session: Session, found: list[Finding]) -> None:
    """What is owned costs the same, used or not: giving it back frees it for others."""
    owned, mixed = sorted(
        recommendations(session, found, MONDAY, MONDAY + WEEK_US), key=lambda one: one.saves_milliseconds.p50
    )
    for one in (owned, mixed):
        assert one.freed is not None
        assert one.billed is not None
        assert one.freed.micros is not None
        assert one.billed.micros is not None
        assert one.saves_micros == Range(
            *(
                getattr(one.freed.micros, name) + getattr(one.billed.micros, name)
                for name in ("p20", "p50", "p80", "p5", "p95")
            )
        )
    assert owned.billed is not None
    assert mixed.billed is not None
    assert owned.billed.milliseconds.p50 == 0
    assert mixed.billed.milliseconds.p50 == mixed.saves_milliseconds.p50 // 2


def test_realised_cases_take_the_place_of_an_assumption(session: Session, found: list[Finding]) -> None:
    """One table, by kind; of too few cases the assumption stays."""
    period = (MONDAY, MONDAY + WEEK_US)
    quantiles = {"p5": 100, "p20": 200, "p50": 300, "p80": 400, "p95": 500}

    def by_cases(cases: int) -> AdviceRequest:
        return AdviceRequest(realised={"release": realised_share(quantiles, cases)})

    assumed = recommendations(session, found, *period)
    few = recommendations(session, found, *period, by_cases(CASES_LEAST - 1))
    assert few == assumed
    shown = recommendations(session, found, *period, by_cases(CASES_LEAST))
    for before, after in zip(assumed, shown, strict=True):
        loss = next(one.milliseconds for one in found if one.id in after.finding_ids)
        assert after.saves_milliseconds == recovered(loss, WEEK_US, Share(200, 300, 400, 100, 500))
        assert (before.confidence, after.confidence) == ("medium", "high")
        assert "20 realized cases" in after.sure_because
