"""Where a GPU sits within its host."""

from pathlib import Path


def sysfs_bus_id(bus_id: str) -> str | None:
    """Return a PCI address as the kernel writes it (`0000:1b:00.0`), from any spelling; None where it is none.

    The driver writes eight digits of domain in capitals (`00000000:1B:00.0`), the kernel four and small.
    """
    try:
        domain, bus, rest = bus_id.strip().split(":")
        device, function = rest.split(".")
        return f"{int(domain, 16):04x}:{int(bus, 16):02x}:{int(device, 16):02x}.{int(function, 16):x}"
    except ValueError:
        return None


def numa_node(sysfs: Path, bus_id: str) -> int | None:
    """Return the NUMA node of a PCI device, or None where the kernel knows none.

    Source: /sys/bus/pci/devices/<address>/numa_node, -1 on machines with one node.
    """
    address = sysfs_bus_id(bus_id)
    try:
        node = int((sysfs / "bus/pci/devices" / (address or "none") / "numa_node").read_text())
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None
