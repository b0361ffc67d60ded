"""The table of witnesses with scales: that it is the product's, that a fit mends it, and what is counted as right."""

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np

from analyzer.ledger.windows import RunWindow
from bench.bench_calibration import counted
from bench.bench_left_out import ALL, WHOLE, WITHOUT, Score, bars, notes
from bench.causes.judged import Told, told
from bench.causes.labelled import LabelledRun, LabelledWindow
from bench.causes.scales import Scales, Windows

_MINUTES_MS = 600_000
_FIELDS = ("disk_busy", "waiting", "busiest", "cpu_throttled", "pressure_io", "pressure_cpu", "decoder", "cpu_busy")


def _run(kind: str, windows: list[RunWindow], causes: tuple[str, ...] = ()) -> LabelledRun:
    return LabelledRun(kind, [LabelledWindow(window, causes, (), is_open=True) for window in windows])


def _window(number: int, **told: Any) -> RunWindow:
    about: dict[str, Any] = {
        "window_ms": number * _MINUTES_MS,
        "gpus": 4,
        "ms": 2_400_000,
        "sm_ms": 2_400_000,
        "shares_ms": 2_400_000,
    }
    more = {"activity": 400, "still": 500, "short": 0}
    return RunWindow("r", **{**about, **more, **told})


def _drawn(rng: Random) -> list[RunWindow]:
    """Return windows whose every signal is reported or not, quiet or full."""
    usual = {name: rng.choice([None, rng.randint(0, 300), rng.randint(500, 1000)]) for name in _FIELDS}
    made = []
    for number in range(16):
        seen = {name: rng.choice([value, rng.randint(0, 1000)]) for name, value in usual.items()}
        large = {name: rng.choice([None, rng.randint(0, 10**9)]) for name in ("block_read", "mount_read", "network_in")}
        cores = rng.choice([None, rng.randint(0, 16_000)])
        window = _window(number, still=rng.choice([20, 400, 900]), **seen, **large, cores_used_milli=cores, workers=4)
        made.append(replace(window, cores_milli=16_000, pcie_in_kb=rng.choice([None, rng.randint(0, 10**10)])))
    return made


def test_the_table_with_scales_of_one_tells_what_the_product_tells() -> None:
    """A fit that starts elsewhere would say nothing of what is shipped."""
    rng = Random(40)
    runs = [_run(str(number), _drawn(rng)) for number in range(60)]
    expected = list(told(runs))
    assert Windows.of(runs).told(Scales.shipped()) == expected
    assert len({one.cause for one in expected}) > 5


def test_a_fit_weighs_a_witness_that_misleads_less_and_leaves_the_others() -> None:
    """A busy disk of which nothing waits is no cause here, while a full loader is."""
    misled = [_run("beside", [_window(number, disk_busy=1000) for number in range(12)])]
    sound = [_run("full", [_window(number, busiest=1000) for number in range(12)], ("preprocessing",))]
    windows = Windows.of([*misled, *sound])
    every = np.ones(24, dtype=np.bool_)
    assert {one.cause for one in windows.told(Scales.shipped())} == {"storage", "preprocessing"}
    after = windows.told(windows.fitted(every))
    assert {one.cause for one in after} == {None, "preprocessing"}
    kinds = np.array(windows.kinds)
    assert {one.cause for one in windows.told(windows.fitted(kinds == "full"))} == {"storage", "preprocessing"}


def test_a_cause_is_right_that_may_be_told_or_suspected() -> None:
    """What is never booked has a truth too; and a bin tells of how many runs its windows are."""
    seen = LabelledWindow(_window(0), ("storage",), ("decoder",), is_open=True)
    assert Told("storage", 800, True, seen.causes, seen.suspects).is_right
    assert Told("decoder", 900, False, seen.causes, seen.suspects).is_right
    assert not Told("own_process", 800, False, seen.causes, seen.suspects).is_right
    assert Told("unknown", 900, True, seen.causes, seen.suspects).is_right
    assert not Told("unknown", 900, True, (), seen.suspects).is_right
    rows = {(row["causes"], row["from"]): row for row in counted([[Told("storage", 750, True, ("storage",), ())], []])}
    assert (rows["inputs", 750]["right"], rows["inputs", 750]["of_runs"]) == (1, 1)
    assert rows["inputs", 450]["windows"] == 0


def test_what_was_left_out_may_lose_five_points_at_most_and_a_fed_kind_be_booked_no_more() -> None:
    """A fed kind has no precision: each booking of it is wrong."""
    good, worse = Score(100, 50, 50, 50, 50), Score(100, 50, 50, 44, 44)
    fed, booked = Score(100, 0, 0, 0, 0), Score(100, 0, 6, 0, 0)
    kept = {"a": {WHOLE: good, WITHOUT: good}, ALL: {WHOLE: good, WITHOUT: good}}
    assert all(bars(kept).values())
    assert not all(bars({**kept, "b": {WHOLE: good, WITHOUT: worse}}).values())
    assert not all(bars({**kept, "b": {WHOLE: fed, WITHOUT: booked}}).values())


def test_a_kind_of_which_nothing_is_booked_any_more_is_told_as_not_compared() -> None:
    """It has no precision that could have fallen."""
    found, lost = Score(100, 50, 50, 50, 50), Score(100, 50, 0, 0, 0)
    scores = {"a": {WHOLE: found, WITHOUT: found}, "b": {WHOLE: found, WITHOUT: lost}}
    less, mute = notes(scores)
    assert less.endswith("b 100 -> 0%")
    assert mute.endswith(": b")
