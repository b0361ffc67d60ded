"""Ask the kernel's sock_diag for the TCP sockets of the agent's own network namespace. Source: sock_diag(7)."""

import socket
import struct
from collections.abc import Iterator

from agent.sources.sockets.netlink import Listing

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
INET_DIAG_INFO = 2
INET_DIAG_CGROUP_ID = 21

_QUESTION = struct.Struct("=BBBBI48x")  # struct inet_diag_req_v2


def tcp_messages(ask: Listing, states: int, extensions: int = 0) -> Iterator[bytes]:
    """Yield an inet_diag message for each socket, IPv4 and IPv6, in one of these states (bits by TCP state).

    `extensions` are bits of further attributes, each at its number less one.

    Raises:
        SourceError: the kernel does not tell.
    """
    for family in (socket.AF_INET, socket.AF_INET6):
        question = _QUESTION.pack(family, socket.IPPROTO_TCP, extensions, 0, states)
        yield from ask(_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY, question)
