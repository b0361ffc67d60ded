"""Network interfaces, from procfs and /sys/class/net."""

from collections.abc import Sequence
from pathlib import Path

from agent.procfs import number
from agent.sources import counters
from agent.sources.network.links import BITS, LinkCounters

_ARPHRD_INFINIBAND = 32
_ARPHRD_ETHERNET = 1
_BITS_PER_MEGABIT = 10**6

_VIRTUAL = ("lo", "veth", "docker", "br-", "virbr", "cni", "cali", "flannel", "ifb", "dummy", "tun", "tap", "kube-")


def interface_counters(proc: Path) -> dict[str, LinkCounters]:
    """Return the counters of every interface, of no known kind.

    Raises:
        SourceError: procfs does not tell them.
    """
    return {
        name: LinkCounters(None, one.bytes_recv, one.bytes_sent, one.errin + one.dropin + one.errout + one.dropout)
        for name, one in counters.interfaces(proc).items()
    }


def _hardware(names: Sequence[str], sys: Path) -> list[str]:
    """Return the interfaces that have a device behind them.

    A container sees no hardware: then every interface that is not known to be virtual is told.
    """
    physical = [name for name in names if (sys / "class/net" / name / "device").exists()]
    return physical or [name for name in names if not name.startswith(_VIRTUAL)]


def interfaces(proc: Path, sys: Path) -> dict[str, LinkCounters]:
    """Return the interfaces of the hardware, without those of IP over InfiniBand: their port counts that already."""
    found = interface_counters(proc)
    links: dict[str, LinkCounters] = {}
    for name in _hardware(list(found), sys):
        place, told = sys / "class/net" / name, found[name]
        kind = number(place / "type")
        if kind != _ARPHRD_INFINIBAND:
            links[name] = LinkCounters(
                "ethernet" if kind == _ARPHRD_ETHERNET else None,
                told.receive_bytes,
                told.transmit_bytes,
                told.errors,
                speed(number(place / "speed")),
            )
    return links


def speed(megabits: int | None) -> float | None:
    """Return the speed of an interface in bytes per second, or None: virtual ones and those that are down say -1."""
    return megabits * _BITS_PER_MEGABIT / BITS if megabits is not None and megabits > 0 else None
