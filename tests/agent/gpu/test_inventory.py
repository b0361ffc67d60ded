"""A GPU as found, told once and again when it changes."""

from tests.agent.gpu.conftest import Host
from tests.agent.gpu.fake.build import MIB

FIRST = "GPU-00000000-0000-0000-0000-000000000000"


def test_the_first_reading_tells_what_was_found(host: Host) -> None:
    """Everything that a price or a placement needs."""
    place = host.sysfs / "bus/pci/devices/0000:10:00.0"
    place.mkdir(parents=True)
    (place / "numa_node").write_text("1\n")
    row = host.read()["reading"]["inventory"][0]
    assert row == {
        "gpu_uuid": FIRST,
        "gpu_index": 0,
        "sku": "H100-80GB",
        "architecture": "Hopper",
        "memory_bytes": 81559 * MIB,
        "mig_slices_max": None,
        "power_limit_watts": 700,
        "sm_clock_max_hertz": 1_980_000_000,
        "nvlink_peers": 1,
        "driver_version": "570.86.10",
        "pci_bus_id": "0000:10:00.0",
        "numa_node": 1,
        "pcie_generation": 5,
        "pcie_generation_max": 5,
        "pcie_width": 16,
        "pcie_width_max": 16,
    }


def test_what_did_not_change_is_not_told_again(host: Host) -> None:
    """A link that trains down while idle is no news, a narrower link is."""
    host.read()
    assert "inventory" not in host.read(seconds=1)["reading"]
    host.scenario.every(pcie_generation=1)
    assert "inventory" not in host.read(seconds=31)["reading"]
    host.scenario.gpu(1, pcie_width=8)
    rows = host.read(seconds=31)["reading"]["inventory"]
    assert [(row["gpu_index"], row["pcie_width"], row["pcie_generation"]) for row in rows] == [(1, 8, 1)]


def test_a_gpu_that_appears_is_told_at_the_next_beat(host: Host) -> None:
    """The count changes, and nobody waits for the next look at the facts."""
    host.read()
    host.scenario.host(count=3)
    reading = host.read(seconds=1)["reading"]
    assert len(reading["gpu_samples"]) == 3
    assert 2 in {row["gpu_index"] for row in reading["inventory"]}


def test_every_column_is_one_of_the_contract(host: Host) -> None:
    """A column that the contract does not know would be dropped in silence."""
    from agent.wire.tables import TABLES

    host.scenario.every(gpm=1, gpm_2=50, gpm_20=1)
    host.read()
    for table, rows in host.read()["reading"].items():
        assert {name for row in rows for name in row} <= set(TABLES[table].names)
