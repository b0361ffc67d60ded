"""A GPU that this host should have and the driver does not list is missed from the first beat."""

import pytest

from tests.nvml.conftest import Host

FIRST = "GPU-00000000-0000-0000-0000-000000000000"
SECOND = "GPU-00000001-0000-0000-0000-000000000000"
DAY = 86_400


@pytest.fixture
def halved(host: Host) -> Host:
    """A host that had two GPUs, and one when its agent was started again."""
    host.read()
    host.close()
    host.scenario.host(count=1)
    return host


def down(host: Host, days: float = 0) -> list[str]:
    """Read after so many days, and return the GPUs that are said to be down."""
    return [row["gpu_uuid"] for row in host.read(31, wall=31 + days * DAY)["reading"]["gpu_samples"] if not row["up"]]


def test_a_gpu_that_was_lost_before_the_agent_began_is_down(halved: Host) -> None:
    """Without a memory the host would have had one GPU all along, and the other would cost nobody anything."""
    answer = halved.read()
    assert answer["reading"]["gpu_samples"][1] == {"gpu_uuid": SECOND, "up": False}
    assert answer["lost"] == [SECOND]
    assert answer["counts"] == [2, 1]
    assert {each["reason"] for each in answer["supported"] if each["gpu_uuid"] == SECOND} == {
        "the GPU is lost: the driver does not list it"
    }


def test_a_missed_gpu_that_comes_back_is_up(halved: Host) -> None:
    """A reset of the host is what brings it back, as a rule."""
    assert down(halved) == [SECOND]
    halved.scenario.host(count=2)
    assert [row["up"] for row in halved.rows()] == [True, True]
    assert halved.read()["counts"] == [2, 2]


def test_a_missed_gpu_is_forgotten_after_a_week(halved: Host) -> None:
    """By then somebody has taken it out; a memory that never ends would accuse for ever."""
    assert down(halved) == [SECOND]
    assert down(halved, days=6) == [SECOND]
    assert down(halved, days=2) == []
    assert halved.read()["counts"] == [1, 1]


def test_the_week_outlives_a_restart(halved: Host) -> None:
    """Agents are updated more often than that."""
    assert down(halved) == [SECOND]
    halved.close()
    assert down(halved, days=8) == []


def test_an_operator_who_expects_fewer_is_believed(halved: Host) -> None:
    """He knows what he took out."""
    halved.expected_gpus = 1
    assert down(halved) == []


def test_a_gpu_in_the_place_of_another_replaces_it(host: Host) -> None:
    """A repaired host has as many GPUs as before, and none is missing."""
    host.read()
    host.close()
    host.scenario.gpu(1, uuid="GPU-new")
    assert down(host) == []
    assert host.read()["counts"] == [2, 2]


def test_an_operator_expects_what_no_agent_has_seen(host: Host) -> None:
    """A host that is installed with a dead GPU has never been whole."""
    host.expected_gpus = 8
    assert host.read()["counts"] == [8, 2]


def bind(host: Host, *uuids: str) -> None:
    """Let the kernel's driver have bound these GPUs, in the order of the bus."""
    for place, uuid in enumerate(uuids):
        folder = host.proc / f"driver/nvidia/gpus/0000:{0x10 + place:02x}:00.0"
        folder.mkdir(parents=True)
        (folder / "information").write_text(f"Model: \t NVIDIA H100\nGPU UUID: \t {uuid}\nDevice Minor: \t {place}\n")


def test_the_kernel_knows_of_gpus_that_the_driver_does_not_list(host: Host) -> None:
    """They are expected, but no row is made up: a container or a job may merely not be allowed to see them."""
    bind(host, FIRST, SECOND, "GPU-third")
    answer = host.read()
    assert answer["counts"] == [3, 2]
    assert len(answer["reading"]["gpu_samples"]) == 2


def test_a_gpu_too_ill_to_tell_its_name_is_down_from_the_first_beat(host: Host) -> None:
    """The driver counts it and cannot identify it: the kernel knows which it is."""
    bind(host, FIRST, SECOND)
    host.scenario.gpu(1, lost=1)
    answer = host.read()
    assert [(row["gpu_uuid"], row["up"]) for row in answer["reading"]["gpu_samples"]] == [
        (FIRST, True),
        (SECOND, False),
    ]
    assert answer["counts"] == [2, 1]
    host.scenario.gpu(1, lost=0)
    assert [row["up"] for row in host.rows(31)] == [True, True]


def test_a_gpu_that_nobody_can_name_is_expected(host: Host) -> None:
    """A row needs a UUID; the number of GPUs that the driver counts does not."""
    bind(host, FIRST, "GPU-????????-????-????-????-????????????")
    host.scenario.gpu(1, lost=1)
    assert host.read()["counts"] == [2, 1]


def test_a_gpu_lost_and_gone_while_the_agent_runs_is_forgotten_alike(host: Host) -> None:
    """Otherwise an agent that is never restarted would miss it for ever."""
    host.read()
    host.scenario.host(count=1)
    assert down(host) == [SECOND]
    assert down(host, days=8) == []
    assert [row["gpu_uuid"] for row in host.rows()] == [FIRST]
