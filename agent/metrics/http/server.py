"""Serve /metrics over HTTP, and nothing else; a scrape must not be able to hurt the host that it looks at.

Connections, the bytes of a request and the time that either side may take are bounded. Scrapes are made one at a
time, on a view that holds up no beat, and a secret is asked for before anything is made.
"""

import contextlib
import logging
import socket
import threading
import time
from collections import Counter
from http import HTTPStatus
from typing import Literal

from prometheus_client import CollectorRegistry, Metric

from agent.errors import ListenError
from agent.exposition import exposition
from agent.metrics.http.answer import HttpAnswer, refusal
from agent.metrics.http.door import Door
from agent.metrics.http.places import Places
from agent.metrics.http.request import RefusedError, Request, left, parse, read_head

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
        made = Metric("gpuledger_agent_scrapes", "Connections to /metrics, by what became of them.", "counter")
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
            _LOG.debug("a scrape broke off: %s", error)
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
                request = parse(read_head(stream, deadline))
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
