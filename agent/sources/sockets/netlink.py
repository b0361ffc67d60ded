"""Ask the kernel for a list over netlink, which any user may."""

import os
import socket
import struct
from collections.abc import Callable, Iterator

from agent.errors import SourceError

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
        raise SourceError(f"the kernel did not answer over netlink in {_ANSWER_SECONDS:g} s; tried again") from error
    except (OSError, ValueError) as error:
        raise SourceError(
            f"the kernel's list cannot be had over netlink ({error}); allow AF_NETLINK, and load tcp_diag"
        ) from error


def messages(datagram: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield type and body of each message of a datagram.

    Raises:
        ValueError: a length does not fit the datagram.
    """
    offset = 0
    while offset < len(datagram):
        if len(datagram) - offset < _HEADER.size:
            raise ValueError(f"a netlink message of {len(datagram) - offset} bytes is none")
        length, type_, *_ = _HEADER.unpack_from(datagram, offset)
        if not _HEADER.size <= length <= len(datagram) - offset:
            raise ValueError(f"a netlink message says that it has {length} bytes")
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
            raise ValueError(f"a netlink attribute says that it has {length} bytes")
        yield type_, offset + _ATTRIBUTE.size, offset + length
        offset += _aligned(length)


def _aligned(length: int) -> int:
    return (length + 3) & ~3


def _check(body: bytes) -> None:
    """Raise what the end of a list says: 0, or nothing at all, is an end in order."""
    code = -_ERRNO.unpack_from(body)[0] if len(body) >= _ERRNO.size else 0
    if code:
        raise OSError(code, os.strerror(code) if code > 0 else f"error {code}")
