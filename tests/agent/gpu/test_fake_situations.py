"""The situations that the fake driver plays, as the unmodified nvidia-ml-py sees them."""

import os
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from tests.agent.gpu.fake import situations
from tests.agent.gpu.fake.binding import Binding, Refused
from tests.agent.gpu.fake.build import GIB, MIB, Scenario, healthy, living

NOT_SUPPORTED, NOT_FOUND, NO_NEWS, LOST, MISMATCH = 3, 6, 0, 15, 18
ALL_LINKS = 0xFFFFFFFF
FIRST, SECOND = {"gpu": 0}, {"gpu": 1}

Play = Callable[[Scenario], Binding]


@pytest.fixture
def play(library: Path) -> Generator[Play, None, None]:
    """Return a function that opens the binding over a scenario."""
    opened: list[Binding] = []

    def start(scenario: Scenario) -> Binding:
        opened.append(Binding(library, scenario.path))
        opened[-1].ask("nvmlInit")
        return opened[-1]

    yield start
    for binding in opened:
        binding.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where the scenario is written."""
    return tmp_path / "scenario"


def refusal(binding: Binding, function: str, *arguments: object) -> int:
    """Return the code that a call is refused with."""
    with pytest.raises(Refused) as refused:
        binding.ask(function, *arguments)
    return refused.value.code


def fields(binding: Binding, gpu: object, *wanted: object) -> list[tuple[int, int]]:
    """Return of each field its code and its value."""
    answers = binding.ask("nvmlDeviceGetFieldValues", gpu, list(wanted))
    return [(answer["nvmlReturn"], answer["value"]["ullVal"]) for answer in answers]


def ring(binding: Binding, gpu: object, kind: int, since: int = 0) -> list[int]:
    """Return what a ring holds that is newer than `since`."""
    kind_of_value, samples = binding.ask("nvmlDeviceGetSamples", gpu, kind, since)
    assert kind_of_value == 1
    return [sample["sampleValue"]["uiVal"] for sample in samples]


def test_a_call_that_hangs_holds_up_no_other_and_ends_when_the_key_goes(play: Play, path: Path) -> None:
    """A driver that hangs on one GPU still answers for the others, and one day for this one too."""
    scenario = situations.hung(path, "nvmlDeviceGetTemperature", index=0)
    binding = play(scenario)
    waiting = binding.begin("nvmlDeviceGetTemperature", FIRST, 0)
    assert binding.ask("nvmlDeviceGetTemperature", SECOND, 0) == 61
    assert fields(binding, FIRST, 186) == [(0, 520_000)]
    scenario.hang("nvmlDeviceGetTemperature", 0, index=0)
    assert binding.answer(waiting) == 61


def test_calls_of_no_gpu_hang_too(play: Play, path: Path) -> None:
    """Listing the GPUs is where an agent begins each beat."""
    scenario = healthy(path, gpus=2)
    binding = play(scenario)
    scenario.host_hang("nvmlDeviceGetCount_v2", 3600)
    waiting = binding.begin("nvmlDeviceGetCount")
    assert binding.ask("nvmlDeviceGetName", FIRST) == "NVIDIA H100 80GB HBM3"
    scenario.host_hang("nvmlDeviceGetCount_v2", 0)
    assert binding.answer(waiting) == 2


def test_sixteen_gpus_are_told_apart(play: Play, path: Path) -> None:
    """Index, UUID, minor number and bus are each one's own, and a UUID leads back to its GPU."""
    binding = play(situations.sixteen(path))
    gpus = [{"gpu": index} for index in range(binding.ask("nvmlDeviceGetCount"))]
    uuids = [binding.ask("nvmlDeviceGetUUID", gpu) for gpu in gpus]
    assert len(set(uuids)) == 16
    assert len({binding.ask("nvmlDeviceGetPciInfo", gpu)["busId"] for gpu in gpus}) == 16
    assert [binding.ask("nvmlDeviceGetMinorNumber", gpu) for gpu in gpus] == list(range(16))
    assert refusal(binding, "nvmlDeviceGetHandleByUUID", "GPU-of-somebody-else") == NOT_FOUND


def test_parts_of_a_cut_gpu_have_their_own_numbers(play: Play, path: Path) -> None:
    """1g and 3g: slices, memory and activity are the part's; utilization is nobody's, as the driver has it."""
    binding = play(situations.mig(path))
    small, large = {"part": [0, 0]}, {"part": [0, 2]}
    shapes = [binding.ask("nvmlDeviceGetAttributes", part) for part in (small, large)]
    assert [shape["computeInstanceSliceCount"] for shape in shapes] == [1, 3]
    assert [shape["memorySizeMB"] for shape in shapes] == [9984, 40448]
    assert [binding.ask("nvmlDeviceIsMigDeviceHandle", each) for each in (FIRST, small)] == [0, 1]
    assert refusal(binding, "nvmlDeviceGetUUID", {"part": [0, 1]}) == NOT_FOUND
    assert refusal(binding, "nvmlDeviceGetUtilizationRates", small) == NOT_SUPPORTED
    assert refusal(binding, "nvmlDeviceGetSamples", FIRST, 1, 0) == NOT_SUPPORTED
    assert [binding.ask("activity", each, [2]) for each in (small, large)] == [[90.0], [10.0]]
    assert binding.ask("activity", FIRST, [2], 9) == [90.0]


def test_blackwell_counts_bytes_by_link(play: Play, path: Path) -> None:
    """Neither the old sums nor a sum of the new fields is there: who wants one adds eighteen links."""
    scenario = situations.blackwell(path)
    binding = play(scenario)
    scenario.gpu(0, **{"field_202.0": 4096, "field_202.17": 2**40, "field_204.3": 7})
    assert binding.ask("nvmlDeviceGetArchitecture", FIRST) == 10
    assert fields(binding, FIRST, [202, 0], [202, 17], [204, 3], [204, 4]) == [(0, 4096), (0, 2**40), (0, 7), (0, 0)]
    codes = [code for code, _ in fields(binding, FIRST, [138, ALL_LINKS], [202, ALL_LINKS], [202, 18])]
    assert codes == [NOT_SUPPORTED] * 3


def test_a_lost_gpu_fails_alone(play: Play, path: Path) -> None:
    """It is still counted, and the others answer."""
    binding = play(situations.lost(path, index=1, gpus=2))
    assert binding.ask("nvmlDeviceGetCount") == 2
    assert refusal(binding, "nvmlDeviceGetName", SECOND) == LOST
    assert binding.ask("nvmlDeviceGetName", FIRST) == "NVIDIA H100 80GB HBM3"


def test_a_gpu_that_is_lost_later_succeeds_with_fields_that_fail(play: Play, path: Path) -> None:
    """The batch is answered as a whole; who does not look at each value takes zeros for readings."""
    scenario = healthy(path, gpus=2)
    binding = play(scenario)
    assert fields(binding, FIRST, 186) == [(0, 520_000)]
    scenario.gpu(0, lost=1)
    assert [code for code, _ in fields(binding, FIRST, 83, 186)] == [LOST, LOST]
    assert refusal(binding, "nvmlDeviceGetTemperature", FIRST, 0) == LOST


def test_a_driver_that_was_upgraded_refuses_everything(play: Play, path: Path) -> None:
    """At the start and under a running agent alike: only a new process can load the new library."""
    scenario = healthy(path, gpus=2)
    binding = play(scenario)
    scenario.host(mismatch=1)
    for function, arguments in (("nvmlInit", ()), ("nvmlDeviceGetCount", ()), ("nvmlDeviceGetName", (FIRST,))):
        assert refusal(binding, function, *arguments) == MISMATCH


def test_a_storm_of_events_is_told_event_by_event(play: Play, path: Path) -> None:
    """Nothing thins it out: who listens must bear it."""
    binding = play(situations.storm(path, per_second=20_000))
    numbers = binding.ask("events", FIRST, 400)
    assert len(numbers) == 400
    assert set(numbers) == {79, 48, 63, 94}
    assert numbers[:4] == numbers[4:8]


def test_a_time_sliced_gpu_has_several_holders(play: Play, path: Path) -> None:
    """Each with its memory and its share; names are the kernel's, of processes that exist."""
    mine, parent = os.getpid(), os.getppid()
    binding = play(situations.time_sliced(path, {mine: 3 * GIB, parent: 5 * GIB, 4_000_000: GIB}))
    held = binding.ask("nvmlDeviceGetComputeRunningProcesses_v3", FIRST)
    assert {each["pid"]: each["usedGpuMemory"] for each in held} == {
        mine: 3 * GIB,
        parent: 5 * GIB,
        4_000_000: GIB,
    }
    shares = binding.ask("nvmlDeviceGetProcessUtilization", FIRST, 0)
    assert {each["pid"]: each["smUtil"] for each in shares} == {mine: 50, parent: 25, 4_000_000: 12}
    infos = binding.ask("nvmlDeviceGetProcessesUtilizationInfo", FIRST, 0)
    assert {each["pid"]: each["smUtil"] for each in infos} == {mine: 50, parent: 25, 4_000_000: 12}
    assert binding.ask("nvmlSystemGetProcessName", mine) == Path(f"/proc/{mine}/comm").read_text().strip()
    assert refusal(binding, "nvmlSystemGetProcessName", 4_000_000) == NOT_FOUND
    assert refusal(binding, "nvmlDeviceGetProcessUtilization", SECOND, 0) == NO_NEWS


def test_a_healthy_gpu_has_every_ring(play: Play, path: Path) -> None:
    """Power, utilization, memory, codecs and clocks; a cursor tells what is newer, idle codecs tell nothing."""
    binding = play(healthy(path, gpus=1))
    assert ring(binding, FIRST, 0) == [500_000, 540_000, 520_000]
    assert ring(binding, FIRST, 1, since=1000) == [0, 100]
    assert ring(binding, FIRST, 5) == [1755, 1980, 1755]
    assert [refusal(binding, "nvmlDeviceGetSamples", FIRST, kind, 0) for kind in (3, 4)] == [NOT_FOUND] * 2
    assert refusal(binding, "nvmlDeviceGetSamples", FIRST, 2, 3000) == NOT_FOUND
    assert refusal(binding, "nvmlDeviceGetSamples", FIRST, 9, 0) == NOT_SUPPORTED


def test_a_living_gpu_stalls_within_a_second(play: Play, path: Path) -> None:
    """Its rings move with the clock, and hold both what is busy and what is not."""
    binding = play(living(path, gpus=1))
    assert set(ring(binding, FIRST, 1)) == {0, 97}
    assert set(ring(binding, FIRST, 0)) == {610_000, 160_000}


def test_a_healthy_gpu_tells_its_health(play: Play, path: Path) -> None:
    """Zeros that are measured: errors, remapped rows, what to do."""
    scenario = healthy(path, gpus=1)
    binding = play(scenario)
    assert fields(binding, FIRST, 82, 94, 142, 145, 230) == [(0, 72), (0, 0), (0, 0), (0, 0), (0, 0)]
    scenario.gpu(0, remapped_uncorrected=2, remap_pending=1, field_230=1, ecc_corrected=9)
    assert binding.ask("nvmlDeviceGetRemappedRows", FIRST) == [0, 2, 1, 0]
    assert binding.ask("nvmlDeviceGetTotalEccErrors", FIRST, 0, 0) == 9
    assert fields(binding, FIRST, 230) == [(0, 1)]
    assert binding.ask("nvmlDeviceGetEncoderUtilization", FIRST)[0] == 0
    assert binding.ask("nvmlDeviceGetClockInfo", FIRST, 2) == 2619
    assert binding.ask("nvmlDeviceGetMemoryInfo", FIRST)["total"] == 81559 * MIB


def test_links_to_a_switch_are_up_or_not(play: Play, path: Path) -> None:
    """One link of eighteen that is down is a slower GPU that computes."""
    scenario = healthy(path, gpus=1)
    binding = play(scenario)
    scenario.gpu(0, **{"nvlink.5": 0})
    states = [binding.ask("nvmlDeviceGetNvLinkState", FIRST, link) for link in range(18)]
    assert states == [1] * 5 + [0] + [1] * 12
    assert binding.ask("nvmlDeviceGetNvLinkRemotePciInfo", FIRST, 4)["bus"] == 0xC4
