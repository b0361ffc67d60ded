"""What a healthy GPU says, in base units."""

import pytest

from tests.agent.gpu.conftest import Host
from tests.agent.gpu.fake.build import ACTIVITY, MIB
from tests.waiting import until

FIRST = "GPU-00000000-0000-0000-0000-000000000000"


def test_eight_healthy_gpus_are_eight_rows_of_base_units(host: Host) -> None:
    """Milliwatts, MHz, percent and KiB stay behind the door: no reader converts again."""
    host.scenario.host(count=8)
    rows = host.rows()
    assert len({row["gpu_uuid"] for row in rows}) == 8
    row = rows[0]
    assert row["gpu_uuid"] == FIRST
    assert row["up"] is True
    assert row["power_watts"] == 520
    assert row["temperature_celsius"] == 61
    assert row["sm_clock_hertz"] == 1_755_000_000
    assert row["sm_clock_reference_hertz"] == 1_980_000_000
    assert row["energy_joules_total"] == 1_000_000


def test_sixteen_gpus_are_sixteen_rows(host: Host) -> None:
    """The largest hosts have sixteen."""
    host.scenario.host(count=16)
    assert len(host.rows()) == 16


def test_the_first_reading_has_no_amounts(host: Host) -> None:
    """There is no interval before it, so nothing can have been spent within one."""
    row = host.rows()[0]
    amounts = ("energy_joules", "nvlink_receive_bytes", "throttle_power_seconds", "ecc_uncorrected_events")
    assert [row[name] for name in amounts] == [None] * 4


def test_counters_become_the_amounts_of_the_interval(host: Host) -> None:
    """An ever-growing counter is the driver's; the ledger books what happened in the interval."""
    host.rows()
    host.scenario.gpu(0, field_83=1_005_200_000, field_138=1001, field_139=2004)
    row, other = host.rows()
    assert row["energy_joules"] == 5200
    assert row["nvlink_transmit_bytes"] == 1024
    assert row["nvlink_receive_bytes"] == 4096
    assert other["energy_joules"] == 0


def test_throttling_is_seconds_by_cause_and_causes_that_overlap_are_not_added(host: Host) -> None:
    """Fields 75, 269 and 270 run at the same time: their sum could exceed the interval."""
    host.rows()
    host.scenario.gpu(0, field_74=4_000_000_000, field_75=3_000_000_000, field_269=2_500_000_000, field_271=500_000_000)
    row = host.rows()[0]
    assert row["throttle_power_seconds"] == 4
    assert row["throttle_thermal_seconds"] == 3
    assert row["throttle_hardware_seconds"] == 0.5


def test_the_ring_sees_the_stalls_that_a_snapshot_misses(host: Host) -> None:
    """The snapshot says 80%, while a third of the driver's own samples were at zero."""
    row = host.rows()[0]
    assert row["utilization_ratio"] == pytest.approx(2 / 3)
    assert row["utilization_zero_ratio"] == 1 / 3
    assert row["utilization_low_ratio"] == 1 / 3
    assert row["utilization_high_ratio"] == 2 / 3


def test_a_sample_of_the_ring_is_counted_once(host: Host) -> None:
    """The ring spans several beats; each beat counts only what is new in it."""
    host.rows()
    host.scenario.every(samples="1000:100,2000:0,3000:100,4000:10,5000:30,6000:255")
    row = host.rows()[0]
    assert row["utilization_ratio"] == 0.2
    assert (row["utilization_zero_ratio"], row["utilization_low_ratio"], row["utilization_high_ratio"]) == (0, 0.5, 0)


def test_an_idle_gpu_is_a_measured_zero_and_no_dead_agent(host: Host) -> None:
    """The ring of an idle GPU answers NOT_FOUND; the snapshot still says 0, and the shares are unknown."""
    host.scenario.every(samples=None, utilization=0)
    row = host.rows()[0]
    assert row["up"] is True
    assert row["utilization_ratio"] == 0
    assert row["utilization_zero_ratio"] is None
    assert host.read()["failures"] == {}


def test_the_drivers_reserve_is_no_used_memory(host: Host) -> None:
    """The older form of the question counts it as used: 308 MB used and no process."""
    row = host.rows()[0]
    assert row["memory_used_bytes"] == 60000 * MIB
    assert row["memory_reserved_bytes"] == 544 * MIB


def test_an_old_driver_still_tells_its_memory(host: Host) -> None:
    """Drivers before 510 lack the newer question; the reserve is then unknown, not 0."""
    host.scenario.fail("nvmlDeviceGetMemoryInfo_v2", 13)
    row = host.rows()[0]
    assert row["memory_used_bytes"] == 60544 * MIB
    assert row["memory_reserved_bytes"] is None


def test_power_falls_back_where_the_instant_field_is_missing(host: Host) -> None:
    """Before field 186 there was only the average over a second."""
    host.scenario.every(field_186=None, power_mw=431_000)
    assert host.rows()[0]["power_watts"] == 431


def test_power_of_the_module_is_the_last_resort(host: Host) -> None:
    """Some boards measure only the whole module (scope 1)."""
    host.scenario.every(field_186=None, **{"field_186.1": 612_000})
    host.rows()
    assert host.rows()[0]["power_watts"] == 612


def test_gpm_tells_activity_within_the_chip(host: Host) -> None:
    """Two samples make one reading; the GPM percent are ratios and its rates the bytes of the interval."""
    host.scenario.every(gpm=1, **ACTIVITY)
    first = host.rows()[0]
    assert first.get("sm_active_ratio") is None
    row = host.rows(seconds=10)[0]
    assert row["sm_active_ratio"] == 0.715
    assert row["sm_occupancy_ratio"] == 0.33
    assert row["tensor_active_ratio"] == 0.4125
    assert row["dram_active_ratio"] == 0.52
    assert row["pcie_receive_bytes"] == 2000 * MIB * 10
    assert row["pcie_transmit_bytes"] == 500 * MIB * 10
    assert host.calls("nvmlDeviceGetPcieThroughput") == 0


def test_gpm_is_not_asked_for_less_than_its_shortest_interval(host: Host) -> None:
    """Samples closer than 0.1 s give no metrics; unknown is then the answer, and the next beat has them again."""
    host.scenario.every(gpm=1, **ACTIVITY)
    host.rows()
    assert host.rows(seconds=0.0625)[0].get("sm_active_ratio") is None
    row = host.rows(seconds=0.0625)[0]
    assert row["sm_active_ratio"] == 0.715
    assert row["pcie_receive_bytes"] == 2000 * MIB * 0.0625


def test_nvlink_comes_from_gpm_where_its_counters_are_gone(host: Host) -> None:
    """Blackwell no longer has fields 138 and 139."""
    host.scenario.every(gpm=1, field_138=None, field_139=None, gpm_60=7, gpm_61=3)
    host.rows()
    row = host.rows(seconds=2)[0]
    assert (row["nvlink_receive_bytes"], row["nvlink_transmit_bytes"]) == (14 * MIB, 6 * MIB)


def test_pcie_without_gpm_comes_from_a_slow_thread(host: Host) -> None:
    """Each question blocks for 20 ms, so the beat never waits for it: unknown at first, then rate times interval."""
    assert host.rows()[0]["pcie_receive_bytes"] is None

    def told() -> dict[str, object] | None:
        row = host.rows(seconds=10)[0]
        return row if row["pcie_receive_bytes"] is not None else None

    row = until(told, "the slow thread has its answer")
    assert row["pcie_receive_bytes"] == 2_000_000_000 * 10
    assert row["pcie_transmit_bytes"] == 500_000_000 * 10


def test_xid_errors_are_counted_and_none_is_zero(host: Host) -> None:
    """The thread that waits for them has registered before the first reading; silence is then a true 0."""
    assert host.rows()[0]["xid_events"] == 0
    host.scenario.gpu(0, xids=2)
    seen: list[int] = []

    def both() -> bool:
        row, other = host.rows(seconds=1)
        seen.append(row["xid_events"])
        assert other["xid_events"] == 0
        return sum(seen) >= 2

    until(both, "two errors", more=lambda: sum(seen))
    assert sum(seen) == 2
