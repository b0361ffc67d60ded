"""Who listens where on this host, from the kernel's sock_diag: the user and the cgroup behind a port."""

import ipaddress
import socket
import struct
from dataclasses import dataclass
from itertools import islice

from agent.sources.sockets.netlink import Listing, attributes, listing
from agent.sources.sockets.sock_diag import INET_DIAG_CGROUP_ID, tcp_messages

_LISTENERS_MAX = 4096

_LISTEN = 1 << 10  # TCP_LISTEN of include/net/tcp_states.h
_MESSAGE = struct.Struct("=B3x2s2x16s40xI4x")  # struct inet_diag_msg: family, port, address, user
_CGROUP = struct.Struct("=Q")


@dataclass(frozen=True, slots=True)
class Listener:
    """A listening TCP socket; `cgroup` is the inode of its cgroup v2 directory, None where the kernel does not tell."""

    address: ipaddress.IPv4Address | ipaddress.IPv6Address
    port: int
    uid: int
    cgroup: int | None


def listeners(ask: Listing = listing) -> list[Listener]:
    """Return the TCP listeners of the agent's own network namespace.

    Raises:
        SourceError: the kernel does not tell.
        ValueError: it tells in a form that is not known.
    """
    return [listener_of(body) for body in islice(tcp_messages(ask, _LISTEN), _LISTENERS_MAX)]


def listener_of(body: bytes) -> Listener:
    """Return the listener of one inet_diag message.

    Raises:
        ValueError: it is no such message.
    """
    if len(body) < _MESSAGE.size:
        raise ValueError(f"a socket of {len(body)} bytes is none")
    family, port, address, uid = _MESSAGE.unpack_from(body)
    cgroup: int | None = None
    for kind, start, end in attributes(body, _MESSAGE.size):
        if kind == INET_DIAG_CGROUP_ID and end - start >= _CGROUP.size:
            (cgroup,) = _CGROUP.unpack_from(body, start)
    packed = address[:4] if family == socket.AF_INET else address
    return Listener(ipaddress.ip_address(packed), int.from_bytes(port, "big"), uid, cgroup)


def behind(host: str, port: int, among: list[Listener]) -> Listener | None:
    """Return the listener that answers at an address of this host, or None where it is not plain which one does.

    A name other than localhost is not looked up: a name server would be asked, and its word decide whose run it is.
    """
    local = "127.0.0.1" if host == "localhost" else host
    try:
        address = ipaddress.ip_address(local)
    except ValueError:
        return None
    here = [one for one in among if one.port == port]
    found = [one for one in here if one.address == address]
    if not found and address.is_loopback:
        found = [one for one in here if one.address.is_unspecified]
    return found[0] if len({(one.uid, one.cgroup) for one in found}) == 1 else None
