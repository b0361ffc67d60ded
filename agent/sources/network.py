"""Network interfaces and RDMA ports of the host, from procfs and sysfs; one row of `network_samples` for each."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.procfs import differences, number, text
from agent.source import Reading, Row, Value
from agent.sources.host import interface_counts

BITS = 8
_AMOUNTS = ("receive_bytes", "transmit_bytes", "errors")


@dataclass(frozen=True, slots=True)
class LinkCounters:
    """What one interface or port has moved since it came up; errors are those and drops, both ways."""

    kind: str | None
    receive_bytes: int | None
    transmit_bytes: int | None
    errors: int | None
    speed_bytes_per_second: float | None = None  # what it can carry one way


def _link_row(name: str, before: LinkCounters | None, now: LinkCounters) -> Row:
    """Return the row of one link; amounts are None on its first reading and across a reset."""
    row: dict[str, Value] = {"device": name, "link_kind": now.kind}
    if now.speed_bytes_per_second is not None:
        row["speed_bytes_per_second"] = now.speed_bytes_per_second
    return row if before is None else row | differences(before, now, _AMOUNTS)


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
        for name, one in interface_counts(proc).items()
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


_PORT_DATA_BYTES = 4  # port_rcv_data and port_xmit_data count words of four bytes (InfiniBand, PMA PortCounters)
_BITS_PER_GIGABIT = 10**9
_PORTS_MAX = 64

# A 32-bit counter of the older PMA stops at its top and stays there: it then says nothing.
_STUCK = 0xFFFFFFFF
_LINK_KINDS = {"InfiniBand": "infiniband", "Ethernet": "roce"}
_PORT_ERRORS = ("symbol_error", "port_rcv_errors", "port_xmit_discards")
_RATE = re.compile(r"^(\d{1,6}(?:\.\d{1,3})?) Gb/sec")


def port_counters(port: Path) -> LinkCounters:
    """Return the counters of one RDMA port (`…/infiniband/<device>/ports/<n>`).

    AWS EFA counts bytes in hw_counters, as of Linux 5.14 for each port, before that for the device; what it shows
    as port_rcv_data is 0. Adapters with 32-bit counters have wide ones beside them in counters_ext.

    Source: Documentation/ABI/stable/sysfs-class-infiniband; drivers/infiniband/hw/efa/efa_verbs.c.
    """
    for own in (port / "hw_counters", port.parent.parent / "hw_counters"):
        received, sent = number(own / "rx_bytes"), number(own / "tx_bytes")
        if received is not None and sent is not None:
            return LinkCounters(_kind(port) or "efa", received, sent, number(own / "rx_drops"), port_rate(port))
    errors = [number(port / "counters" / name) for name in _PORT_ERRORS]
    known = [error for error in errors if error is not None]
    return LinkCounters(
        kind=_kind(port),
        receive_bytes=_data(port, "port_rcv_data"),
        transmit_bytes=_data(port, "port_xmit_data"),
        errors=sum(known) if known else None,
        speed_bytes_per_second=port_rate(port),
    )


def ports(sys: Path) -> dict[str, LinkCounters]:
    """Return every RDMA port as `<device>:<port>`."""
    found = sorted((sys / "class/infiniband").glob("*/ports/*"))[:_PORTS_MAX]
    return {f"{port.parent.parent.name}:{port.name}": port_counters(port) for port in found}


def port_rate(port: Path) -> float | None:
    """Return what a port can carry one way in bytes per second, or None while it is down: it then shows a fiction."""
    if "ACTIVE" not in (text(port / "state") or ""):
        return None
    match = _RATE.match(text(port / "rate") or "")
    return float(match[1]) * _BITS_PER_GIGABIT / BITS if match else None


def _kind(port: Path) -> str | None:
    return _LINK_KINDS.get((text(port / "link_layer") or "").strip())


def _data(port: Path, name: str) -> int | None:
    words = number(port / "counters" / name)
    if words is None or words == _STUCK:
        words = number(port / "counters_ext" / f"{name}_64")
    return None if words is None else words * _PORT_DATA_BYTES


_DEVICES_MAX = 64


class NetworkSource:
    """Reads interfaces and RDMA ports; one row of `network_samples` for each.

    `devices_left_out` counts what the last reading left out for being too many.
    """

    name = "network"
    period_seconds = 0.0

    def __init__(self, proc: Path = Path("/proc"), sys: Path = Path("/sys")) -> None:
        self.devices_left_out = 0
        self._proc = proc
        self._sys = sys
        self._last: dict[str, LinkCounters] = {}

    def read(self) -> Reading:
        """Return a row per link; the amounts come with a link's second reading.

        Raises:
            SourceError: /proc/net/dev cannot be read.
        """
        now = ports(self._sys) | interfaces(self._proc, self._sys)
        kept = list(now)[:_DEVICES_MAX]
        self.devices_left_out = len(now) - len(kept)
        rows = [_link_row(name, self._last.get(name), now[name]) for name in kept]
        self._last = now
        return {"network_samples": rows}

    def coverage(self) -> list[str]:
        """Return what of this host's links is not seen, in words."""
        unknown = sorted(name for name, link in self._last.items() if link.receive_bytes is None)
        lines = [f"{name} has no readable byte counter" for name in unknown]
        if self.devices_left_out:
            lines.append(f"{self.devices_left_out} links beyond the first {_DEVICES_MAX} are not reported")
        return lines
