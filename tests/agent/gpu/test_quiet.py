"""A GPU that is left alone for a benchmark: not a question to it, no row of it, and no guess about the time between."""

from tests.agent.gpu.conftest import Host
from tests.agent.gpu.test_hangs import FIRST, SECOND

QUESTION = "nvmlDeviceGetMemoryInfo_v2"


def test_a_quiet_gpu_is_not_asked_and_has_no_row(host: Host) -> None:
    """That is what the benchmark wants; the ledger books the time as not measured."""
    host.read()
    host.leave_alone(FIRST)
    before = host.calls(QUESTION)
    assert [row["gpu_uuid"] for row in host.rows()] == [SECOND]
    assert host.calls(QUESTION) == before + 1


def test_a_quiet_gpu_is_still_held_and_not_missing(host: Host) -> None:
    """Who asks for silence goes on paying for the GPU, and nobody is called out of bed for it."""
    host.read()
    host.leave_alone(FIRST)
    answer = host.read()
    assert {process["gpu_uuid"] for process in answer["processes"]} == {FIRST, SECOND}
    assert answer["counts"] == [2, 2]
    assert answer["lost"] == []


def test_after_the_silence_no_amount_of_it_is_booked(host: Host) -> None:
    """The joules of an hour in one interval would be power that no GPU has."""
    host.read()
    host.leave_alone(FIRST)
    host.read(seconds=3600)
    host.leave_alone()
    host.scenario.gpu(0, field_83=1_900_000_000)
    row = host.rows()[0]
    assert (row["gpu_uuid"], row.get("energy_joules"), row["energy_joules_total"]) == (FIRST, None, 1_900_000)
    host.scenario.gpu(0, field_83=1_900_001_000)
    assert host.rows()[0]["energy_joules"] == 1
