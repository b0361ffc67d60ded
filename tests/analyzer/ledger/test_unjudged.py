"""Not evaluated is an answer: which rule lacked which signal."""

from typing import Any

import pytest

from analyzer.ledger.coverage import Unjudged, unjudged_windows
from analyzer.ledger.thresholds import Thresholds
from analyzer.ledger.windows import RunFacts
from tests.analyzer.windows import RUN, facts, stalled, window


def rules(known: RunFacts | None = None, rate: int | None = 10**9, **values: Any) -> dict[str, str]:
    """Return what could not be judged of a run with one stalled window, by rule."""
    found = unjudged_windows([stalled(**values)], known or facts(), rate, Thresholds())
    return {said.rule: said.missing for said in found}


FULLY_SEEN: dict[str, Any] = {"cpu_busy": 400}


def test_a_run_that_is_fully_seen_is_fully_judged() -> None:
    """An empty list is the good news."""
    assert rules(**FULLY_SEEN) == {}


def test_a_stalled_run_without_its_host_lacks_the_host() -> None:
    """The loss is there, and its cause cannot be."""
    assert rules() == {"waiting for input": "no CPU, disk or loader figures of its hosts"}


def test_a_run_that_loses_nothing_lacks_nothing() -> None:
    """Nobody is told of a rule that had nothing to judge."""
    assert unjudged_windows([window()], facts(), None, Thresholds()) == []


@pytest.mark.parametrize("seen", ["cpu_busy", "disk_busy", "busiest"])
def test_one_figure_of_the_host_is_enough_to_judge(seen: str) -> None:
    """Then silence about a cause is an answer of its own."""
    assert rules(facts(), **{seen: 0}) == {}


def test_racks_that_are_unknown_are_told() -> None:
    """Two hosts or more may be apart; one cannot."""
    unknown = facts(racks=None)
    assert rules(unknown, **FULLY_SEEN) == {"cross_rack": "the rack of its hosts is unknown"}
    assert rules(facts(racks=None, nodes=1), **FULLY_SEEN) == {}


def test_traffic_that_is_unknown_is_told() -> None:
    """Across racks without a byte counter nothing is claimed."""
    assert rules(facts(racks=2), **FULLY_SEEN) == {"cross_rack": "no RDMA port traffic was reported"}
    assert rules(facts(racks=2), **FULLY_SEEN, rdma_out=0) == {}


def test_a_fabric_of_which_nothing_was_learned_is_told() -> None:
    """What exchanges inside a rack reach on other GPUs, or over other ports, says nothing of this one."""
    missing = "no exchange inside a rack, on such GPUs and ports, to compare with"
    assert rules(facts(racks=2), None, **FULLY_SEEN, rdma_out=0) == {"cross_rack": missing}
    assert rules(facts(racks=1), None, **FULLY_SEEN, rdma_out=0) == {}


def test_exchanges_that_no_sensor_of_the_chip_shows_are_told() -> None:
    """Across racks bytes alone say nothing of the time that they took; who sends a trickle has none to lose."""
    missing = "no SM activity of its GPUs, which shows for how long they exchange"
    blind: dict[str, Any] = FULLY_SEEN | {"sm_ms": 0, "power": 500}
    assert rules(facts(racks=2), **blind, rdma_out=10**12) == {"cross_rack": missing}
    assert rules(facts(racks=2), **blind, rdma_out=10**6) == {}
    assert rules(facts(racks=1), **blind, rdma_out=10**12) == {}
    assert rules(facts(racks=2), **FULLY_SEEN, rdma_out=10**12) == {}


def test_neither_sm_activity_nor_power_is_told() -> None:
    """Then nobody can say whether a busy chip is used."""
    assert "busy, underused" in rules(**FULLY_SEEN, sm_ms=0)
    assert rules(**FULLY_SEEN, sm_ms=0, power=500) == {}


def test_what_is_not_judged_is_told_by_the_hour() -> None:
    """One line a run, rule and UTC hour, at its first microsecond."""
    windows = [stalled(number) for number in range(6 * 3 + 2, 6 * 3 + 5)]
    missing = "no CPU, disk or loader figures of its hosts"
    assert unjudged_windows(windows, facts(), None, Thresholds()) == [
        Unjudged(3 * 3_600_000_000, RUN, "waiting for input", missing)
    ]
