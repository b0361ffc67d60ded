"""Where a GPU sits within its host."""

from pathlib import Path

import pytest

from agent.sources.topology import numa_node, sysfs_bus_id


@pytest.mark.parametrize(
    ("spelled", "kernels"),
    [
        ("00000000:1B:00.0", "0000:1b:00.0"),
        ("0000:1b:00.0", "0000:1b:00.0"),
        ("00010000:E1:1F.7", "10000:e1:1f.7"),
        ("1b:00.0", None),
        ("", None),
        ("../../etc:0:0.0", None),
    ],
)
def test_a_pci_address_is_spelled_as_the_kernel_does(spelled: str, kernels: str | None) -> None:
    """It is a path below /sys, so nothing else may pass."""
    assert sysfs_bus_id(spelled) == kernels


@pytest.mark.parametrize(("text", "node"), [("1\n", 1), ("0", 0), ("-1\n", None), ("?", None), (None, None)])
def test_a_numa_node_is_a_number_or_unknown(tmp_path: Path, text: str | None, node: int | None) -> None:
    """Machines with one node say -1, which is no node."""
    device = tmp_path / "bus/pci/devices/0000:1b:00.0"
    device.mkdir(parents=True)
    if text is not None:
        (device / "numa_node").write_text(text)
    assert numa_node(tmp_path, "00000000:1B:00.0") == node
