"""From verdict to ledger: what is split stays whole, and what was not reported accuses nobody."""

from typing import Any

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from analyzer.windows import RunWindow
from tests.ledger.fleet import DAY, HOUR, MINUTE, MONDAY, Fleet

T = MONDAY
RUN = "slurm/alpha/1"
HUNG: dict[str, Any] = {"sm_active_ratio": 0.18, "nvlink_receive_bytes": 0, "nvlink_transmit_bytes": 0}
MOVING: dict[str, Any] = {"nvlink_receive_bytes": 10**12, "nvlink_transmit_bytes": 10**12}

ratio = st.floats(0, 1)
amount = st.integers(0, 2**60)  # whatever the contract lets in
sample = st.fixed_dictionaries(
    {"utilization_ratio": ratio, "sm_active_ratio": st.none() | ratio},
    optional={
        "utilization_zero_ratio": ratio,
        "tensor_active_ratio": ratio,
        "dram_active_ratio": ratio,
        "nvlink_receive_bytes": amount,
        "pcie_receive_bytes": amount,
        "sm_clock_hertz": st.floats(1e9, 2e9),
        "sm_clock_reference_hertz": st.just(2e9),
        "throttle_thermal_seconds": st.sampled_from((0.0, 60.0)),
        "throttle_power_seconds": st.sampled_from((0.0, 60.0)),
    },
)
host = st.fixed_dictionaries({"transmit_bytes": amount, "rack": st.sampled_from((None, "a", "b"))})


# Not shrunk: an example takes a tenth of a second, and a thousand of them would take minutes.
@settings(max_examples=20, derandomize=True, phases=(Phase.explicit, Phase.generate))
@given(st.lists(sample, min_size=24, max_size=24), st.lists(host, min_size=2, max_size=2))
def test_however_a_window_is_split_no_time_is_made(
    samples: list[dict[str, float | None]], hosts: list[dict[str, int | str | None]]
) -> None:
    """Stalls, exchanges, racks, stragglers and clocks divide the same hour: its parts sum to it, to the millisecond."""
    fleet = Fleet()
    rows = []
    for number, facts in enumerate(hosts):
        node, at = f"n{number}", {"node": f"n{number}", "started_at": T, "ended_at": T + HOUR}
        fleet.own(node, [f"G{number}"])
        fleet.hold(RUN, node, [f"G{number}"], T, T + HOUR, rank=number)
        fleet.add("inventory", [at | {"rack": facts["rack"]}])
        port = {"device": "mlx5_0", "link_kind": "infiniband", "transmit_bytes": facts["transmit_bytes"]}
        fleet.add("network_samples", [at | port])
        for index, values in enumerate(samples[number::2]):
            span = {"started_at": T + index * 5 * MINUTE, "ended_at": T + (index + 1) * 5 * MINUTE}
            rows.append(at | {"gpu_uuid": f"G{number}", "up": True} | values | span)
    fleet.add("gpu_samples", rows)
    fleet.analyze()
    assert fleet.unbalanced() == []
    assert sum(fleet.states().values()) == 2 * 3_600_000
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
