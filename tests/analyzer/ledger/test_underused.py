"""Busy in the driver's sense with little of the chip in use, and what looks like it and is not."""

from typing import Any

import pytest

from analyzer.ledger.causes.underused import FULL_USE, UnderuseJudgement, detect
from analyzer.ledger.thresholds import Thresholds
from analyzer.period import WINDOW_MS
from tests.analyzer.windows import GPUS, facts, window

LIMITS = Thresholds()
LITTLE: dict[str, Any] = {"activity": 120, "tensor": 10, "dram": 50}
SMALL = UnderuseJudgement("small_kernels")


def judged(stage: str = "training", **values: Any) -> UnderuseJudgement:
    """Judge one busy window."""
    return detect(window(**values), facts(stage=stage), LIMITS)


def test_a_busy_gpu_with_little_sm_activity_is_underused() -> None:
    """NVML's 99% says that a kernel was resident, not that the chip was used."""
    assert judged(**LITTLE) == SMALL


@pytest.mark.parametrize("values", [{"activity": 500}, {"tensor": 100}, {"dram": 300}])
def test_any_part_of_the_chip_that_works_is_use(values: dict[str, int]) -> None:
    """Decoding is bound by memory: few SMs, much HBM, and nothing to gain."""
    assert judged(**(LITTLE | values)) == FULL_USE


def test_where_the_links_are_busy_only_less_than_spinning_leaves_is_underuse() -> None:
    """Peers that wait in a collective lower the mean of SM activity as well as small kernels do."""
    busy = LITTLE | {"nvlink_kb": GPUS * WINDOW_MS * 100}
    assert judged(**(busy | {"activity": 299})) == SMALL
    assert judged(**(busy | {"activity": 300})) == FULL_USE


def test_only_the_busy_part_is_judged() -> None:
    """Half the window stands still and is somebody else's loss: 26% of all is 52% of the busy half."""
    assert judged(activity=260, tensor=10, dram=50, still=500, utilization=500) == FULL_USE
    assert judged(activity=100, tensor=10, dram=50, still=500, utilization=500) == SMALL


@pytest.mark.parametrize("utilization", [None, 499])
def test_a_gpu_that_is_not_busy_is_not_underused(utilization: int | None) -> None:
    """Then it is idle, waiting or unknown."""
    assert judged(**LITTLE, utilization=utilization) == FULL_USE


@pytest.mark.parametrize(("power", "expected"), [(449, SMALL), (450, FULL_USE), (None, FULL_USE)])
def test_power_speaks_where_the_chip_does_not(power: int | None, expected: UnderuseJudgement) -> None:
    """An A100 reports no SM activity; without power either, nothing is said."""
    assert judged(sm_ms=0, power=power) == expected


def test_power_is_not_asked_where_sm_activity_is_known() -> None:
    """A chip at work may be frugal."""
    assert judged(power=200) == FULL_USE


def test_a_service_that_is_underused_serves_one_by_one() -> None:
    """What helps it is batching, not packing."""
    assert judged("serving", **LITTLE) == UnderuseJudgement("unbatched")


LAUNCHING: dict[str, Any] = LITTLE | {
    "utilization": 910,
    "power": 310,
    "pcie_in_kb": 8_000_000,
    "cores_used_milli": 1_020 * GPUS,
    "workers": 2,
    "busiest": 80,
}


def test_one_full_thread_a_rank_and_nothing_else_is_launch_bound() -> None:
    """The kernels are small because a host thread cannot launch them faster, and the loader rests."""
    assert judged(**LAUNCHING) == UnderuseJudgement("launch_bound")
    assert judged(**(LAUNCHING | {"workers": 0, "busiest": None})) == UnderuseJudgement("launch_bound")
    assert judged(**(LAUNCHING | {"sm_ms": 0})) == UnderuseJudgement("launch_bound")


@pytest.mark.parametrize("untold", [{"busiest": None}, {"workers": None, "busiest": None}])
def test_beside_one_full_thread_there_is_no_room_for_a_loader(untold: dict[str, None]) -> None:
    """Where no worker is told, the run's cores tell that none does anything."""
    assert judged(**(LAUNCHING | untold)) == UnderuseJudgement("launch_bound")


@pytest.mark.parametrize(
    "values",
    [
        {"cores_used_milli": None},  # nobody knows what the host does
        {"cores_used_milli": 400 * GPUS},
        {"cores_used_milli": 4_000 * GPUS},
        {"busiest": 600},
        {"workers": None, "busiest": None, "cores_used_milli": 1_200 * GPUS},  # there is room for a loader in that
        {"utilization": 700},
        {"power": 430},
        {"pcie_in_kb": 8 * 600_000 * 2_000},
    ],
)
def test_without_any_of_its_signs_kernels_are_only_small(values: dict[str, int | None]) -> None:
    """The advice differs: a busy loader or copies over PCIe are no matter of launching."""
    assert judged(**(LAUNCHING | values)) == SMALL


def test_the_gaps_between_launches_are_launching() -> None:
    """The driver finds no kernel for a seventh of the time, and that is the thread that launches none."""
    gaps = LAUNCHING | {"still": 140, "utilization": 860, "activity": 300}
    assert judged(**gaps) == UnderuseJudgement("launch_bound")
    assert judged(**(gaps | {"activity": 440})) == FULL_USE


def test_a_service_is_not_launch_bound() -> None:
    """What helps it is batching, whatever its threads do."""
    assert judged("serving", **LAUNCHING) == UnderuseJudgement("unbatched")
