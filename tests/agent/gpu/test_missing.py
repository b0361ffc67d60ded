"""A GPU that this host should have and the driver does not list is missed from the first beat."""

import json
import os
import subprocess
import sys

import pytest

from tests.agent.gpu.conftest import ROOT, Host
from tests.waiting import PATIENCE_SECONDS

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


def rows_up(host: Host, seconds: float = 10) -> dict[str, bool | None]:
    """Read, and return of each row whether its GPU is up."""
    return {row["gpu_uuid"]: row["up"] for row in host.rows(seconds)}


def test_one_lost_gpu_of_eight_is_one_row_of_eight(host: Host) -> None:
    """It fell off the bus before any agent ran: it had no row, and cost nobody anything."""
    host.scenario.host(count=8).gpu(3, lost=1)
    for answer in (host.read(), host.read(seconds=31)):
        rows = answer["reading"]["gpu_samples"]
        assert len(rows) == 8
        assert [row for row in rows if not row["up"]] == [{"gpu_uuid": "n14/slot3", "up": False}]
        assert (answer["counts"], answer["lost"]) == ([8, 7], ["n14/slot3"])
    reasons = {each["reason"] for each in answer["supported"] if each["gpu_uuid"] == "n14/slot3"}
    assert reasons == {"the GPU is lost: the driver does not list it"}
    host.close()
    assert rows_up(host)["n14/slot3"] is False, "an agent that begins anew knows it by the same name"
    host.scenario.gpu(3, lost=0)
    assert set(rows_up(host, seconds=31).values()) == {True}
    assert host.read()["counts"] == [8, 8]


def test_a_gpu_that_nobody_can_name_is_found_by_its_place(host: Host) -> None:
    """Who takes the board out looks for a place on the bus."""
    bind(host, FIRST, "GPU-????????-????-????-????-????????????")
    host.scenario.gpu(1, lost=1)
    answer = host.read()
    assert {row["gpu_uuid"]: row["up"] for row in answer["reading"]["gpu_samples"]} == {FIRST: True, "n14/slot1": False}
    assert answer["counts"] == [2, 1]
    assert {each["reason"] for each in answer["supported"] if each["gpu_uuid"] == "n14/slot1"} == {
        "the GPU is lost: the driver does not list it at 0000:11:00.0"
    }


def test_a_gpu_that_refuses_its_name_for_another_reason_is_unknown_and_not_down(host: Host) -> None:
    """In a container that lost its devices every call fails: silence is not a loss."""
    host.scenario.fail("nvmlDeviceGetUUID", 999, index=1)
    assert rows_up(host) == {FIRST: True, "n14/slot1": None}
    assert host.read()["lost"] == []


def on_the_bus(
    host: Host, bus_id: str, driver: str | None, vendor: str = "0x10de", config: bytes = b"\xde\x10"
) -> None:
    """Let the kernel show a device on the PCI bus."""
    place = host.sysfs / "bus/pci/devices" / bus_id
    place.mkdir(parents=True)
    (place / "vendor").write_text(f"{vendor}\n")
    (place / "class").write_text("0x030200\n")
    (place / "config").write_bytes(config + bytes(62))
    if driver is not None:
        (host.sysfs / "bus/pci/drivers" / driver).mkdir(parents=True, exist_ok=True)
        (place / "driver").symlink_to(host.sysfs / "bus/pci/drivers" / driver)


def test_a_gpu_that_the_driver_could_not_take_up_is_down(host: Host) -> None:
    """After a boot the driver counts one GPU fewer, and only the bus shows the other."""
    on_the_bus(host, "0000:10:00.0", "nvidia")
    on_the_bus(host, "0000:11:00.0", "nvidia")
    on_the_bus(host, "0000:12:00.0", None)
    on_the_bus(host, "0000:13:00.0", "nvidia", config=b"\xff\xff")
    assert rows_up(host) == {
        FIRST: True,
        SECOND: True,
        "n14/slot2": False,
        "n14/slot3": False,
    }
    assert host.read()["counts"] == [4, 2]


def test_a_gpu_that_was_given_away_or_is_not_shown_to_this_process_is_not_down(host: Host) -> None:
    """A virtual machine has the one, another container the next; one is not NVIDIA's, one a part of another."""
    on_the_bus(host, "0000:12:00.0", "vfio-pci", config=b"\xff\xff")
    on_the_bus(host, "0000:13:00.0", "nvidia")
    on_the_bus(host, "0000:14:00.0", None, vendor="0x8086")
    on_the_bus(host, "0000:15:00.4", None)
    (host.sysfs / "bus/pci/devices/0000:15:00.4/physfn").symlink_to(host.sysfs / "bus/pci/devices/0000:13:00.0")
    assert rows_up(host) == {FIRST: True, SECOND: True}
    assert host.read()["counts"] == [2, 2]


def test_a_lost_gpu_that_the_driver_counts_and_the_bus_shows_is_one(host: Host) -> None:
    """Two witnesses of one loss are not two losses."""
    on_the_bus(host, "0000:10:00.0", "nvidia")
    on_the_bus(host, "0000:11:00.0", "nvidia", config=b"\xff\xff")
    host.scenario.gpu(1, lost=1)
    assert rows_up(host) == {FIRST: True, "n14/slot1": False}


def test_a_lost_gpu_that_an_agent_has_seen_has_one_row_under_its_uuid(host: Host) -> None:
    """It is remembered with its index and place, and is not told by them again."""
    host.read()
    host.close()
    on_the_bus(host, "0000:11:00.0", "nvidia", config=b"\xff\xff")
    host.scenario.gpu(1, lost=1)
    assert rows_up(host) == {FIRST: True, SECOND: False}
    assert host.read()["counts"] == [2, 1]


def test_a_gpu_lost_and_gone_while_the_agent_runs_is_forgotten_alike(host: Host) -> None:
    """Otherwise an agent that is never restarted would miss it for ever."""
    host.read()
    host.scenario.host(count=1)
    assert down(host) == [SECOND]
    assert down(host, days=8) == []
    assert [row["gpu_uuid"] for row in host.rows()] == [FIRST]


def test_one_reading_by_hand_shows_the_lost_gpu_too(host: Host) -> None:
    """`agent --once` is what somebody types who was told that a GPU is missing."""
    host.scenario.host(count=8).gpu(3, lost=1)
    settings = host.directory / "gpuledger.toml"
    settings.write_text(f'[agent]\nnode = "n14"\nproc = {json.dumps(str(host.proc))}\n')
    command = [sys.executable, "-m", "gpuledger", "agent", "--once", "--every", "0.1s", "--config", str(settings)]
    environment = os.environ | {
        "LD_LIBRARY_PATH": str(host.library),
        "GPULEDGER_FAKE_NVML": str(host.scenario.path),
    }
    ran = [
        subprocess.run(
            [*command, *flags], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS
        ).stdout
        for flags in (["--json"], [])
    ]
    rows = json.loads(ran[0])["tables"]["gpu_samples"]
    assert len({row["gpu_uuid"] for row in rows}) == 8
    assert {row["gpu_uuid"] for row in rows if row["up"] is False} == {"n14/slot3"}
    assert "n14/slot3  not responding" in ran[1]
