"""The same trace says the same however often it was sampled: within what the coarser samples can know."""

import pytest

from tests.analyzer.ledger.fleet import HOUR, MONDAY, Fleet

T = MONDAY
SECOND = 1_000_000
HOURS = 2
# Busy and still seconds of a step. Between two kernels an ordinary training stands still for milliseconds alone.
STEPS = {"one second": (0.7, 0.3), "ten seconds": (7.0, 3.0), "a minute": (42.0, 18.0), "half as much": (12.0, 18.0)}


def busy_until(seconds: float, step: tuple[float, float]) -> float:
    """Return how long the GPU was busy since the beginning."""
    whole, rest = divmod(seconds, sum(step))
    return whole * step[0] + min(rest, step[0])


def useful(step: tuple[float, float], intervals: tuple[float, ...], *, has_sm: bool) -> list[float]:
    """Return the share of GPU time that is booked as productive, of a trace sampled so often, one a host."""
    fleet = Fleet()
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
    fleet.analyze()
    with fleet.store.session() as session:
        found = session.rows(
            "SELECT sum(milliseconds) FILTER (state = 'productive') / sum(milliseconds) FROM ledger "
            "WHERE run_id IS NOT NULL GROUP BY run_id ORDER BY run_id"
        )
    fleet.store.close()
    return [float(share or 0) for (share,) in found]


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("has_sm", [True, False])
def test_what_is_useful_does_not_depend_on_how_often_was_sampled(name: str, *, has_sm: bool) -> None:
    """Within three points of the finest, from half a second to a minute."""
    step = STEPS[name]
    finest, *others = useful(step, (0.5, 1.0, 5.0, 10.0, 60.0), has_sm=has_sm)
    assert finest == pytest.approx(step[0] / sum(step), abs=0.03)
    assert others == pytest.approx([finest] * 4, abs=0.03)


def test_a_tenth_of_a_second_says_what_a_second_says() -> None:
    """Samples below a second are averages of windows of the driver's; what they lose is no work."""
    fine, coarse = useful(STEPS["ten seconds"], (0.1, 1.0), has_sm=False)
    assert fine == pytest.approx(coarse, abs=0.03)
