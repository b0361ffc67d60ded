"""One rank behind the others: in either direction, by how much, and when nobody may be named."""

from typing import Any

import pytest

from analyzer.ledger.causes.exchange import Usual
from analyzer.ledger.causes.straggler import NONE_BEHIND, Lag, straggler_lag
from analyzer.ledger.classifier import Classifier
from analyzer.ledger.thresholds import Thresholds
from analyzer.ledger.windows import RunWindow, Verdict
from analyzer.period import WINDOW_MS
from tests.analyzer.windows import GPUS, facts, window

LIMITS = Thresholds()
LINKS: dict[str, Any] = {"nvlink_kb": GPUS * WINDOW_MS * 100}
SLOW = "G3"
# Seven peers spin for half of each step: 0.5 * 0.9 + 0.5 * 0.18 = 0.54; the slow rank computes throughout.
BUSIER: dict[str, Any] = {
    "activity": 585, "activity_median": 540, "activity_most": 900, "activity_spread": 5, "active_gpu": SLOW,
    "still_median": 0, "still_most": 0, "still_spread": 0, "still_gpu": "G0",
}  # fmt: skip
STILLER: dict[str, Any] = BUSIER | {
    "activity_most": 545, "still_most": 400, "still_spread": 4, "still_gpu": SLOW
}  # fmt: skip


def ranks(**values: Any) -> RunWindow:
    """Return a window of eight ranks with traffic between them."""
    return window(**(LINKS | values))


def test_the_slow_rank_of_a_synchronous_run_is_the_busier_one() -> None:
    """Its peers wait half the time (0.36 of 0.72), which is seven eighths of that of all GPUs."""
    assert straggler_lag(ranks(**BUSIER), LIMITS) == Lag(437, SLOW)


def test_a_rank_that_sleeps_holds_up_the_others_as_well() -> None:
    """It stands still for 40% while they spin: seven eighths of it."""
    assert straggler_lag(ranks(**STILLER), LIMITS) == Lag(350, SLOW)


def test_power_tells_where_the_chip_does_not() -> None:
    """Peers at 0.6 of the limit beside one at 0.9: 0.3 of 0.55 above spinning."""
    power = {"sm_ms": 0, "power_median": 600, "power_most": 900, "power_spread": 10, "power_gpu": SLOW}
    assert straggler_lag(ranks(**power), LIMITS) == Lag(545 * 7 // 8, SLOW)


def test_where_the_ranks_of_one_host_are_behind_only_the_other_half_waits() -> None:
    """Four of eight stand still for 40%: the mean of all lies halfway, and half of the GPUs wait."""
    assert straggler_lag(ranks(**STILLER, still=200, nodes=2), LIMITS) == Lag(200, SLOW)


def test_ranks_of_one_host_that_do_unlike_work_have_no_straggler() -> None:
    """Generators beside trainers: half of a host stands still while the other half works, and nobody is behind."""
    assert straggler_lag(ranks(**STILLER, still=200), LIMITS) == NONE_BEHIND
    assert straggler_lag(ranks(**STILLER, still=50), LIMITS).caused_by == SLOW


def test_a_slower_clock_tells_where_the_chip_does_not() -> None:
    """A hot GPU draws less for its clock, its peers for their waiting: power shows neither, and the clock does."""
    hot = {"sm_ms": 0, "slowed_most": 240, "slowest_gpu": SLOW}
    assert straggler_lag(ranks(**hot), LIMITS) == Lag(210, SLOW)
    assert straggler_lag(ranks(**hot, still=500), LIMITS) == Lag(105, SLOW)


@pytest.mark.parametrize(
    "values", [{"slowed_least": 220}, {"slowed_most": 29}, {"sm_ms": GPUS * WINDOW_MS}, {"nvlink_kb": 0}]
)
def test_clocks_name_nobody_where_all_are_slow_or_the_chip_tells_more(values: dict[str, Any]) -> None:
    """A hot room slows all; SM activity is asked first; ranks that send nothing do not wait."""
    hot = {"sm_ms": 0, "slowed_most": 240, "slowest_gpu": SLOW}
    assert straggler_lag(ranks(**(hot | values)), LIMITS) == NONE_BEHIND


@pytest.mark.parametrize(
    "values",
    [
        BUSIER | {"activity_spread": 100},  # the others differ nearly as much: a pipeline's stages do
        BUSIER | {"activity_most": 609},  # within three and a half of what ranks differ by anyway
        BUSIER | {"nvlink_kb": 0},  # ranks that send nothing do not wait for one another: eight trials of a sweep
        BUSIER | {"nvlink_kb": None},
        BUSIER | {"gpus": 2},  # of two nobody is the odd one
        BUSIER | {"activity_median": None},
        BUSIER | {"activity_median": 100, "activity_most": 300},  # spinning all of them
        {},
    ],
)
def test_nobody_is_named_without_an_odd_rank_among_peers_that_wait(values: dict[str, Any]) -> None:
    """Naming a GPU sends somebody to a rack."""
    assert straggler_lag(ranks(**values), LIMITS) == NONE_BEHIND


def verdict(**values: Any) -> Verdict:
    """Judge one window of a run that is at its habit."""
    (said,) = Classifier([ranks(**values)], facts(), LIMITS).seen(0, WINDOW_MS).verdicts(1, None, Usual())
    return said


def test_a_lag_of_every_step_is_booked_though_no_shortfall_stands_out() -> None:
    """The run's own best holds what recurs; the wait is there all the same."""
    said = verdict(**BUSIER, short=0)
    assert (said.straggler_permille, said.lagging_permille, said.caused_by) == (0, 437, SLOW)


def test_a_shortfall_is_the_lags_first() -> None:
    """437 permille of waiting: the 300 that stand out, and 137 of the 700 that are left."""
    said = verdict(**BUSIER, short=300)
    assert (said.straggler_permille, said.lagging_permille) == (1000, 137 * 1000 // 700)


def test_a_shortfall_beyond_the_lag_is_plain_exchange() -> None:
    """437 of 600 are the slow rank's, the rest are collectives."""
    said = verdict(**BUSIER, short=600)
    assert (said.straggler_permille, said.lagging_permille) == (437 * 1000 // 600, 0)
