"""Signs of a GPU that is about to fail, or has failed."""

from collections.abc import Callable
from typing import Any

import pytest

from agent.gpu.nvidia.xid import MOST_NUMBERS, Ear
from tests.agent.gpu.conftest import Host
from tests.agent.gpu.test_hangs import FIRST, SECOND
from tests.waiting import until


def read_until(read: Callable[[], dict[str, Any]], is_there: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Read until it is there, and return that: the driver's events come on a thread of their own."""
    found: dict[str, Any] = {}

    def is_read() -> bool:
        found.clear()
        found.update(read())
        return is_there(found)

    until(is_read, "the driver's event is read", more=lambda: found)
    return found


def test_ecc_errors_and_replays_are_told_once_and_unknown_between_two_looks(host: Host) -> None:
    """They are dear to ask for and rare; between two looks nobody knows, and 0 would be a claim."""
    host.rows()
    host.scenario.gpu(0, ecc_uncorrected=3, ecc_corrected=40, field_94=7)
    names = ("ecc_uncorrected_events", "ecc_corrected_events", "pcie_replay_events")
    assert [host.rows(seconds=1)[0][name] for name in names] == [None] * 3
    row = host.rows(seconds=31)[0]
    assert [row[name] for name in names] == [3, 40, 7]
    row = host.rows(seconds=31)[0]
    assert [row[name] for name in names] == [0] * 3


def test_replaced_rows_and_what_the_driver_asks_for_are_told_at_every_beat(host: Host) -> None:
    """They hold until somebody does something."""
    host.scenario.gpu(0, field_142=4, field_143=2, field_144=1, field_145=0, field_230=4)
    for _ in range(2):
        row = host.rows(seconds=1)[0]
        assert (row["remapped_rows_corrected"], row["remapped_rows_uncorrected"]) == (4, 2)
        assert (row["row_remap_pending"], row["row_remap_failure"]) == (True, False)
        assert row["recovery_action"] == "drain_and_reset"


def test_replaced_rows_are_asked_for_in_the_older_form_too(host: Host) -> None:
    """The fields came later than the call."""
    host.scenario.every(field_142=None, field_143=None, field_144=None, field_145=None, remapped_corrected=9)
    row = host.rows()[0]
    assert row["remapped_rows_corrected"] == 9
    assert row["row_remap_failure"] is False


def test_an_action_that_is_newer_than_we_are_keeps_its_number(host: Host) -> None:
    """It is not none."""
    host.scenario.gpu(0, field_230=23)
    assert host.rows()[0]["recovery_action"] == "action_23"


def test_an_xid_error_has_a_number_and_a_time(host: Host) -> None:
    """A gauge of the last number alone sticks, and a repeated error cannot be seen in it."""
    host.rows()
    host.scenario.gpu(0, xid=63, xids=1)
    row = read_until(lambda: host.rows(seconds=1)[0], lambda row: bool(row["xid_events"]))
    assert (row["xid_events"], row["xid_last"]) == (1, 63)
    heard = row["xid_last_timestamp_seconds"]
    assert heard >= 1_000_000
    row = host.rows(seconds=1)[0]
    assert (row["xid_events"], row["xid_last"], row["xid_last_timestamp_seconds"]) == (0, None, heard)


def test_all_xid_errors_of_a_beat_travel(host: Host) -> None:
    """A clean-up error follows the one that it is about: 48, 63, 43 arrived as 43, a program's own fault."""
    host.rows()
    host.scenario.gpu(0, xid="48,63,43", xids=3)
    assert heard(host, FIRST, 3) == ["48", "63", "43"]


def test_numbers_of_a_storm_are_bounded_and_hardware_is_never_left_out() -> None:
    """A row is read by everybody; the one number that matters may come last."""
    ear = Ear()
    for number in (*range(200, 400), 79):
        ear.hear(number, 1.0)
    taken = ear.take(is_heard=True)
    assert (taken.count, len(taken.numbers), taken.numbers[-1]) == (201, MOST_NUMBERS + 1, 79)
    assert ear.take(is_heard=True).numbers == ()


@pytest.mark.parametrize("trouble", ["lost", "hangs"])
def test_the_xid_error_of_a_gpu_that_is_lost_or_hangs_is_told(host: Host, trouble: str) -> None:
    """It says why; it waited until the GPU answered again, which it may never."""
    host.hang_seconds = 1.0
    host.rows()
    if trouble == "lost":
        host.scenario.gpu(0, lost=1)
    else:
        host.scenario.hang("nvmlDeviceGetMemoryInfo_v2", 3600, 0)
    for _ in range(3):
        host.rows(seconds=31)
    host.scenario.gpu(0, xid="79,154", xids=2)
    assert heard(host, FIRST, 2) == ["79", "154"]
    host.scenario.hang("nvmlDeviceGetMemoryInfo_v2", 0, 0)


def test_an_xid_error_before_the_first_reading_is_told_with_the_second(host: Host) -> None:
    """The first measures no interval, and is told to nobody; a cold driver takes seconds until then."""
    host.start()
    waits = host.calls("nvmlEventSetWait_v2")
    host.scenario.gpu(0, xid="79", xids=1)
    until(lambda: host.calls("nvmlEventSetWait_v2") > waits + 1, "the event was heard")
    first, second, third = (host.rows()[0] for _ in range(3))
    assert [row["xid_numbers"] for row in (first, second, third)] == ["79", "79", None]
    assert (second["xid_events"], third["xid_events"]) == (1, 0)


def heard(host: Host, uuid: str, count: int) -> list[str]:
    """Read until so many XID errors of a GPU were told, and return their numbers in that order."""
    numbers: list[str] = []

    def read() -> bool:
        for row in host.rows(seconds=1):
            if row["gpu_uuid"] == uuid and row.get("xid_events"):
                numbers.extend(row["xid_numbers"].split(","))
                assert row["xid_last"] == int(numbers[-1])
        return len(numbers) >= count

    until(read, "the XID errors are told")
    return numbers


def test_events_that_are_refused_once_are_asked_for_again(host: Host) -> None:
    """Without the driver's word every XID error of a GPU was unheard until GPUs came or went."""
    host.scenario.fail("nvmlDeviceRegisterEvents", 999, 1)
    assert [row["xid_events"] for row in host.rows()] == [0, None]
    host.scenario.fail("nvmlDeviceRegisterEvents", 0, 1)
    until(lambda: [row["xid_events"] for row in host.rows(seconds=31)] == [0, 0], "both are heard")
    host.scenario.gpu(1, xid="79", xids=1)
    assert heard(host, SECOND, 1) == ["79"]


def test_an_xid_error_is_counted_by_whose_fault_it_is(host: Host) -> None:
    """79 calls somebody at night, 31 does not; both may come between two readings, and a counter never falls."""
    uuid = host.rows()[0]["gpu_uuid"]
    assert host.read()["xids"][uuid] == {"hardware": 0, "program": 0, "other": 0}
    host.scenario.gpu(0, xid="79,31,119,31", xids=4)
    found = read_until(lambda: host.read(seconds=1)["xids"][uuid], lambda found: sum(found.values()) == 4)
    assert found == {"hardware": 1, "program": 2, "other": 1}


def test_after_an_xid_error_health_is_looked_at_anew(host: Host) -> None:
    """What it did is told at the next beat, not half a minute later."""
    host.rows()
    host.scenario.gpu(0, xids=1, field_230=1)
    row = read_until(lambda: host.rows(seconds=0.01)[0], lambda row: row["recovery_action"] == "gpu_reset")
    assert row["recovery_action"] == "gpu_reset"


def test_memory_temperature_clocks_and_video_engines_are_told(host: Host) -> None:
    """Memory is what gets too hot first, and transcoding is work that no SM sees."""
    host.scenario.every(encoder=60, decoder=25)
    row = host.rows()[0]
    assert row["memory_temperature_celsius"] == 72
    assert row["memory_clock_hertz"] == 2_619_000_000
    assert (row["encoder_utilization_ratio"], row["decoder_utilization_ratio"]) == (0.6, 0.25)


def test_time_held_to_a_groups_clock_is_counted(host: Host) -> None:
    """Sync boost runs a group at the clock of its slowest."""
    host.scenario.every(field_76=0)
    host.rows()
    host.scenario.gpu(0, field_76=2_500_000_000)
    assert host.rows()[0]["throttle_sync_boost_seconds"] == 2.5
