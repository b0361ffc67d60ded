"""Shares that realised savings show take the place of assumed ones: from twenty cases on, and where it is wished."""

from analyzer.recommendations.advise import AdviceOptions
from analyzer.recommendations.lifecycle.prediction import shares_version
from analyzer.recommendations.lifecycle.realised import CalibrationCase, learned_shares, shares_of
from analyzer.recommendations.recommendation import ASSUMED, CASES_LEAST, calibrated, sureness
from analyzer.settings.settings import Advising, Settings
from tests.analyzer.ledger.fleet import Fleet

PREDICTED = {"p20": 1, "p50": 2, "p80": 3}


def cases(kind: str, count: int, lost: int | None = 100) -> list[CalibrationCase]:
    """Return so many cases, of which each gave back one hundredth more than the one before."""
    return [CalibrationCase(kind, "2026-11", PREDICTED, 30 + number, lost) for number in range(count)]


def test_twenty_cases_of_a_kind_take_the_place_of_an_assumption() -> None:
    """And the recommendation says so; of fewer, or of unknown losses, the assumption stays."""
    seen = cases("release", CASES_LEAST) + cases("pack", CASES_LEAST - 1) + cases("more_cpu", CASES_LEAST, None)
    shown = shares_of(seen)
    assert set(shown) == {"release"}
    share = calibrated("release", ASSUMED["release"], shown)
    assert (share.p5, share.p20, share.p50, share.p80, share.p95) == (300, 330, 390, 450, 480)
    assert sureness("high", share) == (
        "high",
        "the loss is of high confidence; the share saved is that of 20 realized cases",
    )
    assert calibrated("pack", ASSUMED["packed"], shown) is ASSUMED["packed"]


def test_nothing_is_learned_unless_the_settings_say_so() -> None:
    """What was predicted by which shares is kept: other shares are another version."""
    fleet = Fleet()
    with fleet.store.session() as session:
        assert AdviceOptions(Settings()).realised(session) == {}
        assert AdviceOptions(Settings(advising=Advising(learn_shares=True))).realised(session) == learned_shares(
            session
        )
    fleet.store.close()
    assert shares_version(shares_of(cases("release", CASES_LEAST))) != shares_version({}) == shares_version({})
