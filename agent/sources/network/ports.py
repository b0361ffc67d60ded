"""RDMA ports (InfiniBand, RoCE, EFA), from /sys/class/infiniband."""

import re
from pathlib import Path

from agent.procfs import number, text
from agent.sources.network.links import BITS, LinkCounters

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
