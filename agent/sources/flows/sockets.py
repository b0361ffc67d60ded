"""TCP connections of this network namespace and what each has moved, from the kernel's sock_diag."""

import socket
import struct
from dataclasses import dataclass
from pathlib import Path

from agent.procfs import understanding
from agent.sources.sockets.netlink import Listing, attributes, listing
from agent.sources.sockets.sock_diag import INET_DIAG_CGROUP_ID, INET_DIAG_INFO, tcp_messages

_PLACE = Path("netlink/sock_diag")  # a name for messages; no such file is read
SOCKETS_MAX = 16_384  # looked at in one reading; the rest is counted

# Connections that have moved bytes and still hold their counters: not listening, not yet made, not TIME_WAIT.
# ESTABLISHED, FIN_WAIT1, FIN_WAIT2, CLOSE_WAIT, LAST_ACK, CLOSING of include/net/tcp_states.h.
_STATES = sum(1 << state for state in (1, 4, 5, 8, 9, 11))
_MESSAGE = struct.Struct("=B7x16s16s4xQ20x")  # struct inet_diag_msg: family, source, destination, cookie
_CGROUP = struct.Struct("=Q")
# struct tcp_info of include/uapi/linux/tcp.h: tcpi_total_retrans, tcpi_bytes_acked, tcpi_bytes_received.
_TCP_INFO = struct.Struct("=100xI16xQQ")
_MAPPED = bytes(10) + b"\xff\xff"  # ::ffff:0:0/96, an IPv4 peer of an IPv6 socket


@dataclass(frozen=True, slots=True)
class Socket:
    """One connection, and what it has moved since it was made. Addresses are packed, IPv4 as four bytes."""

    cookie: int  # the kernel's name of it, never used again
    local: bytes
    peer: bytes
    cgroup: int | None  # inode of its cgroup v2 directory; None where the kernel does not tell
    received_bytes: int
    acked_bytes: int
    retransmits: int


@dataclass(frozen=True, slots=True)
class Dump:
    """All connections by cookie, and how many were too many to be looked at."""

    sockets: dict[int, Socket]
    left_out: int = 0


def tcp_sockets(ask: Listing = listing) -> Dump:
    """Return the TCP connections of the agent's own network namespace, IPv4 and IPv6.

    Raises:
        SourceError: the kernel does not tell.
    """
    found: dict[int, Socket] = {}
    left_out = 0
    with understanding(_PLACE):
        for body in tcp_messages(ask, _STATES, 1 << (INET_DIAG_INFO - 1)):
            if len(found) >= SOCKETS_MAX:
                left_out += 1
            elif (one := socket_of(body)) is not None:
                found[one.cookie] = one
    return Dump(found, left_out)


def socket_of(body: bytes) -> Socket | None:
    """Return the connection of one inet_diag message, or None where it bears no counters.

    Raises:
        ValueError: it is no such message.
    """
    if len(body) < _MESSAGE.size:
        raise ValueError(f"a socket of {len(body)} bytes is none")
    family, local, peer, cookie = _MESSAGE.unpack_from(body)
    info: tuple[int, int, int] | None = None
    cgroup: int | None = None
    for kind, start, end in attributes(body, _MESSAGE.size):
        if kind == INET_DIAG_INFO and end - start >= _TCP_INFO.size:
            info = _TCP_INFO.unpack_from(body, start)
        elif kind == INET_DIAG_CGROUP_ID and end - start >= _CGROUP.size:
            cgroup = _CGROUP.unpack_from(body, start)[0]
    if info is None:
        return None
    retransmits, acked, received = info
    return Socket(cookie, _address(family, local), _address(family, peer), cgroup, received, acked, retransmits)


def _address(family: int, packed: bytes) -> bytes:
    if family == socket.AF_INET:
        return packed[:4]
    return packed[12:] if packed.startswith(_MAPPED) else packed
