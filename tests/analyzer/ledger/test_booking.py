"""From verdict to ledger: what is split stays whole, and what was not reported accuses nobody."""

import random
from typing import Any

import pytest

from analyzer.ledger.windows import RunWindow
from tests.analyzer.ledger.fleet import DAY, HOUR, MINUTE, MONDAY, Fleet

T = MONDAY
RUN = "slurm/alpha/1"
HUNG: dict[str, Any] = {"sm_active_ratio": 0.18, "nvlink_receive_bytes": 0, "nvlink_transmit_bytes": 0}
MOVING: dict[str, Any] = {"nvlink_receive_bytes": 10**12, "nvlink_transmit_bytes": 10**12}

PAIRS = 40


def _samples(draw: random.Random) -> dict[str, Any]:
    """Return a sample of whatever the contract lets in."""

    def ratio() -> float:
        return draw.choice((0.0, 1.0, draw.random(), draw.random()))

    some = {
        "utilization_zero_ratio": ratio(),
        "tensor_active_ratio": ratio(),
        "dram_active_ratio": ratio(),
        "nvlink_receive_bytes": _amount(draw),
        "pcie_receive_bytes": _amount(draw),
        "sm_clock_hertz": draw.uniform(1e9, 2e9),
        "sm_clock_reference_hertz": 2e9,
        "throttle_thermal_seconds": draw.choice((0.0, 60.0)),
        "throttle_power_seconds": draw.choice((0.0, 60.0)),
    }
    told = {name: value for name, value in some.items() if draw.random() < 0.5}
    return {"utilization_ratio": ratio(), "sm_active_ratio": draw.choice((None, ratio())), **told}


def _amount(draw: random.Random) -> int:
    return draw.choice((0, 1, draw.randrange(10**9), draw.randrange(2**60), 2**60))


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 20))])
def test_however_a_window_is_split_no_time_is_made(seed: int) -> None:
    """Stalls, exchanges, racks, stragglers and clocks divide the same hour: its parts sum to it, to the millisecond."""
    draw, fleet = random.Random(seed), Fleet()
    runs = [f"slurm/alpha/{number}" for number in range(PAIRS)]
    for number, run in enumerate(runs):
        for rank in range(2):
            node, gpu = f"n{number}-{rank}", f"G{number}-{rank}"
            at = {"node": node, "started_at": T, "ended_at": T + HOUR}
            fleet.own(node, [gpu])
            fleet.hold(run, node, [gpu], T, T + HOUR, rank=rank)
            fleet.add("inventory", [at | {"rack": draw.choice((None, "a", "b"))}])
            port = {"device": "mlx5_0", "link_kind": "infiniband", "transmit_bytes": _amount(draw)}
            fleet.add("network_samples", [at | port])
            spans = [{"started_at": start, "ended_at": start + 5 * MINUTE} for start in range(T, T + HOUR, 5 * MINUTE)]
            fleet.add("gpu_samples", [at | {"gpu_uuid": gpu, "up": True} | _samples(draw) | span for span in spans])
    fleet.analyze()
    assert fleet.unbalanced() == []
    assert {run: sum(fleet.states(run).values()) for run in runs} == dict.fromkeys(runs, 2 * 3_600_000)
    assert len(fleet.states()) > 5, "or little was divided"
    fleet.store.close()


def _pair() -> Fleet:
    fleet = Fleet()
    fleet.own("n1", ["G1", "G2"])
    return fleet


def test_a_hang_is_a_hang_after_midnight_too() -> None:
    """A run that hung at ten in the evening is not underused from midnight on."""
    fleet = _pair()
    fleet.hold(RUN, "n1", ["G1", "G2"], T, T + DAY + 4 * HOUR)
    for gpu in ("G1", "G2"):
        fleet.sample("n1", gpu, T + 12 * HOUR, T + 22 * HOUR, every=5 * MINUTE, **MOVING)
        fleet.sample("n1", gpu, T + 22 * HOUR, T + DAY + 4 * HOUR, every=5 * MINUTE, **HUNG)
    fleet.analyze(now=T + 2 * DAY)
    assert fleet.states()["communicating", "hang"] == 2 * 6 * 3_600_000
    assert ("underused", "small_kernels") not in fleet.states()
    fleet.store.close()


def test_what_was_not_reported_is_unknown_in_every_window() -> None:
    """Unknown power is not five times its limit, nor unknown links a petabyte: the rule that lacks them says so."""
    fleet = _pair()
    fleet.hold(RUN, "n1", ["G1"], T, T + HOUR)
    fleet.sample("n1", "G1", T, T + HOUR, sm_active_ratio=None)
    fleet.analyze()
    with fleet.store.session() as session:
        windows = [RunWindow.from_json(counts) for (counts,) in session.rows("SELECT counts FROM run_windows")]
        missing = session.rows("SELECT missing FROM not_evaluated WHERE rule = 'busy, underused'")
    assert len(windows) == 6
    for window in windows:
        assert (window.power, window.pcie_in_kb, window.pcie_out_kb, window.nvlink_kb) == (None, None, None, None)
    assert missing == [("neither SM activity nor power of its GPUs",)]
    fleet.store.close()


def test_links_that_fall_silent_with_their_counter_are_no_hang() -> None:
    """A driver that stops reporting NVLink says nothing of it: unknown is not 0."""
    fleet = _pair()
    fleet.hold(RUN, "n1", ["G1", "G2"], T, T + 3 * HOUR)
    for gpu in ("G1", "G2"):
        fleet.sample("n1", gpu, T, T + 2 * HOUR, every=5 * MINUTE, **MOVING)
        fleet.sample("n1", gpu, T + 2 * HOUR, T + 3 * HOUR, every=5 * MINUTE, sm_active_ratio=0.18)
    fleet.analyze()
    assert ("communicating", "hang") not in fleet.states()
    fleet.store.close()
