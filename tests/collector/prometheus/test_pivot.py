"""What samples become: rows between two scrapes, amounts that never come from a reset, and gaps that stay gaps."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.wire.tables import TABLES
from collector.pipeline.decoding.validation import Clock, faults
from collector.prometheus.names import Slot, catalogue, finish
from collector.prometheus.pivot import Samples, commonest_steps, pivot, rows

T = 1_763_000_000_000
STEP = 30_000
GPU = TABLES["gpu_samples"]


def slot(name: str, number: int = 0) -> Slot:
    """Return a slot of a metric."""
    return catalogue()[name].slots[number]


def samples(points: Sequence[tuple[float, float]], subject: int = 0, part: int = 0) -> Samples:
    """Return samples of one subject; times in scrapes from T on."""
    times = [T + round(at * STEP) for at, _ in points]
    whose, which = (pa.array([number] * len(points), pa.int64()) for number in (subject, part))
    values = [float(value) for _, value in points]
    return Samples(whose, which, pa.array(times, pa.int64()), pa.array(values, pa.float64()))


def together(one: Samples, two: Samples) -> Samples:
    """Return the samples of both."""
    names = ("subjects", "parts", "times", "values")
    return Samples(*(pa.concat_arrays([getattr(one, name), getattr(two, name)]) for name in names))


def made(found: dict[Slot, Samples], table: str = "gpu_samples", since: int = 0) -> list[dict[str, Any]]:
    """Return the rows of these samples, without what is null; times in scrapes."""
    pivoted = pivot(found)
    if pivoted is None:
        return []
    pivoted.columns.update(finish(table, pivoted.columns, len(pivoted.grid.keys)))
    names = {"node": ["n14"] * 9, "gpu_uuid": [f"GPU-{n}" for n in range(9)], "device": ["sda"] * 9}
    constants = {name: pa.array(values) for name, values in names.items() if TABLES[table].has(name)}
    told = rows(TABLES[table], pivoted, constants, since, 2**53).to_pylist()
    for row in told:
        row["started_at"] = (row["started_at"] // 1000 - T) / STEP
        row["ended_at"] = (row["ended_at"] // 1000 - T) / STEP
    return [{name: value for name, value in row.items() if value is not None and name != "node"} for row in told]


def spans(found: list[dict[str, Any]]) -> list[tuple[float, float]]:
    """Return from when until when each row is."""
    return [(row["started_at"], row["ended_at"]) for row in found]


def test_a_row_spans_two_scrapes() -> None:
    """What was measured before the first scrape, nobody knows."""
    found = made({slot("DCGM_FI_DEV_GPU_UTIL"): samples([(0, 10), (1, 20), (2, 30)])})
    assert spans(found) == [(0, 1), (1, 2)]
    assert [row["utilization_ratio"] for row in found] == [0.2, 0.3]


def test_a_missing_scrape_is_a_gap() -> None:
    """Silence is not idleness, and neither is it the work of the minute after it."""
    found = made({slot("DCGM_FI_DEV_GPU_UTIL"): samples([(at, 50) for at in (0, 1, 2, 4, 5)])})
    assert spans(found) == [(0, 1), (1, 2), (4, 5)]


def test_a_late_scrape_is_no_gap() -> None:
    """Prometheus scrapes when it can: a host that is late by a third has missed nothing."""
    assert len(made({slot("DCGM_FI_DEV_GPU_UTIL"): samples([(at, 50) for at in (0, 1, 2.4, 3, 4)])})) == 4


def test_a_stale_marker_is_no_value() -> None:
    """It is a NaN by which Prometheus says that there was nothing."""
    found = made({slot("DCGM_FI_DEV_GPU_UTIL"): samples([(0, 50), (1, 50), (2, float("nan")), (3, 50), (4, 50)])})
    assert spans(found) == [(0, 1), (3, 4)]


def test_a_counter_that_went_back_was_reset() -> None:
    """What was spent across a reload of the driver is unknown, and surely not negative."""
    energy = samples([(0, 9_000), (1, 12_000), (2, 1_000), (3, 3_000)])
    found = made({slot("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 1): energy})
    assert [row.get("energy_joules") for row in found] == [3.0, None, 2.0]


def test_a_rate_becomes_an_amount() -> None:
    """dcgm-exporter's PCIe and NVLink fields are bytes a second, whatever their names say."""
    found = made({slot("DCGM_FI_PROF_PCIE_RX_BYTES"): samples([(0, 1e9), (1, 2e9)])})
    assert found[0]["pcie_receive_bytes"] == 60_000_000_000


def test_nvlink_both_ways_is_halved_only_where_the_ways_are_not_known() -> None:
    """The total of both ways must neither be lost nor counted beside its parts."""
    total, sent = slot("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL"), slot("DCGM_FI_PROF_NVLINK_TX_BYTES")
    (alone,) = made({total: samples([(0, 0), (1, 10)])})
    assert (alone["nvlink_receive_bytes"], alone["nvlink_transmit_bytes"]) == (153_600_000, 153_600_000)
    (both,) = made({total: samples([(0, 0), (1, 10)]), sent: samples([(0, 0), (1, 1)])})
    assert both["nvlink_transmit_bytes"] == 30


def test_an_xid_is_news_once() -> None:
    """The gauge keeps the last number for ever: an error of Monday must not come again with every scrape."""
    said = samples([(0, 0), (1, 0), (2, 31), (3, 31), (4, 79), (5, 0)])
    found = made({slot("DCGM_FI_DEV_XID_ERRORS", n): said for n in (0, 1)})
    assert [row.get("xid_events") for row in found] == [0, 1, None, 1, None]
    assert [row.get("xid_last") for row in found] == [None, 31, None, 79, None]


@pytest.mark.parametrize("blank", [2147483632.0, 9223372036854775794.0, 140737488355328.0, float("inf")])
def test_a_blank_of_dcgm_is_unknown(blank: float) -> None:
    """Some exporters let through what DCGM writes where it has no value."""
    found = made(
        {
            slot("DCGM_FI_DEV_POWER_USAGE"): samples([(0, 100), (1, blank), (2, 100)]),
            slot("DCGM_FI_DEV_GPU_UTIL"): samples([(0, 1), (1, 1), (2, 1)]),
        }
    )
    assert [row.get("power_watts") for row in found] == [None, 100]


def test_what_nobody_can_believe_is_left_out_and_counted() -> None:
    """A GPU cannot be busy for 300% of the time; the rest of its row is true all the same."""
    found = {slot("DCGM_FI_DEV_GPU_UTIL"): samples([(0, 1), (1, 300)])}
    found[slot("DCGM_FI_DEV_GPU_TEMP")] = samples([(0, 60), (1, 61)])
    (row,) = made(found)
    assert row == {"gpu_uuid": "GPU-0", "started_at": 0, "ended_at": 1, "temperature_celsius": 61}
    pivoted = pivot(found)
    assert pivoted is not None
    assert pivoted.implausible == 1


def test_sharers_of_a_gpu_do_not_double_it() -> None:
    """A time-sliced GPU has a series for each of its pods, all of which say the same."""
    twice = samples([(0, 50), (1, 60), (0, 50), (1, 60)])
    assert spans(made({slot("DCGM_FI_DEV_GPU_UTIL"): twice})) == [(0, 1)]


def test_metrics_that_come_apart_are_put_together() -> None:
    """A profiling field may lack where another tool holds the counters; the row keeps the others."""
    found = made(
        {
            slot("DCGM_FI_DEV_GPU_UTIL"): samples([(0, 10), (1, 20), (2, 30)]),
            slot("DCGM_FI_PROF_SM_ACTIVE"): samples([(0, 0.1), (2, 0.3)]),
        }
    )
    assert [row.get("sm_active_ratio") for row in found] == [None, 0.3]


def test_parts_are_added_up_and_a_part_that_is_unknown_makes_the_sum_unknown() -> None:
    """Half of the errors of a link are not its errors."""
    table = "network_samples"
    kinds = [f"{way}_{what}" for way in ("receive", "transmit") for what in ("errs", "drop")]
    errors = [slot(f"node_network_{kind}_total") for kind in kinds]
    found = {one: samples([(0, 5), (1, 7), (2, 8)]) for one in errors}
    assert [row["errors"] for row in made(found, table)] == [8, 4]
    reset = errors[0]
    found[reset] = samples([(0, 5), (1, 7), (2, 0)])
    assert [row.get("errors") for row in made(found, table)] == [8, None]


def test_processors_are_averaged() -> None:
    """A host is half busy where one of two cores is; a core that was switched on has no past to count."""
    idle, iowait = slot("node_cpu_seconds_total"), slot("node_cpu_seconds_total", 1)
    one, two = samples([(0, 0), (1, 30)]), samples([(0, 0), (1, 0)], part=1)
    both = together(one, two)
    (row,) = made({idle: both, iowait: samples([(0, 0), (1, 3)])}, "host_samples")
    assert (row["cpu_busy_ratio"], row["cpu_iowait_ratio"]) == (pytest.approx(0.4), pytest.approx(0.1))


def test_each_subject_has_its_own_step() -> None:
    """Hosts of one fleet are scraped at different intervals; what is a gap for one is none for another."""
    one = samples([(at, 1) for at in range(9)])
    two = samples([(at * 4, 1) for at in range(9)], subject=1)
    both = together(one, two)
    assert len(made({slot("DCGM_FI_DEV_GPU_UTIL"): both})) == 16


def test_the_commonest_step_wins() -> None:
    """A median or a mean would be moved by outages."""
    distances = pa.array([30_001, 29_998, 90_000, 30_003, 15_000], pa.int64())
    assert commonest_steps(pa.array([7] * 5, pa.int64()), distances) == {7: 30_000}


NUMBERS = st.floats(width=64) | st.integers(0, 10**15).map(float)
POINTS = st.lists(st.tuples(st.integers(0, 400).map(lambda n: n / 4), NUMBERS), max_size=40)
NAMES = st.sampled_from(sorted(n for n, m in catalogue().items() if m.slots[0].table == "gpu_samples"))


@given(st.dictionaries(NAMES, POINTS, max_size=6))
def test_whatever_is_said_only_what_can_be_true_is_stored(said: dict[str, list[tuple[float, float]]]) -> None:
    """An exporter may say anything; rows abut or leave a gap, values lie in their ranges, and no amount is negative."""
    metrics = [(catalogue()[name], points) for name, points in said.items() if points]
    found = {one: samples(points) for metric, points in metrics for one in metric.slots}
    pivoted = pivot(found)
    if pivoted is None:
        return
    pivoted.columns.update(finish("gpu_samples", pivoted.columns, len(pivoted.grid.keys)))
    constants = {"node": pa.array(["n14"]), "gpu_uuid": pa.array(["GPU-0"])}
    told = rows(GPU, pivoted, constants, 0, 2**53)
    batches = told.combine_chunks().to_batches()
    for batch in batches:
        assert [(rule.column, rule.says) for rule, _ in faults(GPU, batch, Clock(2**52, 2**52))] == []
    ends: list[Any] = told["ended_at"].to_pylist()
    starts: list[Any] = told["started_at"].to_pylist()
    assert all(before <= after for before, after in zip(ends, starts[1:], strict=False))
