"""What the kernel says of a socket, written as it writes it."""

import ipaddress
import socket
import struct

MAPPED = bytes(10) + b"\xff\xff"


def packed(address: str) -> bytes:
    """Return an address as four or sixteen bytes."""
    return ipaddress.ip_address(address).packed


def attribute(kind: int, content: bytes) -> bytes:
    """Return a netlink attribute, padded."""
    return struct.pack("=HH", 4 + len(content), kind) + content + bytes(-len(content) % 4)


def tcp_info(received: int, acked: int, retransmits: int, size: int = 240) -> bytes:
    """Return a struct tcp_info of this length."""
    whole = struct.pack("=100xI16xQQ", retransmits, acked, received)
    return (whole + bytes(max(0, size - len(whole))))[:size]


def inet_diag(
    local: str,
    peer: str,
    cookie: int,
    *attributes: bytes,
) -> bytes:
    """Return the body of a message about one socket."""
    family = socket.AF_INET6 if ":" in local else socket.AF_INET
    ends = (packed(end).ljust(16, b"\0") for end in (local, peer))
    return struct.pack("=B7x16s16s4xQ20x", family, *ends, cookie) + b"".join(attributes)


def message(kind: int, body: bytes) -> bytes:
    """Return a netlink message, padded."""
    return struct.pack("=IHHII", 16 + len(body), kind, 2, 1, 0) + body + bytes(-len(body) % 4)
