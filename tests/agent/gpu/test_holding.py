"""Who holds a GPU while its driver cannot say it: whoever held it, until the process is known to be gone."""

import subprocess
from collections.abc import Iterator

import pytest

from tests.agent.gpu.conftest import Host
from tests.agent.gpu.fake.build import MIB
from tests.waiting import until

FIRST = "GPU-00000000-0000-0000-0000-000000000000"
SECOND = "GPU-00000001-0000-0000-0000-000000000000"
LARGE = "MIG-00000000-0000-0000-0000-000000000003"
UNINITIALIZED, NOT_SUPPORTED, NO_PERMISSION, UNKNOWN = 1, 3, 4, 999
LIST = "nvmlDeviceGetComputeRunningProcesses_v3"
OLDER_LIST = "nvmlDeviceGetComputeRunningProcesses_v2"
MPS_LIST = "nvmlDeviceGetMPSComputeRunningProcesses_v3"


@pytest.fixture
def worker() -> Iterator[subprocess.Popen[bytes]]:
    """A real process, which the scenario lets hold a GPU."""
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


@pytest.fixture
def held(host: Host, worker: subprocess.Popen[bytes]) -> Host:
    """A host whose first GPU is held by the worker, and that was read once; nobody holds the second."""
    host.scenario.every(processes=None).gpu(0, processes=f"{worker.pid}:{60_000 * MIB}")
    assert host.edges() == [(FIRST, True)]
    return host


@pytest.mark.parametrize("code", [UNKNOWN, NO_PERMISSION])
def test_a_list_that_cannot_be_read_ends_no_allocation(held: Host, code: int) -> None:
    """It was told as "nobody holds it": the allocation ended, and another began six seconds later."""
    held.scenario.fail(LIST, code)
    assert [held.edges() for _ in range(3)] == [[], [], []]
    held.scenario.fail(LIST, 0)
    assert held.edges() == []


def test_a_driver_that_supports_no_list_for_a_moment_ends_no_allocation(held: Host) -> None:
    """What it answered a moment ago it can be asked again, and meanwhile nobody has let go."""
    held.scenario.fail(LIST, NOT_SUPPORTED).fail(OLDER_LIST, NOT_SUPPORTED)
    assert held.edges() == []
    held.scenario.fail(LIST, 0).fail(OLDER_LIST, 0)
    assert [held.edges(seconds=61) for _ in range(2)] == [[], []]


def test_a_list_of_mps_clients_that_cannot_be_read_ends_no_allocation(
    host: Host, worker: subprocess.Popen[bytes]
) -> None:
    """They stand in that list alone."""
    host.scenario.every(processes=None).gpu(0, mps_processes=f"{worker.pid}:{MIB}")
    assert host.edges() == [(FIRST, True)]
    for code in (UNKNOWN, NOT_SUPPORTED):
        host.scenario.fail(MPS_LIST, code)
        assert host.edges() == []
    host.scenario.fail(MPS_LIST, 0).gpu(0, mps_processes=None)
    until(lambda: host.edges(seconds=61) == [(FIRST, False)], "the list is read again")


def test_a_lost_gpu_is_held_by_the_process_that_lives(held: Host) -> None:
    """The time of the failure is the holder's: nobody else can use that GPU, and its work is what was hit."""
    held.scenario.gpu(0, lost=1)
    assert [held.edges() for _ in range(3)] == [[], [], []]
    held.scenario.gpu(0, lost=0)
    assert held.edges() == []


def test_a_gpu_that_fell_out_of_the_list_is_held_by_the_process_that_lives(held: Host) -> None:
    """Some losses take the GPU out of the driver's count."""
    held.scenario.gpu(1, processes=None)
    held.scenario.host(count=0)
    assert [held.edges(seconds=31) for _ in range(2)] == [[], []]


def test_the_figures_of_a_list_that_cannot_be_read_are_unknown(held: Host) -> None:
    """Sixty gigabytes of a GPU that is lost are no measurement."""
    held.scenario.gpu(0, lost=1)
    (row,) = held.read(runs=True)["runs"]["process_samples"]
    assert (row["gpu_uuid"], row["memory_used_bytes"], row["sm_utilization_ratio"]) == (FIRST, None, None)


@pytest.mark.parametrize("trouble", ["list", "lost", "driver"])
def test_a_holder_that_ended_has_given_its_gpu_back(held: Host, worker: subprocess.Popen[bytes], trouble: str) -> None:
    """The driver cannot say it, and the kernel can."""
    if trouble == "list":
        held.scenario.fail(LIST, UNKNOWN)
    elif trouble == "lost":
        held.scenario.gpu(0, lost=1)
    else:
        held.scenario.host(**{"fail.nvmlDeviceGetCount_v2": UNKNOWN})
    assert held.edges() == []
    worker.kill()
    worker.wait()
    assert held.edges() == [(FIRST, False)]
    assert held.edges() == []


def test_a_driver_that_fails_whole_ends_no_allocation_and_has_no_gpu(held: Host) -> None:
    """It said 2 of 2 GPUs while not one of them could be asked."""
    held.scenario.host(**{"fail.nvmlDeviceGetCount_v2": UNKNOWN})
    answers = [held.read(runs=True) for _ in range(2)]
    assert [answer["counts"] for answer in answers] == [[2, 0], [2, 0]]
    assert [answer["runs"]["allocations"] for answer in answers] == [[], []]
    held.scenario.host(**{"fail.nvmlDeviceGetCount_v2": 0})
    answer = held.read(runs=True)
    assert (answer["counts"], answer["runs"]["allocations"]) == ([2, 2], [])


@pytest.mark.parametrize("trouble", ["list", "lost", "count", "driver"])
def test_a_restart_of_the_agent_during_trouble_ends_no_allocation(held: Host, trouble: str) -> None:
    """Agents are restarted just when something is wrong; the one that begins knows whom the last one saw."""
    held.close()
    if trouble == "list":
        held.scenario.fail(LIST, UNKNOWN)
    elif trouble == "lost":
        held.scenario.gpu(0, lost=1)
    elif trouble == "count":
        held.scenario.host(count=0)
    else:
        held.scenario.host(**{"fail.nvmlInitWithFlags": UNINITIALIZED})
    assert held.edges() == [(FIRST, True)], "told again as still open, from when it was taken"
    assert held.edges() == []
    held.scenario.fail(LIST, 0).gpu(0, lost=0).host(count=2, **{"fail.nvmlInitWithFlags": 0})
    assert held.edges(seconds=61) == []


def test_a_holder_that_ended_while_no_agent_ran_is_not_believed_to_hold(
    held: Host, worker: subprocess.Popen[bytes]
) -> None:
    """It is known by pid and start, so that another process of its number is not taken for it."""
    held.close()
    worker.kill()
    worker.wait()
    held.scenario.gpu(0, lost=1)
    assert held.edges() == [(FIRST, False)]


def test_a_process_that_let_go_of_its_gpu_and_lives_on_holds_it_no_more(held: Host) -> None:
    """A list that was read is a word, and the only one that ends an allocation of a living process."""
    held.scenario.gpu(0, processes=None)
    assert held.edges() == [(FIRST, False)]


def test_instances_that_cannot_be_listed_are_still_held(host: Host, worker: subprocess.Popen[bytes]) -> None:
    """ "No instance" and "nobody says how many" were the same answer."""
    host.scenario.every(processes=None).gpu(0, mig=1, mig_max=7)
    host.scenario.instance(0, 2, slices=3, gpu_instance=1, processes=f"{worker.pid}:5000")
    assert host.edges() == [(LARGE, True)]
    for question in ("nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetMigDeviceHandleByIndex"):
        host.scenario.fail(question, UNKNOWN, 0)
        assert LARGE in {row["gpu_uuid"] for row in host.rows(seconds=31)}
        assert host.edges() == []
        host.scenario.fail(question, 0, 0)
    host.scenario.instance(0, 2, slices=0, processes=None)
    until(lambda: host.edges(seconds=31) == [(LARGE, False)], "the instance was deleted")
