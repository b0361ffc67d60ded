"""Network interfaces, from /proc/net/dev and /sys/class/net."""

from collections.abc import Sequence
from pathlib import Path

from agent.network.links import BITS, LinkCounters
from agent.procfs import number

ARPHRD_INFINIBAND = 32
ARPHRD_ETHERNET = 1
BITS_PER_MEGABIT = 10**6

_VIRTUAL = ("lo", "veth", "docker", "br-", "virbr", "cni", "cali", "flannel", "ifb", "dummy", "tun", "tap", "kube-")


def interface_counters(net_dev: str) -> dict[str, LinkCounters]:
    """Return the counters of every interface of /proc/net/dev, of no known kind.

    Source: proc_pid_net(5): eight numbers each way, of which bytes, packets, errors and drops come first.

    Raises:
        ValueError: a number is none.
    """
    found: dict[str, LinkCounters] = {}
    for line in net_dev.splitlines():
        name, colon, rest = line.rpartition(":")
        fields = rest.split()
        if colon and len(fields) >= 16:
            errors = sum(int(fields[index]) for index in (2, 3, 10, 11))
            found[name.strip()] = LinkCounters(None, int(fields[0]), int(fields[8]), errors)
    return found


def hardware(names: Sequence[str], sys: Path) -> list[str]:
    """Return the interfaces that have a device behind them.

    A container sees no hardware: then every interface that is not known to be virtual is told.
    """
    physical = [name for name in names if (sys / "class/net" / name / "device").exists()]
    return physical or [name for name in names if not name.startswith(_VIRTUAL)]


def interfaces(net_dev: str, sys: Path) -> dict[str, LinkCounters]:
    """Return the interfaces of the hardware, without those of IP over InfiniBand: their port counts that already."""
    found = interface_counters(net_dev)
    links: dict[str, LinkCounters] = {}
    for name in hardware(list(found), sys):
        place, told = sys / "class/net" / name, found[name]
        kind = number(place / "type")
        if kind != ARPHRD_INFINIBAND:
            links[name] = LinkCounters(
                "ethernet" if kind == ARPHRD_ETHERNET else None,
                told.receive_bytes,
                told.transmit_bytes,
                told.errors,
                speed(number(place / "speed")),
            )
    return links


def speed(megabits: int | None) -> float | None:
    """Return the speed of an interface in bytes per second, or None: virtual ones and those that are down say -1."""
    return megabits * BITS_PER_MEGABIT / BITS if megabits is not None and megabits > 0 else None
