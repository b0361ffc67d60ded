"""Network interfaces and RDMA ports of the host, from procfs and sysfs."""

from dataclasses import dataclass
from pathlib import Path

from agent.errors import SourceError
from agent.procfs import differences, number, text, understanding
from agent.source import Reading, Row

PORT_DATA_BYTES = 4  # port_rcv_data and port_xmit_data count words of four bytes (InfiniBand, PMA PortCounters)
DEVICES_MAX = 64
ARPHRD_INFINIBAND = 32
ARPHRD_ETHERNET = 1

# A 32-bit counter of the older PMA stops at its top and stays there: it then says nothing.
_STUCK = 0xFFFFFFFF
_VIRTUAL = ("lo", "veth", "docker", "br-", "virbr", "cni", "cali", "flannel", "ifb", "dummy", "tun", "tap", "kube-")
_LINK_KINDS = {"InfiniBand": "infiniband", "Ethernet": "roce"}
_PORT_ERRORS = ("symbol_error", "port_rcv_errors", "port_xmit_discards")


@dataclass(frozen=True, slots=True)
class LinkCounters:
    """What one interface or port has moved since it came up; errors are those and drops, both ways."""

    kind: str | None
    receive_bytes: int | None
    transmit_bytes: int | None
    errors: int | None


def interface_counters(net_dev: str) -> dict[str, LinkCounters]:
    """Return the counters of every interface of /proc/net/dev, of no known kind.

    Source: proc_pid_net(5): eight numbers each way, of which bytes, packets, errors and drops come first.
    """
    found: dict[str, LinkCounters] = {}
    for line in net_dev.splitlines():
        name, colon, rest = line.rpartition(":")
        fields = rest.split()
        if colon and len(fields) >= 16:
            errors = sum(int(fields[index]) for index in (2, 3, 10, 11))
            found[name.strip()] = LinkCounters(None, int(fields[0]), int(fields[8]), errors)
    return found


def port_counters(port: Path) -> LinkCounters:
    """Return the counters of one RDMA port (`…/infiniband/<device>/ports/<n>`)."""
    counters = port / "counters"
    errors = [number(counters / name) for name in _PORT_ERRORS]
    known = [error for error in errors if error is not None]
    return LinkCounters(
        kind=_LINK_KINDS.get((text(port / "link_layer") or "").strip()),
        receive_bytes=_words(number(counters / "port_rcv_data")),
        transmit_bytes=_words(number(counters / "port_xmit_data")),
        errors=sum(known) if known else None,
    )


def _words(count: int | None) -> int | None:
    return None if count is None or count == _STUCK else count * PORT_DATA_BYTES


class NetworkSource:
    """Reads interfaces and RDMA ports; one row of `network_samples` for each.

    `devices_left_out` counts what the last reading left out for being too many.
    """

    name = "network"

    def __init__(self, proc: Path = Path("/proc"), sys: Path = Path("/sys"), period_seconds: float = 0.0) -> None:
        self.period_seconds = period_seconds
        self.devices_left_out = 0
        self._proc = proc
        self._sys = sys
        self._last: dict[str, LinkCounters] = {}

    def read(self) -> Reading:
        """Return a row per link; the amounts come with a link's second reading.

        Raises:
            SourceError: /proc/net/dev cannot be read.
        """
        with understanding(self._proc):
            now = self._ports() | self._interfaces()
        kept = list(now)[:DEVICES_MAX]
        self.devices_left_out = len(now) - len(kept)
        rows = [link_row(name, self._last.get(name), now[name]) for name in kept]
        self._last = now
        return {"network_samples": rows}

    def _interfaces(self) -> dict[str, LinkCounters]:
        net_dev = text(self._proc / "net" / "dev")
        if net_dev is None:
            raise SourceError(f"{self._proc / 'net/dev'} cannot be read; mount procfs there or name its place")
        found = interface_counters(net_dev)
        physical = [name for name in found if (self._sys / "class/net" / name / "device").exists()]
        # A container sees no hardware: then every interface that is not known to be virtual is told.
        names = physical or [name for name in found if not name.startswith(_VIRTUAL)]
        kinds = {name: number(self._sys / "class/net" / name / "type") for name in names}
        # The port's own counters hold the IP traffic over InfiniBand already.
        return {
            name: LinkCounters(
                "ethernet" if kinds[name] == ARPHRD_ETHERNET else None,
                found[name].receive_bytes,
                found[name].transmit_bytes,
                found[name].errors,
            )
            for name in names
            if kinds[name] != ARPHRD_INFINIBAND
        }

    def _ports(self) -> dict[str, LinkCounters]:
        ports = sorted((self._sys / "class/infiniband").glob("*/ports/*"))
        return {f"{port.parent.parent.name}:{port.name}": port_counters(port) for port in ports}


def link_row(name: str, before: LinkCounters | None, now: LinkCounters) -> Row:
    """Return the row of one link; amounts are None on its first reading and across a reset."""
    moved = {} if before is None else differences(before, now, ("receive_bytes", "transmit_bytes", "errors"))
    return {"device": name, "link_kind": now.kind, **moved}
