"""What speaks against a finding lowers its confidence: the state stays, as its signs are there, and is not sure."""

from collections.abc import Iterator
from typing import Any

from tests.analyzer.ledger.copies import OnePass
from tests.analyzer.ledger.fleet import HOUR, MINUTE, MONDAY, Fleet, Row

RUN, NODE, GPU = "slurm/alpha/1", "n1", "GPU-1"
START, END = MONDAY + 6 * HOUR, MONDAY + 9 * HOUR
AT_REST: dict[str, Any] = {"utilization_ratio": 0.0, "utilization_zero_ratio": 1.0, "sm_active_ratio": 0.0}


one_pass = OnePass()


def _sure(fleet: Fleet, state: str) -> set[object]:
    """Return the confidences with which the run's time is booked to a state."""
    return set(fleet.seen("confidence", f"state = '{state}' AND run_id IS NOT NULL"))


def _held(fleet: Fleet, *gpus: str) -> None:
    """Let a run hold GPUs."""
    fleet.own(NODE, gpus)
    row: Row = {"node": NODE, "started_at": START - HOUR, "ended_at": START - HOUR + MINUTE, "sku": "H100-80GB"}
    fleet.add("inventory", [row | {"gpu_uuid": gpu, "power_limit_watts": 700.0} for gpu in gpus])
    fleet.hold(RUN, NODE, gpus, START, END, name="train")


def _processors(fleet: Fleet, cores: float, since: int = START, table: str = "run_samples") -> None:
    """Let the run use so many cores, as its cgroup or its process tells."""
    row: Row = {"node": NODE, "run_id": RUN, "cpu_seconds": cores * 60}
    row |= {"cores_allotted": 16.0} if table == "run_samples" else {"gpu_uuid": GPU, "pid": 7, "workers": 0}
    times = range(since, END, MINUTE)
    fleet.add(table, [row | {"started_at": at, "ended_at": at + MINUTE} for at in times])


@one_pass.each(
    *(
        (cores, confidence, table)
        for table in ("run_samples", "process_samples")
        for cores, confidence in ((0.1, "high"), (1.0, "medium"), (12.0, "medium"))
    )
)
def test_gpus_that_rest_while_their_run_computes_are_not_surely_left(
    fleet: Fleet, cores: float, confidence: str, table: str
) -> Iterator[None]:
    """An evaluation on the processor, or what unpacks for hours, is no forgotten run; who polls is."""
    _held(fleet, GPU)
    fleet.sample(NODE, GPU, START, START + HOUR)
    fleet.sample(NODE, GPU, START + HOUR, END, **AT_REST)
    _processors(fleet, cores, START + HOUR, table)
    yield
    assert _sure(fleet, "held_idle") == {confidence}


@one_pass.each((0.0, "high"), (6.0, "medium"))
def test_gpus_of_a_run_that_only_prepares_are_not_surely_never_used(
    fleet: Fleet, cores: float, confidence: str
) -> Iterator[None]:
    """It may use them yet."""
    _held(fleet, GPU)
    fleet.sample(NODE, GPU, START, END, **AT_REST)
    _processors(fleet, cores)
    yield
    assert _sure(fleet, "held_idle") == {confidence}


@one_pass
def test_a_second_gpu_is_surely_never_used_where_the_first_works(fleet: Fleet) -> Iterator[None]:
    """What the processors do then is the first one's work."""
    _held(fleet, GPU, "GPU-2")
    fleet.sample(NODE, GPU, START, END)
    fleet.sample(NODE, "GPU-2", START, END, **AT_REST)
    _processors(fleet, 6.0)
    yield
    assert _sure(fleet, "held_idle") == {"high"}


HELD_DOWN: dict[str, Any] = {
    "sm_clock_hertz": 1.3e9, "sm_clock_hertz_min": 1.3e9, "sm_clock_reference_hertz": 1.98e9, "power_watts": 690.0,
    "throttle_thermal_seconds": 60.0, "throttle_power_seconds": 0.0,
}  # fmt: skip


@one_pass.each((0.3, 0.5, "high"), (0.3, 0.0, "high"), (0.75, 0.4, "high"), (0.75, 0.03, "medium"))
def test_a_lower_clock_surely_costs_only_what_computes(
    fleet: Fleet, dram: float, tensor: float, confidence: str
) -> Iterator[None]:
    """What is bound by its memory is as fast at nine tenths of the clock, and nearly so at two thirds."""
    _held(fleet, GPU)
    fleet.sample(NODE, GPU, START, END, dram_active_ratio=dram, tensor_active_ratio=tensor, **HELD_DOWN)
    yield
    assert _sure(fleet, "throttled") == {confidence}
