"""Serve /metrics over HTTP, and nothing else; a scrape must not be able to hurt the host that it looks at.

Connections, the bytes of a request and the time that either side may take are bounded. Scrapes are made one at a
time, on a view that holds up no beat, and a secret is asked for before anything is made.
"""

import contextlib
import logging
import socket
import threading
import time
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Literal

from prometheus_client import CollectorRegistry, Metric

from agent.errors import ListenError
from agent.exposition import exposition
from agent.metrics.door import Door

_TEXT = "text/plain; charset=utf-8"
_GZIP_LEVEL = 1  # a host with 8 GPUs: 130 kB become 9 in 0.13 ms
_GZIP_FROM = 1024  # bytes; a packet holds less as it is
_GZIP_FORMAT = 31  # of zlib: the largest window, with a gzip header


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A status, what is said, and further headers."""

    status: HTTPStatus
    content: bytes
    kind: str = _TEXT
    headers: tuple[tuple[str, str], ...] = ()

    def compressed(self) -> "HttpAnswer":
        """Return the same answer in gzip's encoding, where that is worth it."""
        if len(self.content) < _GZIP_FROM:
            return self
        packer = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP_FORMAT)
        packed = packer.compress(self.content) + packer.flush()
        return HttpAnswer(self.status, packed, self.kind, (*self.headers, ("Content-Encoding", "gzip")))

    def encoded(self, *, with_content: bool = True) -> bytes:
        """Return the answer as it is sent; without its content to who asked for the head alone."""
        head = "\r\n".join(f"{name}: {value}" for name, value in self._all_headers())
        start = f"HTTP/1.1 {self.status.value} {self.status.phrase}\r\n{head}\r\n\r\n".encode("latin-1")
        return start + self.content if with_content else start

    def _all_headers(self) -> Iterable[tuple[str, str]]:
        yield "Server", "gpuledger-agent"
        yield "Content-Type", self.kind
        yield "Content-Length", str(len(self.content))
        yield "Connection", "close"
        yield from self.headers


def refusal(status: HTTPStatus, *headers: tuple[str, str]) -> HttpAnswer:
    """Return an answer that says no more than its status."""
    return HttpAnswer(status, f"{status.phrase}\n".encode(), _TEXT, headers)


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


def _read_head(stream: socket.socket, deadline: float) -> bytes:
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
            raise ConnectionError("the client disconnected before it sent a request")
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


class Places:
    """At most `most` connections at once. Who comes when all are taken puts out the one that came first.

    A scrape takes milliseconds, so the oldest connection is a slow one.
    """

    def __init__(self, most: int) -> None:
        self._free = threading.BoundedSemaphore(most)
        self._lock = threading.Lock()
        self._taken: list[socket.socket] = []

    def take(self, connection: socket.socket, patience_seconds: float) -> socket.socket | None:
        """Return what to leave the place with, or None where none became free, waiting for at most so long.

        Raises:
            OSError: this process has no file left.
        """
        if not self._free.acquire(blocking=False):
            self._put_out(1)
            if not self._free.acquire(timeout=patience_seconds):
                return None
        try:
            handle = connection.dup()  # TLS takes the connection over; by its double it can still be ended
        except OSError:
            self._free.release()
            raise
        with self._lock:
            self._taken.append(handle)
        return handle

    def leave(self, handle: socket.socket) -> None:
        """Give the place back; the connection is done with."""
        with self._lock:
            self._taken.remove(handle)
        handle.close()
        self._free.release()

    def empty(self) -> None:
        """Put everybody out."""
        self._put_out(len(self._taken))

    def _put_out(self, count: int) -> None:
        """End the oldest connections; their threads find out, and leave."""
        with self._lock:
            for handle in self._taken[:count]:
                with contextlib.suppress(OSError):  # it may have gone by itself
                    handle.shutdown(socket.SHUT_RDWR)


_LOG = logging.getLogger(__name__)

MOST_CONNECTIONS = 16
_BACKLOG = 128  # connections that the kernel holds until they are accepted; beyond, a client tries again after a second
_REQUEST_SECONDS = 5.0  # for a client to make itself known and to ask
_ANSWER_SECONDS = 10.0  # for it to take the answer
_PARTING_SECONDS = 1.0  # for it to notice that it has all
_PATIENCE_SECONDS = 1.0  # for a place to become free

_Outcome = Literal["served", "unauthorized", "refused", "broken", "crowded"]
_OUTCOMES: tuple[_Outcome, ...] = ("served", "unauthorized", "refused", "broken", "crowded")


class ScrapeServer:
    """The HTTP server of one agent; start() it, stop() it. `port` is the one it listens on, also where 0 was asked.

    `answered` counts connections by what became of them.

    Raises:
        ListenError: the address cannot be listened on.
    """

    def __init__(
        self,
        host: str,
        port: int,
        families: CollectorRegistry,
        door: Door | None = None,
        request_seconds: float = _REQUEST_SECONDS,
    ) -> None:
        self.answered: Counter[_Outcome] = Counter()
        self._door = door or Door()
        self._families = families
        self._request_seconds = request_seconds
        self._making = threading.Lock()
        self._counting = threading.Lock()
        self._places = Places(MOST_CONNECTIONS)
        self._stopping = threading.Event()
        self._host = host
        try:
            self._listener = _listen(host, port)
        except OSError as error:
            raise ListenError(
                f"cannot listen on {host}:{port} ({error}); set listen to another address, or to off"
            ) from error
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, name="metrics", daemon=True)

    def start(self) -> None:
        """Begin to answer."""
        self._door.warn(self._host)
        self._thread.start()

    def stop(self) -> None:
        """Answer no more."""
        self._stopping.set()
        with contextlib.suppress(OSError):  # wakes accept(), which close() does not
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._places.empty()
        if self._thread.is_alive():
            self._thread.join()

    def family(self) -> Metric:
        """Return the family of what became of connections; a scrape counts itself when it has been taken."""
        made = Metric("gpuledger_agent_scrapes", "Connections to /metrics, by outcome.", "counter")
        for outcome in _OUTCOMES:
            made.add_sample("gpuledger_agent_scrapes_total", {"outcome": outcome}, self.answered[outcome])
        return made

    def _accept(self) -> None:
        while not self._stopping.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                self._stopping.wait(0.1)  # no file left to open it with, perhaps: there will be one again
                continue
            if not self._seat(connection):
                self._count("crowded")
                connection.close()

    def _seat(self, connection: socket.socket) -> bool:
        """Return whether there was a place, and a thread, for this connection."""
        try:
            place = self._places.take(connection, _PATIENCE_SECONDS)
        except OSError:
            return False
        if place is None:
            return False
        try:
            threading.Thread(target=self._serve, args=(connection, place), name="scrape", daemon=True).start()
        except RuntimeError:  # the host has no thread left for us
            self._places.leave(place)
            return False
        return True

    def _serve(self, connection: socket.socket, place: socket.socket) -> None:
        outcome: _Outcome = "broken"
        try:
            outcome = self._talk(connection)
        except OSError as error:
            _LOG.debug("a scrape was cut off: %s", error)
        except Exception:  # noqa: BLE001  a mistake of ours in one scrape must not cost its place
            _LOG.exception("BUG: a scrape failed")
        finally:
            self._count(outcome)
            connection.close()
            self._places.leave(place)

    def _count(self, outcome: _Outcome) -> None:
        with self._counting:
            self.answered[outcome] += 1

    def _talk(self, connection: socket.socket) -> _Outcome:
        deadline = time.monotonic() + self._request_seconds
        with self._door.stream(connection, self._request_seconds) as stream:
            head_only = False
            try:
                request = parse(_read_head(stream, deadline))
                head_only = request.method == "HEAD"
                outcome, answer = self._answer(request)
            except RefusedError as refused:
                outcome, answer = "refused", refusal(refused.status)
            _send(stream, answer.encoded(with_content=not head_only))
            _part(stream)
        return outcome

    def _answer(self, request: Request) -> tuple[_Outcome, HttpAnswer]:
        secret = self._door.secret
        if not secret.admits(request.headers.get("authorization")):
            challenges = (("WWW-Authenticate", challenge) for challenge in secret.challenges)
            return "unauthorized", refusal(HTTPStatus.UNAUTHORIZED, *challenges)
        if request.method not in ("GET", "HEAD"):
            return "refused", refusal(HTTPStatus.METHOD_NOT_ALLOWED, ("Allow", "GET, HEAD"))
        if request.path == "/metrics":
            page, kind = self._made(request.headers.get("accept", ""))
            answer = HttpAnswer(HTTPStatus.OK, page, kind, (("Vary", "Accept, Accept-Encoding"),))
            return "served", answer.compressed() if request.takes_gzip else answer
        if request.path == "/":
            return "served", HttpAnswer(HTTPStatus.OK, b"gpuledger agent: see /metrics\n")
        return "refused", HttpAnswer(HTTPStatus.NOT_FOUND, b"there is only /metrics here\n")

    def _made(self, accept: str) -> tuple[bytes, str]:
        with self._making:  # many at once cost the host no more of its time than one after the other
            return exposition(self._families, accept)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=_BACKLOG)


def _send(stream: socket.socket, content: bytes) -> None:
    deadline = time.monotonic() + _ANSWER_SECONDS
    rest = memoryview(content)
    while rest:  # sendall() of an encrypted stream gives each part the whole time
        stream.settimeout(left(deadline))
        rest = rest[stream.send(rest) :]


def _part(stream: socket.socket) -> None:
    """Wait for the client to hang up: what it said that nobody read would make the kernel take the answer back."""
    deadline = time.monotonic() + _PARTING_SECONDS
    with contextlib.suppress(OSError):
        stream.shutdown(socket.SHUT_WR)
        while True:
            stream.settimeout(left(deadline))
            if not stream.recv(4096):
                return
