"""One verdict a window: what goes before what, and that a verdict never divides more than there is."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from analyzer.ledger.causes.exchange import usual
from analyzer.ledger.classifier import Classifier
from analyzer.ledger.thresholds import Thresholds
from analyzer.ledger.windows import RunFacts, RunWindow, Verdict
from analyzer.period import WINDOW_MS
from analyzer.states import BOOKINGS
from tests.analyzer.windows import GPUS, facts, stalled, window
from tests.campaign import cases

LIMITS = Thresholds()
LINKS: dict[str, Any] = {"nvlink_kb": GPUS * WINDOW_MS * 100}


def judge(windows: list[RunWindow], known: RunFacts, in_rack_rate: int | None = None) -> list[Verdict]:
    """Judge windows that are all there is to know of a run."""
    seen = Classifier(windows, known, LIMITS).seen(0, 2**60)
    return seen.verdicts(len(windows), in_rack_rate, usual(windows))


def permille(draw: Random, most: int = 1000) -> int:
    """Draw a share of time; now and then none or all of it."""
    return draw.choice((0, most, *(draw.randint(0, most) for _ in range(6))))


def maybe(draw: Random, least: int, most: int) -> int | None:
    """Draw a figure that is not always known."""
    return draw.choice((None, draw.randint(least, most)))


def any_window(draw: Random, number: int = 0) -> RunWindow:
    """Return a window with any figures that samples could give."""
    gpus = draw.randint(1, 16)
    ms = draw.randint(1, gpus * WINDOW_MS)
    still = permille(draw)
    most = permille(draw)
    gauges: tuple[str, ...] = (
        "utilization",
        "tensor",
        "dram",
        "power",
        "best",
        "cpu_busy",
        "host_pressure_io",
    )
    gauges += ("host_pressure_cpu", "disk_busy", "busiest", "waiting", "pressure_io", "pressure_cpu", "cpu_throttled")
    amounts = ("pcie_in_kb", "nvlink_kb", "block_read", "mount_read", "rdma_out")
    return window(
        number,
        gpus=gpus,
        ms=ms,
        sm_ms=draw.choice((0, ms)),
        shares_ms=draw.choice((0, ms)),
        activity=permille(draw),
        still=still,
        short=permille(draw, 1000 - still),
        slowed_most=most,
        slowed_least=permille(draw, most),
        slowest_gpu=draw.choice((None, "G3")),
        nodes=draw.randint(1, 4),
        workers=maybe(draw, 0, 64),
        dips=maybe(draw, 0, 9),
        refills=maybe(draw, 0, 9),
        **{name: draw.choice((None, permille(draw))) for name in gauges},
        **{name: draw.choice((None, 0, draw.randint(0, 2 ** draw.randint(0, 50)))) for name in amounts},
    )


def any_facts(draw: Random) -> RunFacts:
    """Return what may be known of a run."""
    stage = draw.choice(("training", "serving", "interactive", "evaluation"))
    nodes, racks = draw.randint(1, 4), maybe(draw, 1, 4)
    return RunFacts(run_id="slurm/alpha/1", stage=stage, gpus=draw.randint(1, 16), nodes=nodes, racks=racks)


def any_rate(draw: Random) -> int | None:
    """Return what a node sends within a rack, in bytes per second, where that is known."""
    return draw.choice((None, draw.randint(1, 2 ** draw.randint(0, 40))))


@pytest.mark.parametrize("seeds", cases(3_000, here=300))
def test_a_verdict_never_divides_more_than_there_is(seeds: range) -> None:
    """Parts of the shortfall sum to at most all of it, and what is named is a state that people are shown."""
    words = {(booking.state, booking.cause) for booking in BOOKINGS}
    for seed in seeds:
        draw = Random(seed)
        windows = [any_window(draw, number) for number in range(draw.randint(0, 5))]
        verdicts = judge(windows, any_facts(draw), any_rate(draw))
        assert [verdict.window_ms for verdict in verdicts] == [w.window_ms for w in windows], seed
        for verdict in verdicts:
            assert verdict.straggler_permille >= 0, seed
            assert verdict.cross_rack_permille >= 0, seed
            assert verdict.straggler_permille + verdict.cross_rack_permille <= 1000, seed
            assert verdict.steady_permille >= 0, seed
            assert verdict.lagging_permille >= 0, seed
            assert verdict.steady_permille + verdict.lagging_permille <= 1000, seed
            assert verdict.input_cause is None or ("starved", verdict.input_cause) in words, seed
            assert verdict.input_cause is None or verdict.input_confidence != "low", seed
            assert not (verdict.is_underused and verdict.is_exchanging), seed
            assert not verdict.is_underused or ("underused", verdict.underused_cause) in words, seed
            assert ("productive", verdict.work) in words, seed
            assert Verdict.from_json(verdict.as_json()) == verdict, seed


@pytest.mark.parametrize("seeds", cases(3_000, here=300))
def test_without_sm_activity_waiting_for_input_is_at_most_medium(seeds: range) -> None:
    """The reports print so of GPUs that tell NVML's utilization alone (analyzer/interfaces/text/week_text.py).

    It is not so of all that is booked there: idle GPUs, clocks that were held down and hangs are told by other signs.
    """
    for seed in seeds:
        draw = Random(seed)
        windows = [replace(any_window(draw, number), sm_ms=0) for number in range(draw.randint(1, 5))]
        verdicts = judge(windows, any_facts(draw), any_rate(draw))
        assert all(verdict.input_confidence != "high" for verdict in verdicts), seed


def test_with_sm_activity_waiting_for_input_can_be_high() -> None:
    """Else the limit of the others would say nothing."""
    full = [stalled(number, busiest=990) for number in range(6)]
    assert {one.input_confidence for one in judge(full, facts())} == {"high"}
    alone = [replace(one, sm_ms=0) for one in full]
    assert {one.input_confidence for one in judge(alone, facts())} == {"medium"}


def test_a_window_comes_back_from_the_store_as_it_was() -> None:
    """Evidence is told from what was kept: an unknown figure must not come back as 0."""
    for seed in range(100):
        kept = any_window(Random(seed))
        assert RunWindow.from_json(kept.as_json()) == kept, seed


def one(stage: str = "training", **values: Any) -> Verdict:
    """Judge one window by itself."""
    return judge([window(**values)], facts(stage=stage))[0]


def test_an_exchange_is_not_underuse() -> None:
    """A chip that spins for its peers is busy and does little: that is waiting, and counted once."""
    verdict = one(short=700, activity=200, tensor=10, dram=10, **LINKS)
    assert verdict.is_exchanging
    assert not verdict.is_underused


def test_an_overnight_hang_is_a_hang_all_night() -> None:
    """What a run usually moves is told from when it moves at all: eighteen silent hours do not become its habit."""
    moving = [window(number, **LINKS) for number in range(36)]
    silent = [window(number, utilization=1000, activity=180, nvlink_kb=0) for number in range(36, 144)]
    verdicts = judge(moving + silent, facts())
    assert [verdict.is_hung for verdict in verdicts] == [False] * 36 + [True] * 108


def test_the_cause_of_a_weak_suspicion_is_kept_beside_it() -> None:
    """Its seconds stay unexplained, and people may still read what it looks like."""
    verdict = judge([stalled(dips=3, refills=3)], facts())[0]
    assert (verdict.is_low, verdict.input_cause, verdict.input_suspicion) == (True, None, "loader_software")


def test_useful_work_has_a_name_of_its_own() -> None:
    """Evaluation, decoding and work bound by memory are all useful, and not the same."""
    assert one("evaluation").work == "evaluation"
    assert one("serving").work == "decode"
    assert one(dram=600, tensor=20).work == "memory_bandwidth"
    assert one(dram=600, tensor=400).work == "compute"
    assert one().work == "compute"
