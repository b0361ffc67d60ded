"""One HTTP request as a scraper sends it: the head is read up to a limit, and parsed; a body is not looked at."""

import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

MOST_HEAD = 16 * 1024  # bytes of the request line and all headers
MOST_HEADERS = 100
_END = b"\r\n\r\n"


class RefusedError(Exception):
    """A request that is not answered with what it asks for, and the status that says so."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status.phrase)
        self.status = status


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked for: method, path without its query, and headers by their names in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]

    @property
    def takes_gzip(self) -> bool:
        """Whether the answer may be compressed. Source: RFC 9110, 12.5.3."""
        for accepted in self.headers.get("accept-encoding", "").split(","):
            coding, _, weight = accepted.replace(" ", "").lower().partition(";q=")
            if coding in ("gzip", "*"):
                return weight.strip("0.") != "" or weight == ""
        return False


def read_head(stream: socket.socket, deadline: float) -> bytes:
    """Return the head of a request, read until `deadline` on the monotonic clock.

    Raises:
        RefusedError: it is longer than MOST_HEAD.
        OSError: the client said nothing in time, or went away.
    """
    head = b""
    while _END not in head:
        stream.settimeout(left(deadline))
        received = stream.recv(4096)
        if not received:
            raise ConnectionError("the client went away before it had asked")
        head += received
        if len(head) > MOST_HEAD:
            raise RefusedError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
    return head[: head.index(_END)]


def left(deadline: float) -> float:
    """Return the seconds until a deadline on the monotonic clock.

    Raises:
        TimeoutError: it has passed.
    """
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError("it took too long")
    return seconds


def parse(head: bytes) -> Request:
    """Return the request of a head without its last empty line.

    Raises:
        RefusedError: it is no HTTP/1 request. Source: RFC 9112.
    """
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[0].isalpha() or not words[1] or words[2] not in ("HTTP/1.0", "HTTP/1.1"):
        raise RefusedError(HTTPStatus.BAD_REQUEST)
    if len(lines) > MOST_HEADERS:
        raise RefusedError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise RefusedError(HTTPStatus.BAD_REQUEST)
        headers[name.lower()] = value.strip()
    return Request(words[0], words[1].partition("?")[0], headers)
