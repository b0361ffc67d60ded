"""Who holds a GPU, and how much of its SM time they take."""

from typing import Any

from tests.agent.gpu.conftest import Host
from tests.agent.gpu.fake.build import NOBODY


def held(host: Host) -> list[dict[str, Any]]:
    """Read, and return the processes of the first GPU."""
    return [each for each in host.read()["processes"] if each["gpu_uuid"].startswith("GPU-00000000")]


def shares(host: Host) -> dict[int, float | None]:
    """Read, and return the share of SM time by pid of the first GPU."""
    return {each["pid"]: each["sm_utilization_ratio"] for each in held(host)}


def test_processes_tell_their_memory_or_that_it_is_unknown(host: Host) -> None:
    """Some drivers list a process without its memory."""
    host.scenario.gpu(0, processes="7:4096,8:n/a")
    assert [(each["pid"], each["memory_used_bytes"]) for each in held(host)] == [(7, 4096), (8, None)]


def test_an_idle_gpu_has_no_processes(host: Host) -> None:
    """The list is empty, which the driver says by succeeding at once."""
    host.scenario.gpu(0, processes=None)
    assert held(host) == []


def test_an_old_driver_lists_processes_in_the_older_form(host: Host) -> None:
    """The binding's unversioned call fails on drivers before 510 with an exception of another family."""
    host.scenario.fail("nvmlDeviceGetComputeRunningProcesses_v3", 13)
    assert [each["pid"] for each in held(host)] == [NOBODY]
    held(host)
    assert host.calls("nvmlDeviceGetComputeRunningProcesses_v3") == 2


def test_clients_of_mps_hold_the_gpu_too(host: Host) -> None:
    """They stand in a list of their own; one that is in both lists is one process."""
    host.scenario.gpu(0, processes="7:100", mps_processes="7:300,9:200")
    assert [(each["pid"], each["memory_used_bytes"]) for each in held(host)] == [(7, 300), (9, 200)]


def test_sm_time_of_before_the_agent_is_not_believed(host: Host) -> None:
    """Asked from the beginning, the driver answers with samples of any age."""
    host.scenario.gpu(0, process_utilization=f"500:{NOBODY}:99")
    assert shares(host) == {NOBODY: None}
    host.scenario.gpu(
        0,
        process_utilization=",".join(
            f"{at}:{NOBODY}:{sm}" for at, sm in ((500, 99), (600, 40), (700, 60), (800, 3000))
        ),
    )
    assert shares(host) == {NOBODY: 0.5}


def test_a_holder_that_the_driver_leaves_out_was_idle(host: Host) -> None:
    """The driver lists only processes that were busy: the other holder of a shared GPU took nothing."""
    host.scenario.gpu(0, processes="7:100,8:100")
    shares(host)
    host.scenario.gpu(0, process_utilization="600:7:80")
    assert shares(host) == {7: 0.8, 8: 0}


def test_processes_that_cannot_be_told_apart_are_unknown(host: Host) -> None:
    """Under MPS, or from another PID namespace, the busy pids are none of the holders."""
    host.scenario.gpu(0, processes="7:100,8:100")
    shares(host)
    host.scenario.gpu(0, process_utilization="600:31337:80")
    assert shares(host) == {7: None, 8: None}


def test_no_answer_about_sm_time_is_unknown_and_not_zero(host: Host) -> None:
    """The binding raises an error of code 0 where the driver has nothing to tell; that is no failure either."""
    shares(host)
    assert shares(host) == {NOBODY: None}
    assert host.read()["failures"] == {}


def test_processes_are_listed_as_often_as_they_are_wanted(host: Host) -> None:
    """It is the dearest question of a beat, and nobody looks at the answer at every beat."""
    host.process_seconds = 10
    listed = [host.read(seconds=1) and host.calls("nvmlDeviceGetComputeRunningProcesses_v3") for _ in range(21)]
    assert len(set(listed)) == 3
    assert [each["pid"] for each in held(host)] == [NOBODY]
