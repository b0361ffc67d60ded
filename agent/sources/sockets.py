"""Sockets of this host as the kernel lists them over netlink: connections, listeners, and their cgroups' runs."""

import ipaddress
import os
import socket
import struct
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from agent.attribution.run import V2, job, unified_root
from agent.errors import SourceError
from agent.procfs import understanding

# Ask the kernel for a list over netlink, which any user may.
_NLMSG_ERROR = 2
_NLMSG_DONE = 3
_DUMP_REQUEST = 0x301  # NLM_F_REQUEST | NLM_F_DUMP

_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
_ATTRIBUTE = struct.Struct("=HH")  # length with this header, type
_ERRNO = struct.Struct("=i")

DATAGRAM_BYTES = 64 * 1024  # the kernel fills at most 32 KiB of what it is offered
_ANSWER_SECONDS = 5.0
_MESSAGES_MAX = 1_000_000

Listing = Callable[[int, int, bytes], Iterator[bytes]]  # protocol, kind and question to bodies, as `listing` answers


def listing(protocol: int, kind: int, question: bytes) -> Iterator[bytes]:
    """Yield what the kernel lists: the body of each message of a dump, until it says that it is done.

    Raises:
        SourceError: the kernel has no such list, is not allowed to give it, or stopped answering.

    Source: Documentation/userspace-api/netlink/intro.rst.
    """
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol) as asked:
            asked.settimeout(_ANSWER_SECONDS)
            asked.send(_HEADER.pack(_HEADER.size + len(question), kind, _DUMP_REQUEST, 1, 0) + question)
            seen = 0
            while seen < _MESSAGES_MAX:
                for type_, body in messages(asked.recv(DATAGRAM_BYTES)):
                    if type_ in (_NLMSG_DONE, _NLMSG_ERROR):
                        _check(body)
                        return
                    seen += 1
                    yield body
    except TimeoutError as error:
        raise SourceError(f"the kernel did not answer over netlink in {_ANSWER_SECONDS:g} s; retrying") from error
    except (OSError, ValueError) as error:
        raise SourceError(
            f"the kernel's socket list is not available over netlink ({error}); allow AF_NETLINK, and load tcp_diag"
        ) from error


def messages(datagram: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield type and body of each message of a datagram.

    Raises:
        ValueError: a length does not fit the datagram.
    """
    offset = 0
    while offset < len(datagram):
        if len(datagram) - offset < _HEADER.size:
            raise ValueError(f"{len(datagram) - offset} bytes are not a netlink message")
        length, type_, *_ = _HEADER.unpack_from(datagram, offset)
        if not _HEADER.size <= length <= len(datagram) - offset:
            raise ValueError(f"a netlink message declares {length} bytes")
        yield type_, datagram[offset + _HEADER.size : offset + length]
        offset += _aligned(length)


def attributes(body: bytes, offset: int) -> Iterator[tuple[int, int, int]]:
    """Yield type, start and end of each attribute of a message's body from this offset on.

    Raises:
        ValueError: a length does not fit the body.
    """
    while len(body) - offset >= _ATTRIBUTE.size:
        length, type_ = _ATTRIBUTE.unpack_from(body, offset)
        if not _ATTRIBUTE.size <= length <= len(body) - offset:
            raise ValueError(f"a netlink attribute declares {length} bytes")
        yield type_, offset + _ATTRIBUTE.size, offset + length
        offset += _aligned(length)


def _aligned(length: int) -> int:
    return (length + 3) & ~3


def _check(body: bytes) -> None:
    """Raise what the end of a list says: 0, or nothing at all, is an end in order."""
    code = -_ERRNO.unpack_from(body)[0] if len(body) >= _ERRNO.size else 0
    if code:
        raise OSError(code, os.strerror(code) if code > 0 else f"error {code}")


_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
INET_DIAG_INFO = 2
INET_DIAG_CGROUP_ID = 21

_SOCKETS_QUESTION = struct.Struct("=BBBBI48x")  # struct inet_diag_req_v2


def _tcp_messages(ask: Listing, states: int, extensions: int = 0) -> Iterator[bytes]:
    """Yield an inet_diag message for each socket, IPv4 and IPv6, in one of these states (bits by TCP state).

    `extensions` are bits of further attributes, each at its number less one.

    Raises:
        SourceError: the kernel does not tell.
    """
    for family in (socket.AF_INET, socket.AF_INET6):
        question = _SOCKETS_QUESTION.pack(family, socket.IPPROTO_TCP, extensions, 0, states)
        yield from ask(_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY, question)


_SOCK_DIAG_PLACE = Path("netlink/sock_diag")  # a name for messages; no such file is read
# TCP connections of this network namespace and what each has moved, from the kernel's sock_diag.
SOCKETS_MAX = 16_384  # looked at in one reading; the rest is counted

# Connections that have moved bytes and still hold their counters: not listening, not yet made, not TIME_WAIT.
# ESTABLISHED, FIN_WAIT1, FIN_WAIT2, CLOSE_WAIT, LAST_ACK, CLOSING of include/net/tcp_states.h.
_CONNECTION_STATES = sum(1 << state for state in (1, 4, 5, 8, 9, 11))
_CONNECTION_MESSAGE = struct.Struct("=B7x16s16s4xQ20x")  # struct inet_diag_msg: family, source, destination, cookie
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
    with understanding(_SOCK_DIAG_PLACE):
        for body in _tcp_messages(ask, _CONNECTION_STATES, 1 << (INET_DIAG_INFO - 1)):
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
    if len(body) < _CONNECTION_MESSAGE.size:
        raise ValueError(f"{len(body)} bytes are not a socket")
    family, local, peer, cookie = _CONNECTION_MESSAGE.unpack_from(body)
    info: tuple[int, int, int] | None = None
    cgroup: int | None = None
    for kind, start, end in attributes(body, _CONNECTION_MESSAGE.size):
        if kind == INET_DIAG_INFO and end - start >= _TCP_INFO.size:
            info = _TCP_INFO.unpack_from(body, start)
        elif kind == INET_DIAG_CGROUP_ID and end - start >= _CGROUP.size:
            cgroup = _CGROUP.unpack_from(body, start)[0]
    if info is None:
        return None
    retransmits, acked, received = info
    return Socket(
        cookie, _packed_address(family, local), _packed_address(family, peer), cgroup, received, acked, retransmits
    )


def _packed_address(family: int, packed: bytes) -> bytes:
    if family == socket.AF_INET:
        return packed[:4]
    return packed[12:] if packed.startswith(_MAPPED) else packed


# Who listens where on this host, from the kernel's sock_diag: the user and the cgroup behind a port.
_LISTENERS_MAX = 4096

_LISTEN = 1 << 10  # TCP_LISTEN of include/net/tcp_states.h
_LISTENER_MESSAGE = struct.Struct("=B3x2s2x16s40xI4x")  # struct inet_diag_msg: family, port, address, user


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
    return [listener_of(body) for body in islice(_tcp_messages(ask, _LISTEN), _LISTENERS_MAX)]


def listener_of(body: bytes) -> Listener:
    """Return the listener of one inet_diag message.

    Raises:
        ValueError: it is no such message.
    """
    if len(body) < _LISTENER_MESSAGE.size:
        raise ValueError(f"{len(body)} bytes are not a socket")
    family, port, address, uid = _LISTENER_MESSAGE.unpack_from(body)
    cgroup: int | None = None
    for kind, start, end in attributes(body, _LISTENER_MESSAGE.size):
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


# How many other network namespaces this one has links into: what happens there is not seen from here.
_NETLINK_ROUTE = 0
_RTM_GETLINK = 18
_IFLA_LINK_NETNSID = 37

_LINKS_QUESTION = struct.Struct("=16x")  # struct ifinfomsg: of all links
_ROUTE_PLACE = Path("netlink/route")  # a name for messages; no such file is read
_NUMBER = struct.Struct("=i")


def neighbour_namespaces(ask: Listing = listing) -> int:
    """Return how many network namespaces hold the other end of a link of ours, as those of containers and pods do.

    Raises:
        SourceError: the kernel does not tell.

    Source: rtnetlink(7); include/uapi/linux/if_link.h.
    """
    with understanding(_ROUTE_PLACE):
        numbers = {
            _NUMBER.unpack_from(body, start)[0]
            for body in ask(_NETLINK_ROUTE, _RTM_GETLINK, _LINKS_QUESTION.pack())
            for kind, start, end in attributes(body, _LINKS_QUESTION.size)
            if kind == _IFLA_LINK_NETNSID and end - start >= _NUMBER.size
        }
    return len(numbers - {-1})


# The run behind a cgroup's number, as sockets bear it: the inode of its cgroup v2 directory.
DIRECTORIES_MAX = 8192  # looked at in one search


class CgroupRuns:
    """Finds the runs of cgroups by number, and remembers them for as long as they are asked for.

    `run_of` turns the text of a /proc/<pid>/cgroup into a run id, None where no scheduler made the cgroup.
    The tree is searched only when a number is asked for that is not yet known: numbers are never used again.
    `cut_short` is whether the last search met more directories than it looks at.
    """

    def __init__(self, sys: Path, run_of: Callable[[str], str | None]) -> None:
        self.cut_short = False
        self._sys = sys
        self._run_of = run_of
        self._known: dict[int, str | None] = {}

    def runs(self, cgroups: Set[int]) -> dict[int, str]:
        """Return the run of each of these cgroups that belongs to one."""
        if not cgroups <= self._known.keys():
            self._known = self._search(cgroups)
        self._known = {cgroup: self._known.get(cgroup) for cgroup in cgroups}
        return {cgroup: run for cgroup, run in self._known.items() if run is not None}

    def coverage(self) -> list[str]:
        """Return what of this host's runs cannot be found, in words."""
        lines = []
        if not (self._sys / "fs/cgroup/cgroup.controllers").exists():
            lines.append(
                "connections of jobs under cgroup v1 are unattributed: the kernel identifies sockets by cgroup v2"
            )
        if self.cut_short:
            lines.append(f"there are more than {DIRECTORIES_MAX} cgroups; some jobs' connections are unattributed")
        return lines

    def _search(self, wanted: Set[int]) -> dict[int, str | None]:
        """Return what was known and what was found; a number that was not found is of no run.

        What a run's own sockets bore stays its own after its cgroup has gone.
        """
        found: dict[int, str | None] = {}
        names: dict[str, str | None] = {}
        seen = 0
        for path, number in _directories(str(unified_root(self._sys))):
            seen += 1
            if seen > DIRECTORIES_MAX:
                break
            if number in wanted and (here := job(f"0::{path}")) is not None:
                directory = here.directories[V2]
                if directory not in names:
                    names[directory] = self._run_of(f"0::{directory}")
                found[number] = names[directory]
        self.cut_short = seen > DIRECTORIES_MAX
        return self._known | found


def _directories(root: str) -> Iterator[tuple[str, int]]:
    """Yield path below the root and inode of every directory; one that vanishes meanwhile has nothing below it."""
    pending = [""]
    while pending:
        above = pending.pop()
        try:
            with os.scandir(root + above) as entries:
                inner = [(f"{above}/{entry.name}", entry.inode()) for entry in entries if entry.is_dir()]
        except OSError:
            continue
        yield from inner
        pending.extend(path for path, _ in inner)
