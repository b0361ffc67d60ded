"""What must not be said of a healthy fleet, of a service's pauses, and of a broken sensor."""

from functools import cache

import pytest

from bench.truth import controls
from bench.truth.controls import DECLARED, healthy_week, tells_of_sensor

mostly_pauses = cache(controls.mostly_pauses)  # analysed once for all who ask of it
stuck_sensor = cache(controls.stuck_sensor)


def test_a_busy_healthy_fleet_for_a_week_has_no_finding_of_high_confidence() -> None:
    """Whoever is accused once without reason reads no second finding."""
    week = healthy_week(("healthy", "page_cache"))
    assert week.state("productive") > 0.9
    assert [finding for finding in week.findings if finding.confidence == "high"] == []


def test_the_pauses_of_a_service_are_its_reserve() -> None:
    """Serving GPUs read 0% two thirds of the time while they hold 30 GB, and keep their promise of latency with it."""
    service = mostly_pauses("service")
    assert service.state("headroom") > 0.5
    assert service.state("held_idle") == 0


def test_the_same_pauses_of_a_session_are_held_memory() -> None:
    """The declared class decides, since the GPU looks the same."""
    session = mostly_pauses("session")
    assert session.shares["held_idle", "held_memory"] > 0.5
    assert session.state("headroom") == 0


@pytest.mark.parametrize("declared", DECLARED)
def test_pauses_are_no_waiting_for_input_whoever_makes_them(declared: str) -> None:
    """Nothing on the host says that input is late."""
    assert mostly_pauses(declared).state("starved") == 0


def test_a_stuck_pcie_reading_on_an_idle_gpu_is_no_copying() -> None:
    """1.7 GB/s that never moves, at 25 W: no copy engine runs at that power."""
    stuck = stuck_sensor()
    assert stuck.state("starved") == 0
    assert stuck.state("held_idle") > 0.9


def test_a_stuck_pcie_reading_is_told_as_a_broken_sensor() -> None:
    """Who trusts the reading elsewhere should know."""
    assert tells_of_sensor(stuck_sensor())
