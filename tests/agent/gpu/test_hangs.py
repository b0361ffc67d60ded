"""A question to the driver that does not come back costs the GPU its own rows, and nobody else anything."""

import pytest

from tests.agent.gpu.conftest import Host
from tests.waiting import until

FIRST = "GPU-00000000-0000-0000-0000-000000000000"
SECOND = "GPU-00000001-0000-0000-0000-000000000000"
CALL = "nvmlDeviceGetMemoryInfo_v2"
FOR_EVER = 3600


@pytest.fixture
def hurried(host: Host) -> Host:
    """A host that was read once and whose agent is soon tired of waiting."""
    host.hang_seconds = 1.0
    host.read()
    return host


def uuids(host: Host) -> list[str]:
    """Read, and return whose rows there are."""
    return [row["gpu_uuid"] for row in host.rows()]


def until_it_answers(host: Host) -> list[dict[str, object]]:
    """Read until the hung GPU has a row again."""

    def read() -> list[dict[str, object]]:
        rows = host.rows(seconds=1)
        return rows if rows[0]["gpu_uuid"] == FIRST else []

    return until(read, "the GPU is back")


def test_a_gpu_that_hangs_has_no_row_and_the_others_have_theirs(hurried: Host) -> None:
    """Silence is a gap: neither up nor down is known of it."""
    hurried.scenario.hang(CALL, FOR_EVER, 0)
    for _ in range(3):
        assert uuids(hurried) == [SECOND]
    hurried.scenario.hang(CALL, 0, 0)


def test_a_hang_is_counted_once_and_has_a_reason(hurried: Host) -> None:
    """What /metrics says of a GPU without values is why it has none."""
    hurried.scenario.hang(CALL, FOR_EVER, 0)
    hurried.read()
    answer = hurried.read()
    assert answer["failures"] == {"reading is hung": 1}
    reasons = {each["reason"] for each in answer["supported"] if each["gpu_uuid"] == FIRST}
    assert reasons == {"a driver call is hung"}
    assert answer["counts"] == [2, 1]
    assert answer["lost"] == []
    hurried.scenario.hang(CALL, 0, 0)


def test_a_gpu_that_hangs_is_still_held(hurried: Host) -> None:
    """A process does not let go of its GPU because the driver is silent: its run goes on."""
    hurried.scenario.hang(CALL, FOR_EVER, 0)
    held = {process["gpu_uuid"] for process in hurried.read()["processes"]}
    assert held == {FIRST, SECOND}
    hurried.scenario.hang(CALL, 0, 0)


def test_amounts_after_a_hang_are_unknown_for_one_beat(hurried: Host) -> None:
    """They span the hang and more: booked into one interval they would be work that was not done there."""
    hurried.scenario.hang(CALL, FOR_EVER, 0)
    hurried.read()
    hurried.scenario.gpu(0, field_83=1_000_900_000)
    hurried.scenario.hang(CALL, 0, 0)
    row = until_it_answers(hurried)[0]
    assert row["up"] is True
    assert row.get("energy_joules") is None
    assert row["energy_joules_total"] == 1_000_900
    hurried.scenario.gpu(0, field_83=1_000_901_000)
    assert hurried.rows()[0]["energy_joules"] == 1


def test_errors_that_came_during_a_hang_are_counted(hurried: Host) -> None:
    """They are what a hang is about."""
    hurried.scenario.hang(CALL, FOR_EVER, 0)
    hurried.read(seconds=31)
    hurried.scenario.gpu(0, ecc_uncorrected=2)
    hurried.scenario.hang(CALL, 0, 0)
    rows = [until_it_answers(hurried)[0], hurried.rows(seconds=31)[0]]
    assert sum(row.get("ecc_uncorrected_events") or 0 for row in rows) == 2


def test_a_list_that_hangs_stops_no_known_gpu(hurried: Host) -> None:
    """Asking for handles is the slowest question of all, and the first to hang with a sick GPU."""
    hurried.scenario.host_hang("nvmlDeviceGetCount_v2", FOR_EVER)
    for _ in range(3):
        assert uuids(hurried) == [FIRST, SECOND]
    assert hurried.read()["failures"] == {"listing is hung": 1}
    hurried.scenario.host_hang("nvmlDeviceGetCount_v2", 0)
    hurried.scenario.host(count=3)
    until(lambda: len(uuids(hurried)) == 3, "the third GPU is listed")


def test_an_agent_ends_although_a_gpu_hangs(hurried: Host) -> None:
    """A supervisor that has to kill it would lose what it has not yet written."""
    hurried.scenario.hang(CALL, FOR_EVER, 0)
    hurried.read()
    hurried.close()


def test_a_gpu_that_hangs_at_the_start_blinds_nobody(host: Host) -> None:
    """It hung in the question for its UUID, and the host had no GPU at all."""
    host.scenario.hang("nvmlDeviceGetUUID", FOR_EVER, 0)
    answer = host.read()
    assert [row["gpu_uuid"] for row in answer["reading"]["gpu_samples"]] == [SECOND]
    assert (answer["counts"], answer["lost"]) == ([2, 1], [])
    assert {each["reason"] for each in answer["supported"] if each["gpu_uuid"] == "n14/slot0"} == {
        "a driver call is hung"
    }
    assert uuids(host) == [SECOND]
    host.scenario.hang("nvmlDeviceGetUUID", 0, 0)
    until(lambda: sorted(uuids(host)) == [FIRST, SECOND], "it tells its name")
    assert host.read()["counts"] == [2, 2]


def test_a_known_gpu_that_hangs_at_the_next_start_is_neither_up_nor_down(host: Host) -> None:
    """It is remembered; that it hangs is no loss."""
    host.read()
    host.close()
    host.scenario.hang("nvmlDeviceGetHandleByIndex_v2", FOR_EVER, 0)
    answer = host.read()
    assert [row["gpu_uuid"] for row in answer["reading"]["gpu_samples"]] == [SECOND]
    assert (answer["counts"], answer["lost"]) == ([2, 1], [])
    host.scenario.hang("nvmlDeviceGetHandleByIndex_v2", 0, 0)


def test_a_gpu_that_hangs_when_it_is_asked_for_events_silences_no_other(host: Host) -> None:
    """Nobody heard the XID errors of any GPU, and no list of GPUs was taken any more."""
    host.scenario.hang("nvmlDeviceRegisterEvents", FOR_EVER, 0)
    answer = host.read()
    assert {row["gpu_uuid"]: row["xid_events"] for row in answer["reading"]["gpu_samples"]} == {FIRST: None, SECOND: 0}
    host.scenario.gpu(1, xid="79", xids=1).host(count=3)

    def told() -> bool:
        rows = host.rows(seconds=31)
        numbers.extend(row["xid_numbers"] for row in rows if row["gpu_uuid"] == SECOND and row.get("xid_numbers"))
        return len(rows) == 3 and bool(numbers)

    numbers: list[str] = []
    until(told, "the third GPU is listed, and the second one's error is heard")
    host.scenario.hang("nvmlDeviceRegisterEvents", 0, 0)
    until(lambda: host.rows(seconds=3601)[0]["xid_events"] == 0, "the first is heard too")
