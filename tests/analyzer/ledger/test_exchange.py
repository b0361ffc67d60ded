"""Communication: what is fair, what the way across racks costs, what one slow GPU costs, and what is a hang."""

from typing import Any

import pytest

from analyzer.ledger.causes.exchange import (
    NO_EXCHANGE,
    ExchangeJudgement,
    Usual,
    crossing_permille,
    detect,
    exchange_rate,
    hung_windows,
    is_hung,
    lesson,
    steady_permille,
    usual,
)
from analyzer.ledger.thresholds import Thresholds
from analyzer.ledger.windows import RunWindow
from analyzer.period import WINDOW_MS
from tests.analyzer.windows import GPUS, SECONDS, facts, window

LIMITS = Thresholds()
SHORT = 200  # a fifth of the time short of the run's best: 120 s of each GPU's ten minutes
IN_RACK = 10_000_000_000  # what this fabric gives a node inside a rack, bytes a second
TWO_RACKS = facts(racks=2)


def exchanging(gigabytes_a_second: int = 10, **values: Any) -> RunWindow:
    """Return a window that exchanges for 120 s at this rate a node."""
    moved = gigabytes_a_second * 10**9 * 120 * 2
    return window(**({"short": SHORT, "nodes": 2, "rdma_out": moved, "nvlink_kb": GPUS * WINDOW_MS * 100} | values))


def test_what_is_as_fast_as_inside_a_rack_is_fair() -> None:
    """Exchanging is work of distributed training: plain collectives are overhead and no finding."""
    assert detect(exchanging(10), TWO_RACKS, IN_RACK, LIMITS) == ExchangeJudgement(True)


def test_the_rate_is_bytes_over_the_time_spent_exchanging() -> None:
    """Of one node, and of the time short of the run's best alone."""
    assert exchange_rate(exchanging(10), Thresholds()) == 10 * 10**9


@pytest.mark.parametrize(("seen", "permille"), [(5, 500), (2, 800), (9, 100), (10, 0), (12, 0)])
def test_the_cross_rack_part_is_what_the_same_bytes_would_not_take_inside(seen: int, permille: int) -> None:
    """At half the rate half of the exchange is avoidable, and never more than all of it."""
    judged = detect(exchanging(seen), TWO_RACKS, IN_RACK, LIMITS)
    assert judged.cross_rack_permille == permille
    assert judged.confidence == ("high" if permille else "medium")


@pytest.mark.parametrize(
    ("known", "in_rack_rate", "values"),
    [
        (facts(racks=None), IN_RACK, {}),
        (facts(racks=1), IN_RACK, {}),
        (TWO_RACKS, None, {}),
        (TWO_RACKS, IN_RACK, {"rdma_out": None}),
    ],
)
def test_without_racks_rates_or_bytes_nobody_crosses_racks(
    known: Any, in_rack_rate: int | None, values: dict[str, Any]
) -> None:
    """Not evaluated accuses nobody: the exchange stays plain."""
    judged = detect(exchanging(2, **values), known, in_rack_rate, LIMITS)
    assert judged.is_exchanging
    assert judged.cross_rack_permille == 0


def test_a_slow_gpu_makes_its_peers_wait_as_long_as_it_is_behind() -> None:
    """A clock 10% down is half of a shortfall of 20%, and the run's owner did not do it."""
    judged = detect(exchanging(slowed_most=100, slowest_gpu="G3"), facts(), IN_RACK, LIMITS)
    assert judged == ExchangeJudgement(True, straggler_permille=500, caused_by="G3")


def test_ranks_that_are_all_slow_have_no_straggler() -> None:
    """A hot room slows everybody: nobody waits for one."""
    judged = detect(exchanging(slowed_most=100, slowed_least=90, slowest_gpu="G3"), facts(), IN_RACK, LIMITS)
    assert judged.straggler_permille == 0
    assert judged.caused_by is None


def test_straggler_and_racks_divide_one_shortfall() -> None:
    """What the slow GPU explains first is not blamed on the racks again."""
    judged = detect(exchanging(5, slowed_most=100, slowest_gpu="G3"), TWO_RACKS, IN_RACK, LIMITS)
    assert (judged.straggler_permille, judged.cross_rack_permille) == (500, 250)


@pytest.mark.parametrize(
    "values",
    [
        {"gpus": 1},
        {"short": 19},
        {"nvlink_kb": None, "rdma_out": None},
        {"nvlink_kb": 0, "rdma_out": 0},
        {"nvlink_kb": 0, "nodes": 1},
    ],
)
def test_a_shortfall_without_busy_links_is_no_exchange(values: dict[str, Any]) -> None:
    """One GPU has no peers, noise is no loss, links that are silent or unknown carry nothing, and one host's own
    RDMA traffic is storage."""
    assert detect(exchanging(**values), TWO_RACKS, IN_RACK, LIMITS) == NO_EXCHANGE


def test_a_steady_exchange_is_bounded_by_its_bytes() -> None:
    """What recurs in every step hides in the run's own best; its bytes take a tenth of the window at this rate."""
    moved = IN_RACK * SECONDS // 10 * 2
    steady = window(nodes=2, rdma_out=moved, tensor=500, best=500)
    assert steady_permille(steady, facts(), IN_RACK, LIMITS) == 100


def test_a_steady_exchange_is_bounded_by_what_the_chip_lacks() -> None:
    """A chip at its dense best has no room for it, however many bytes cross beside the computation."""
    moved = IN_RACK * SECONDS * 2
    assert steady_permille(window(nodes=2, rdma_out=moved, tensor=500, best=900), facts(), IN_RACK, LIMITS) == 0
    assert steady_permille(window(nodes=2, rdma_out=moved, tensor=500, best=720), facts(), IN_RACK, LIMITS) == 250


@pytest.mark.parametrize(
    "values",
    [
        {"tensor": None},
        {"tensor": 100},
        {"rdma_out": None},
        {"nodes": 1},
        {"best": None},
        {"best": 180},
        {"short": SHORT},
    ],
)
def test_no_steady_exchange_is_claimed_without_both_bounds(values: dict[str, Any]) -> None:
    """It is an inference: a model that is not dense, unknown bytes or exchanges that show as dips forbid it."""
    base = {"nodes": 2, "rdma_out": IN_RACK * SECONDS, "tensor": 500, "best": 500}
    assert steady_permille(window(**(base | values)), facts(), IN_RACK, LIMITS) == 0


def test_a_fabric_that_was_only_seen_still_bounds_nothing() -> None:
    """A rate of 0 bytes a second is no yardstick, and no divisor."""
    steady = window(nodes=2, rdma_out=IN_RACK * SECONDS, tensor=500, best=500)
    assert steady_permille(steady, facts(), 0, LIMITS) == 0


def test_a_service_has_no_steady_exchange() -> None:
    """Its low best is that of its requests."""
    serving = facts(stage="serving")
    steady = window(nodes=2, rdma_out=IN_RACK * SECONDS, tensor=500, best=500)
    assert steady_permille(steady, serving, IN_RACK, LIMITS) == 0


CROSSING: dict[str, Any] = {"nodes": 2, "rdma_out": IN_RACK * SECONDS // 10 * 2, "tensor": 300, "best": 490}


def test_what_every_step_takes_longer_across_racks_is_what_the_chip_lacks_beyond_the_bytes() -> None:
    """Half of the time, of which the bytes would take a tenth inside a rack; counted from 0.8, not from a dense 0.9."""
    assert crossing_permille(window(**CROSSING), TWO_RACKS, IN_RACK, LIMITS) == 400


@pytest.mark.parametrize(
    ("known", "in_rack_rate", "values"),
    [
        (facts(racks=None), IN_RACK, {}),
        (facts(racks=1), IN_RACK, {}),
        (facts(racks=2, stage="serving"), IN_RACK, {}),
        (TWO_RACKS, None, {}),
        (TWO_RACKS, 0, {}),
        (TWO_RACKS, IN_RACK, {"rdma_out": None}),
        (TWO_RACKS, IN_RACK, {"rdma_out": 10**9}),
        (TWO_RACKS, IN_RACK, {"nodes": 1}),
        (TWO_RACKS, IN_RACK, {"best": None}),
        (TWO_RACKS, IN_RACK, {"best": 180}),
        (TWO_RACKS, IN_RACK, {"best": 800}),
        (TWO_RACKS, IN_RACK, {"tensor": None}),
        (TWO_RACKS, IN_RACK, {"tensor": 90}),
        (TWO_RACKS, IN_RACK, {"rdma_out": IN_RACK * SECONDS}),
    ],
)
def test_nothing_is_said_of_racks_without_racks_bytes_and_a_dense_model(
    known: Any, in_rack_rate: int | None, values: dict[str, Any]
) -> None:
    """A model that is not dense lacks activity for its own reasons; and bytes that would take as long are fair."""
    assert crossing_permille(window(**(CROSSING | values)), known, in_rack_rate, LIMITS) == 0


def test_the_fabric_is_learned_only_where_the_time_of_exchanging_is_sure() -> None:
    """Bytes over a noise of 2%, or beside exchanges that the best holds already, make a fabric look too fast."""
    assert lesson(exchanging(10), LIMITS) == 10 * 10**9
    assert lesson(exchanging(10, short=49), LIMITS) is None
    assert lesson(exchanging(10, best=799), LIMITS) is None
    assert lesson(exchanging(10, best=None), LIMITS) is None


def test_a_run_whose_ranks_start_apart_tells_no_rate() -> None:
    """Those that wait for a late rank move nothing meanwhile: bytes over that time would make the fabric look slow."""
    assert exchange_rate(exchanging(10, still_median=0, still_most=100), LIMITS) is None
    assert exchange_rate(exchanging(10, still_median=50, still_most=149), LIMITS) == 10 * 10**9


USUAL_KB = 10**9
HABIT = Usual(USUAL_KB, 800)


def hung(**values: Any) -> RunWindow:
    """Return a window in which every GPU spins, the chip does little and the links are silent."""
    return window(**({"utilization": 1000, "activity": 180, "nvlink_kb": 0} | values))


def test_spinning_with_silent_links_is_a_hang() -> None:
    """Nothing moves: no rank will ever be heard again."""
    assert is_hung(hung(), HABIT, LIMITS)


@pytest.mark.parametrize(
    "values",
    [
        {"gpus": 1},
        {"ms": GPUS * WINDOW_MS * 4 // 10},  # four minutes of silence at the end of a run
        {"utilization": 900},
        {"utilization": None},
        {"activity": 500},
        {"nvlink_kb": USUAL_KB // 10},
        {"best": None},
        {"sm_ms": 0},
    ],
)
def test_whatever_still_moves_is_no_hang(values: dict[str, Any]) -> None:
    """A pause, a chip at work, links at a tenth of the usual, or figures that are unknown: none is a hang."""
    assert not is_hung(hung(**values), HABIT, LIMITS)


def which(windows: list[RunWindow], habit: Usual = HABIT) -> list[bool]:
    """Return which of a run's windows hang."""
    return [each.is_hung for each in hung_windows(windows, GPUS, habit, LIMITS)]


def test_ranks_that_spin_without_links_hang_where_they_have_worked() -> None:
    """On boards without NVLink: every GPU busy, at rest, and sending nothing, after an hour of work."""
    works, spins = window(0, spinning=0), {"spinning": 990, "spinning_gpus": GPUS, "nvlink_kb": None}
    assert which([works, window(1, **spins), window(2, **spins)], Usual()) == [False, True, True]
    assert which([window(1, **spins), window(2, **spins)], Usual()) == [False, False], "it never worked"
    some = spins | {"spinning_gpus": GPUS - 1}
    assert which([works, window(1, **some)], Usual()) == [False, False], "one of them works, or stands still"
    alive, dead = works, window(1, **some, gpus_alive=GPUS - 1)
    alive.gpus_alive = GPUS
    assert which([alive, dead], Usual()) == [False, True], "its process is gone"


def test_silence_of_pcie_after_work_is_a_hang_of_medium_confidence() -> None:
    """What carries gradients and input alike has stopped, and the boards draw half of what they did."""
    works = [window(n, sm_ms=0, nvlink_kb=None, pcie_in_kb=10**9, pcie_out_kb=10**9, power=800) for n in range(6)]
    silent = {"sm_ms": 0, "nvlink_kb": None, "pcie_in_kb": 10**6, "pcie_out_kb": 10**6, "utilization": 1000}
    found = hung_windows([*works, window(6, **silent, power=350)], GPUS, usual(works), LIMITS)[-1]
    assert (found.is_hung, found.confidence) == (True, "medium")
    assert not which([*works, window(6, **silent, power=700)], usual(works))[-1]


def test_the_tail_of_a_hang_is_of_any_length() -> None:
    """Somebody ends the run four minutes into a window: they hung as well, and are no small kernels."""
    tail = hung(number=3, ms=GPUS * WINDOW_MS * 4 // 10)
    assert which([window(1), hung(number=2), tail]) == [False, True, True]
    assert which([window(1), window(2), tail]) == [False, False, False]
    assert which([hung(number=1), tail]) == [True, False]  # a gap lies between


def test_links_that_were_not_read_are_not_silent() -> None:
    """None is not reported: a driver that withholds a counter for ten minutes hangs nobody."""
    assert not is_hung(hung(nvlink_kb=None), HABIT, LIMITS)


@pytest.mark.parametrize("values", [{"dram": 600}, {"tensor": 300}])
def test_a_chip_that_moves_data_is_not_hung(values: dict[str, int]) -> None:
    """Generation within a training run decodes: memory is busy, SMs are not, and no link is needed."""
    assert not is_hung(hung(**values), HABIT, LIMITS)


def test_a_run_that_never_uses_its_links_cannot_be_told_to_hang() -> None:
    """Silence is then its habit."""
    assert not is_hung(hung(), Usual(None, 800), LIMITS)
    assert not is_hung(hung(), Usual(0, 800), LIMITS)


def by_power(power: int | None, habit: Usual = HABIT) -> bool:
    """Say whether a window of GPUs that report no SM activity is a hang."""
    return is_hung(hung(sm_ms=0, best=1000, activity=1000, power=power), habit, LIMITS)


@pytest.mark.parametrize(("power", "expected"), [(350, True), (450, True), (451, False), (None, False)])
def test_power_tells_a_hang_where_the_chip_does_not(power: int | None, expected: bool) -> None:
    """An A100 is 100% busy in a collective that never ends; it draws what spinning draws."""
    assert by_power(power) is expected


def test_a_run_that_always_draws_little_is_not_hung_by_its_power() -> None:
    """Small kernels draw little too: only against its own habit is it a change."""
    assert not by_power(350, Usual(USUAL_KB, 400))
    assert not by_power(350, Usual(USUAL_KB, None))


def test_a_habit_is_told_from_windows_that_move() -> None:
    """Hours of silence are no habit, and what was not read is not 0."""
    seen = [window(0, nvlink_kb=4, power=800), window(1, nvlink_kb=0, power=300), window(2, power=200)]
    assert usual(seen) == Usual(4, 800)
    assert usual(seen[1:]) == Usual()
