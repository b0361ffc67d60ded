"""The pair of V100 traces through the real pipeline, as sensors that exist would have seen them."""

import pytest

from agent.wire.tables import TABLES
from bench.truth.real.kineto import CLOSE, FED, FED_MOST, SETTINGS, STARVED, Verdict, judge, tables, verdict_checks


@pytest.mark.parametrize(("sensor", "every"), SETTINGS)
def test_a_trainer_with_a_loader_is_not_accused(sensor: str, every: float) -> None:
    """Its GPU rests 30% of the time for other reasons: that may stay unexplained, and no input may be blamed."""
    verdict = judge(FED, sensor, every)
    assert verdict.starved + verdict.suspected <= FED_MOST
    assert [sentence for sentence in verdict.findings if not sentence.startswith("low")] == []


def test_a_trainer_without_a_loader_is_low_by_about_what_it_waits() -> None:
    """Seen by an exporter once a second, what is lost is the profiler's wait and the pauses that every step has."""
    verdict = judge(STARVED, "averaged", 1.0)
    assert abs(verdict.waiting - verdict.profiler_waiting) <= CLOSE
    assert verdict.waiting == pytest.approx(1 - verdict.profiler_busy, abs=0.005)


@pytest.mark.parametrize("recording", [STARVED, FED])
def test_no_row_holds_what_the_profiler_says(recording: str) -> None:
    """The truth has no column in the contract, and what is not known of the loader stays unknown."""
    made = tables(recording, "ring", 1.0)
    assert all(set(row) <= set(TABLES[name].names) for name, rows in made.items() for row in rows)
    assert {row["workers"] for row in made["process_samples"]} == {0 if recording == STARVED else 4}
    assert all("workers_busiest_cpu_ratio" not in row for row in made["process_samples"])


def test_bytes_to_the_gpu_are_those_of_the_trace() -> None:
    """Repeating the recording must not lose the copies at the seams."""
    moved = [int(str(row["pcie_receive_bytes"])) for row in tables(STARVED, "averaged", 1.0)["gpu_samples"]]
    again = [int(str(row["pcie_receive_bytes"])) for row in tables(STARVED, "averaged", 0.1)["gpu_samples"]]
    assert sum(moved) == sum(again) > 0


def test_a_verdict_that_says_nothing_misses_what_is_asked_of_the_starved_one() -> None:
    """A ledger that books all as working keeps the checks of the fed recording; it must not keep the others."""
    silent = Verdict("x", "ring", 1.0, 0.4, 0.55, 0.0, 0.0, 0.0, None, ())
    fed = Verdict("y", "ring", 1.0, 0.01, 0.7, 0.0, 0.0, 0.0, None, ())
    assert [check.kept for check in verdict_checks(silent, fed)] == [False, False, True, True]
