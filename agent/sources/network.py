"""Network interfaces and RDMA ports of the host, from procfs and sysfs; one row of `network_samples` for each."""

import os
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

_INTERFACES = "class/net"
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


# Ports of a card in switchdev mode: p0 is the uplink (nameless with drivers before 5.0), p0s1 one of it that was split;
# pf0vf3, pf0sf7, c1pf0 and older drivers' plain numbers are what represents a guest's port there. Source:
# devlink-port.rst, "Port flavours".
_UPLINK = re.compile(r"(?:p\d+(?:s\d+)?)?")


@dataclass(frozen=True, slots=True)
class _Place:
    """An interface as sysfs shows it, with its neighbors in the stack: the bytes of each pass the others as well."""

    above: frozenset[str]
    below: frozenset[str]
    is_bridge: bool
    switch: str | None  # the card's id in switchdev mode
    is_uplink: bool


def _place(place: Path) -> _Place:
    try:
        files = os.listdir(place)  # noqa: PTH208  (names alone are needed)
        above = {(place / "master").readlink().name} if "master" in files else set()
    except OSError:  # sysfs does not show it
        files, above = [], set()
    switch = (text(place / "phys_switch_id") or "").strip() or None if "phys_switch_id" in files else None
    port = (text(place / "phys_port_name") or "").strip() if switch else ""
    return _Place(
        above=frozenset(above),
        below=frozenset(file.removeprefix("lower_") for file in files if file.startswith("lower_")),
        is_bridge="bridge" in files,
        switch=switch,
        is_uplink=switch is not None and bool(_UPLINK.fullmatch(port)),
    )


def _once(names: Sequence[str], sys: Path) -> list[str]:
    """Return the interfaces whose bytes together are each byte of the host once: those with a device behind them.

    One with a device of its own upon another counts for both, as a synthetic one does for the virtual function below it
    (Azure, failover); upon those without, a bond shows again what its cards show. What represents a guest's port in a
    switch shows again what passed the uplink. A container sees no hardware: then every interface is told that is not
    known to be virtual, and of stacked ones the lowest.
    """
    hardware = [name for name in names if (sys / _INTERFACES / name / "device").exists()]
    places = {name: _place(sys / _INTERFACES / name) for name in hardware or names}  # not of all that pods have
    above = {name: set(place.above) for name, place in places.items()}
    for name, place in places.items():
        for lower in place.below & places.keys():
            above[lower].add(name)
    if not hardware:
        upper = set().union(*above.values())
        return [
            name
            for name, place in places.items()
            if name not in upper and not place.is_bridge and not name.startswith(_VIRTUAL)
        ]
    told = set(hardware)
    if uplinks := {name for name in hardware if places[name].is_uplink}:
        switches = {places[name].switch for name in uplinks}
        told -= {name for name in told - uplinks if places[name].switch in switches or _parents(name, sys) & uplinks}
    return [name for name in hardware if name in told and not above[name] & told]


def _parents(name: str, sys: Path) -> set[str]:
    """Return the interfaces of the card that this one is a virtual or scalable function of."""
    device = sys / _INTERFACES / name / "device"
    try:
        cards = [device / "physfn", *([device.resolve().parent] if (device / "sfnum").exists() else [])]
        return {place.name for card in cards if (card / "net").is_dir() for place in (card / "net").iterdir()}
    except OSError:  # it went away
        return set()


def interfaces(proc: Path, sys: Path) -> dict[str, LinkCounters]:
    """Return the interfaces of the hardware, without those of IP over InfiniBand: their port counts that already."""
    found = interface_counters(proc)
    links: dict[str, LinkCounters] = {}
    for name in _once(list(found), sys):
        place, told = sys / _INTERFACES / name, found[name]
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
