"""Busy in the driver's sense with little of the chip in use, and what looks like it and is not."""

from typing import Any

import pytest

from analyzer.detectors.underused import FULL_USE, UnderuseJudgement, detect
from analyzer.thresholds import Thresholds
from tests.analyzer.windows import facts, window

LIMITS = Thresholds()
LITTLE: dict[str, Any] = {"activity": 120, "tensor": 10, "dram": 50}
SMALL = UnderuseJudgement("small_kernels")


def judged(stage: str = "training", **values: Any) -> UnderuseJudgement:
    """Judge one busy window."""
    return detect(window(**values), facts(stage=stage), LIMITS)


def test_a_busy_gpu_with_little_sm_activity_is_underused() -> None:
    """NVML's 99 % says that a kernel was resident, not that the chip was used."""
    assert judged(**LITTLE) == SMALL


@pytest.mark.parametrize("values", [{"activity": 300}, {"tensor": 100}, {"dram": 300}])
def test_any_part_of_the_chip_that_works_is_use(values: dict[str, int]) -> None:
    """Decoding is bound by memory: few SMs, much HBM, and nothing to gain."""
    assert judged(**(LITTLE | values)) == FULL_USE


def test_only_the_busy_part_is_judged() -> None:
    """Half the window stands still and is somebody else's loss: 20 % of all is 40 % of the busy half."""
    assert judged(activity=200, tensor=10, dram=50, still=500, utilization=500) == FULL_USE
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
