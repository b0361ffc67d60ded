"""The same trace says the same however often it was sampled: within what the coarser samples can know."""

from collections.abc import Iterator

import pytest

from tests.analyzer.ledger.copies import OnePass
from tests.analyzer.ledger.fleet import HOUR, MONDAY, Fleet

T = MONDAY
SECOND = 1_000_000
HOURS = 2
# Busy and still seconds of a step. Between two kernels an ordinary training stands still for milliseconds alone.
STEPS = {"one second": (0.7, 0.3), "ten seconds": (7.0, 3.0), "a minute": (42.0, 18.0), "half as much": (12.0, 18.0)}

one_pass = OnePass()


def busy_until(seconds: float, step: tuple[float, float]) -> float:
    """Return how long the GPU was busy since the beginning."""
    whole, rest = divmod(seconds, sum(step))
    return whole * step[0] + min(rest, step[0])


def trace(fleet: Fleet, step: tuple[float, float], intervals: tuple[float, ...], *, has_sm: bool) -> None:
    """Add a trace that is sampled so often, one a host."""
    for place, every in enumerate(intervals):
        node, gpu = f"n{place}", f"G{place}"
        fleet.own(node, [gpu])
        fleet.hold(f"slurm/alpha/{place}", node, [gpu], T, T + HOURS * HOUR)
        rows = []
        for number in range(int(HOURS * 3600 / every)):
            busy = (busy_until((number + 1) * every, step) - busy_until(number * every, step)) / every
            row: dict[str, object] = {
                "node": node, "gpu_uuid": gpu, "up": True, "started_at": T + int(number * every * SECOND),
                "ended_at": T + int((number + 1) * every * SECOND), "utilization_ratio": min(1.0, busy),
            }  # fmt: skip
            if has_sm:
                row["sm_active_ratio"] = 0.9 * busy
            rows.append(row)
        fleet.add("gpu_samples", rows)


def useful(fleet: Fleet, traces: int) -> list[float]:
    """Return the share of GPU time that is booked as productive, of each trace."""
    found = [fleet.states(f"slurm/alpha/{place}") for place in range(traces)]
    return [sum(ms for (state, _), ms in each.items() if state == "productive") / sum(each.values()) for each in found]


@one_pass.each(*((name, has_sm) for has_sm in (True, False) for name in STEPS))
def test_what_is_useful_does_not_depend_on_how_often_was_sampled(
    fleet: Fleet, name: str, has_sm: bool
) -> Iterator[None]:
    """Within three points of the finest, from half a second to a minute."""
    step = STEPS[name]
    trace(fleet, step, (0.5, 1.0, 5.0, 10.0, 60.0), has_sm=has_sm)
    yield
    finest, *others = useful(fleet, 5)
    assert finest == pytest.approx(step[0] / sum(step), abs=0.03)
    assert others == pytest.approx([finest] * 4, abs=0.03)


@one_pass
def test_a_tenth_of_a_second_says_what_a_second_says(fleet: Fleet) -> Iterator[None]:
    """Samples below a second are averages of windows of the driver's; what they lose is no work."""
    trace(fleet, STEPS["ten seconds"], (0.1, 1.0), has_sm=False)
    yield
    fine, coarse = useful(fleet, 2)
    assert fine == pytest.approx(coarse, abs=0.03)
