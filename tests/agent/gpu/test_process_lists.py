"""The driver's lists of processes: entries of several sizes under one name, and contexts that draw."""

import random
import struct

import pytest

from agent.gpu.nvidia.instruments import process_entries
from tests.agent.gpu.conftest import Host
from tests.agent.gpu.fake.build import MIB, NOBODY
from tests.agent.gpu.test_processes import held

UNKNOWN = 2**64 - 1
MARK = b"\xa5"
SIZES = (16, 24, 32, 40, 48, 56, 64)
XORG, RENDERER, TRAINER = 5001, 5002, 5003


@pytest.fixture
def named(host: Host) -> Host:
    """Return the host with a display server, a renderer and a trainer in its procfs."""
    for pid, name in ((XORG, "Xorg"), (RENDERER, "blender"), (TRAINER, "python3")):
        (host.proc / str(pid)).mkdir(parents=True)
        (host.proc / str(pid) / "comm").write_text(f"{name}\n")
    return host


def pids(host: Host) -> dict[str, list[int]]:
    """Read, and return who holds each GPU."""
    found: dict[str, list[int]] = {}
    for each in host.read()["processes"]:
        found.setdefault(each["gpu_uuid"][4:12], []).append(each["pid"])
    return found


def test_who_renders_holds_the_gpu(named: Host) -> None:
    """The driver keeps graphics contexts in a list of their own (wookayin/gpustat#18)."""
    named.scenario.every(processes=None).gpu(0, graphics_processes=f"{RENDERER}:{6000 * MIB}")
    (only,) = held(named)
    assert (only["pid"], only["memory_used_bytes"]) == (RENDERER, 6000 * MIB)


def test_a_display_server_holds_no_gpu(named: Host) -> None:
    """It has a few MiB of every GPU of the host, whoever works there."""
    named.scenario.every(processes=None, graphics_processes=f"{XORG}:{4 * MIB}")
    named.scenario.gpu(0, processes=f"{TRAINER}:{1000 * MIB}")
    assert pids(named) == {"00000000": [TRAINER]}


@pytest.mark.parametrize(
    ("process", "holds"),
    [
        (f"{XORG}:{300 * MIB}", False),
        (f"{XORG}:n/a", False),
        (f"{RENDERER}:n/a", True),
        (f"{RENDERER}:{200 * MIB}", True),
        (f"{RENDERER}:{4 * MIB}", False),
        (f"6001:{500 * MIB}", True),
        (f"6001:{4 * MIB}", False),
    ],
)
def test_what_draws_a_screen_is_told_by_its_name_and_size(named: Host, process: str, holds: bool) -> None:
    """A process that /proc does not show is told by its size alone; one of unknown size by its name."""
    named.scenario.every(processes=None).gpu(0, graphics_processes=process)
    assert bool(held(named)) is holds


def test_a_process_that_computes_and_draws_is_one_holder(named: Host) -> None:
    """It stands in both lists, be it a display server."""
    named.scenario.gpu(0, processes=f"{TRAINER}:{100 * MIB},{XORG}:{9 * MIB}")
    named.scenario.gpu(0, graphics_processes=f"{TRAINER}:{120 * MIB},{XORG}:{8 * MIB}")
    assert [(each["pid"], each["memory_used_bytes"]) for each in held(named)] == [
        (XORG, 9 * MIB),
        (TRAINER, 120 * MIB),
    ]


def test_a_graphics_list_that_cannot_be_read_gives_nothing_back(named: Host) -> None:
    """Who renders may still be there; who computes has gone, or renders now: nobody knows."""
    named.scenario.every(processes=None).gpu(0, graphics_processes=f"{RENDERER}:{6000 * MIB}")
    held(named)
    named.scenario.fail("nvmlDeviceGetGraphicsRunningProcesses_v3", 999)
    assert [each["pid"] for each in held(named)] == [RENDERER]


@pytest.mark.parametrize("size", [16, 24, 32])
@pytest.mark.parametrize("cleared", [0, 1])
def test_entries_of_any_size_tell_the_same_processes(host: Host, size: int, cleared: int) -> None:
    """Drivers 535.43 to 535.86 have 32 bytes under the name of 24: holders vanished, or became process 4294967295."""
    host.scenario.every(process_entry_bytes=size, process_room_cleared=cleared)
    host.scenario.gpu(
        0, processes="7:4096,8:n/a,9:81604378624", mps_processes="7:8192,11:5,12:6", graphics_processes=None
    )
    assert [(each["pid"], each["memory_used_bytes"]) for each in held(host)] == [
        *((7, 8192), (8, None), (9, 81604378624)),
        *((11, 5), (12, 6)),
    ]


def test_more_processes_than_were_asked_for_are_all_told(host: Host) -> None:
    """The room grows with the answer."""
    host.scenario.gpu(0, processes=",".join(f"{pid}:{pid}" for pid in range(1000, 1300)))
    assert [each["pid"] for each in held(host)] == list(range(1000, 1300))


@pytest.mark.parametrize("size", [8, 12, 20])
def test_entries_of_a_size_that_nobody_knows_are_no_holders(host: Host, size: int) -> None:
    """Nobody is told, nothing is given back, and it is said."""
    host.read()
    host.scenario.gpu(0, processes="7:4096,8:4096", process_entry_bytes=size)
    told = host.read()
    assert [each["pid"] for each in told["processes"] if each["gpu_uuid"].startswith("GPU-00000000")] == [NOBODY]
    assert any("ComputeRunningProcesses" in name for name in told["unreadable"])


@pytest.mark.parametrize("seed", range(200))
def test_a_list_is_read_as_it_was_written_or_not_at_all(seed: int) -> None:
    """Two hundred drivers with entries of their own size, padding, order and garbage behind."""
    chance = random.Random(seed)
    size, count, room = chance.choice(SIZES), chance.randint(1, 40), 0
    room = count + chance.choice([0, 1, 5, 37])
    truth = [
        (chance.randint(1, 2**22), chance.choice([UNKNOWN, 0, 1, chance.randint(0, 300 * 2**30)])) for _ in range(count)
    ]
    answer = bytearray(MARK * (room * SIZES[-1]))
    if chance.random() < 0.3:
        answer[: room * size] = bytes(room * size)
    for place, (pid, memory) in enumerate(truth):
        rest = [chance.choice([0xFFFFFFFF, chance.randint(0, 13)]) for _ in range((size - 16) // 4)]
        struct.pack_into(f"=I4xQ{len(rest)}I", answer, place * size, pid, memory, *rest)
        if chance.random() < 0.5:
            answer[place * size + 4 : place * size + 8] = MARK * 4  # padding that the driver leaves as it was
    told = [(pid, None if memory == UNKNOWN else memory) for pid, memory in truth]
    assert process_entries(bytes(answer), count, room) == told


@pytest.mark.parametrize("seed", range(50))
def test_what_a_driver_writes_behind_its_list_hides_nobody(seed: int) -> None:
    """It may leave there what it worked with: entries that it dropped, or numbers of any kind."""
    chance = random.Random(seed)
    count, more = chance.randint(1, 12), chance.randint(1, 12)
    truth = [(chance.randint(1, 2**22), chance.randint(8 * MIB, 80000 * MIB)) for _ in range(count)]
    answer = bytearray(MARK * (37 * 64))
    for place, (pid, memory) in enumerate(truth):
        struct.pack_into("=I4xQII", answer, place * 24, pid, memory, 0xFFFFFFFF, 0xFFFFFFFF)
    for place in range(count * 6, count * 6 + more):
        struct.pack_into("=I", answer, place * 4, chance.choice([0, 7, 0xFFFFFFFF, chance.randrange(2**32)]))
    try:
        assert process_entries(bytes(answer), count, 37) == truth
    except ValueError:  # nobody knows, which is no wrong holder
        assert count == 1 or more >= 2


@pytest.mark.parametrize("seed", range(100))
def test_what_no_driver_writes_is_refused(seed: int) -> None:
    """Noise, a list that ends early, and processes that the kernel cannot have: never a holder that is none."""
    chance = random.Random(seed)
    count = chance.randint(1, 20)
    answer = bytearray(MARK * (37 * 64))
    kind = chance.choice(["nothing", "short", "pid", "memory"])
    if kind != "nothing":
        for place in range(count):
            struct.pack_into("=I4xQII", answer, place * 24, 7, 1, 0, 0)
    if kind == "short":
        answer[count * 24 - chance.randint(9, 23) :] = MARK * (len(answer) - len(answer[: count * 24 - 9]))
    elif kind == "pid":
        struct.pack_into("=I", answer, chance.randrange(count) * 24, chance.choice([0, 2**22 + 1, 0xFFFFFFFF]))
    elif kind == "memory":
        struct.pack_into("=Q", answer, chance.randrange(count) * 24 + 8, 2**51)
    try:
        found = process_entries(bytes(answer), count, 37)
    except ValueError:
        return
    assert kind == "short"  # one entry of fewer bytes is one of an older driver
    assert count == 1
    assert found == [(7, 1)]
