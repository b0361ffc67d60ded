"""What speaks against a finding lowers its confidence: the state stays, as its signs are there, and is not sure."""

from typing import Any

import pytest

from tests.analyzer.ledger.fleet import HOUR, MINUTE, MONDAY, Fleet, Row

RUN, NODE, GPU = "slurm/alpha/1", "n1", "GPU-1"
START, END = MONDAY + 6 * HOUR, MONDAY + 9 * HOUR
AT_REST: dict[str, Any] = {"utilization_ratio": 0.0, "utilization_zero_ratio": 1.0, "sm_active_ratio": 0.0}


def _sure(fleet: Fleet, state: str, run: str = RUN) -> set[object]:
    """Return the confidences with which a run's time is booked to a state."""
    fleet.analyze()
    return set(fleet.seen("confidence", f"state = '{state}' AND run_id = '{run}'"))


def _held(gpus: list[str] | None = None) -> Fleet:
    fleet = Fleet()
    fleet.own(NODE, gpus or [GPU])
    row: Row = {"node": NODE, "started_at": START - HOUR, "ended_at": START - HOUR + MINUTE, "sku": "H100-80GB"}
    fleet.add("inventory", [row | {"gpu_uuid": gpu, "power_limit_watts": 700.0} for gpu in gpus or [GPU]])
    fleet.hold(RUN, NODE, gpus or [GPU], START, END, name="train")
    return fleet


def _processors(fleet: Fleet, cores: float, since: int = START, table: str = "run_samples") -> None:
    """Let the run use so many cores, as its cgroup or its process tells."""
    row: Row = {"node": NODE, "run_id": RUN, "cpu_seconds": cores * 60}
    row |= {"cores_allotted": 16.0} if table == "run_samples" else {"gpu_uuid": GPU, "pid": 7, "workers": 0}
    times = range(since, END, MINUTE)
    fleet.add(table, [row | {"started_at": at, "ended_at": at + MINUTE} for at in times])


@pytest.mark.parametrize("table", ["run_samples", "process_samples"])
@pytest.mark.parametrize(("cores", "confidence"), [(0.1, "high"), (1.0, "medium"), (12.0, "medium")])
def test_gpus_that_rest_while_their_run_computes_are_not_surely_left(cores: float, confidence: str, table: str) -> None:
    """An evaluation on the processor, or what unpacks for hours, is no forgotten run; who polls is."""
    fleet = _held()
    fleet.sample(NODE, GPU, START, START + HOUR)
    fleet.sample(NODE, GPU, START + HOUR, END, **AT_REST)
    _processors(fleet, cores, START + HOUR, table)
    assert _sure(fleet, "held_idle") == {confidence}


@pytest.mark.parametrize(("cores", "confidence"), [(0.0, "high"), (6.0, "medium")])
def test_gpus_of_a_run_that_only_prepares_are_not_surely_never_used(cores: float, confidence: str) -> None:
    """It may use them yet."""
    fleet = _held()
    fleet.sample(NODE, GPU, START, END, **AT_REST)
    _processors(fleet, cores)
    assert _sure(fleet, "held_idle") == {confidence}


def test_a_second_gpu_is_surely_never_used_where_the_first_works() -> None:
    """What the processors do then is the first one's work."""
    fleet = _held([GPU, "GPU-2"])
    fleet.sample(NODE, GPU, START, END)
    fleet.sample(NODE, "GPU-2", START, END, **AT_REST)
    _processors(fleet, 6.0)
    assert _sure(fleet, "held_idle") == {"high"}


HELD_DOWN: dict[str, Any] = {
    "sm_clock_hertz": 1.3e9, "sm_clock_hertz_min": 1.3e9, "sm_clock_reference_hertz": 1.98e9, "power_watts": 690.0,
    "throttle_thermal_seconds": 60.0, "throttle_power_seconds": 0.0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("dram", "tensor", "confidence"),
    [(0.3, 0.5, "high"), (0.3, 0.0, "high"), (0.75, 0.4, "high"), (0.75, 0.03, "medium")],
)
def test_a_lower_clock_surely_costs_only_what_computes(dram: float, tensor: float, confidence: str) -> None:
    """What is bound by its memory is as fast at nine tenths of the clock, and nearly so at two thirds."""
    fleet = _held()
    fleet.sample(NODE, GPU, START, END, dram_active_ratio=dram, tensor_active_ratio=tensor, **HELD_DOWN)
    assert _sure(fleet, "throttled") == {confidence}
