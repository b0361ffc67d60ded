"""How all of ours speak HTTP: to whom they were told, and to nobody else. No other module opens such a connection.

No redirect is followed, and no proxy of the environment is used: a key goes where settings or a flag say, not where a
variable does that a unit or a shell happened to inherit. TLS is verified, every wait and every answer has a bound.
"""

import http.client
import ipaddress
import random
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

# 1.0 and 1.1 are broken (RFC 8996), and Debian's Python leaves the choice to a file in /etc.
OLDEST = ssl.TLSVersion.TLSv1_2
_CHUNK_BYTES = 1 << 16
PORTS = {"http": 80, "https": 443}


class BrokenAnswerError(OSError):
    """What came is not HTTP, or breaks off before its end."""


class TooSlowError(TimeoutError):
    """The answer began, and had not ended in time."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer. `is_whole`: there was no more than was to be read; of a longer one `body` is the beginning."""

    status: int
    reason: str
    headers: Message
    body: bytes
    is_whole: bool = True

    @property
    def is_success(self) -> bool:
        """Whether its status says so."""
        return 200 <= self.status < 300


def trusting(authority: Path | str | None) -> ssl.SSLContext:
    """Return a context for a client that believes this authority, or those of the system where it is None.

    Raises:
        OSError: the file cannot be read, or holds no certificate.
    """
    context = ssl.create_default_context(cafile=authority)
    # Since 3.13 Python refuses certificates that do not name their authority's key, as those of many sites do not, and
    # which every other client takes: a host is not to fall silent because its Python was renewed.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.minimum_version = OLDEST
    return context


def address(url: str) -> SplitResult:
    """Return the parts of an address of HTTP or HTTPS.

    Raises:
        ValueError: it is none, or its port is none.
    """
    parts = urlsplit(url)
    if parts.scheme not in PORTS or not parts.hostname or parts.port == 0:
        raise ValueError(f"{url!r} is not an HTTP or HTTPS address")
    return parts


def pause_seconds(failures: int, first: float, longest: float, fraction: Callable[[], float] = random.random) -> float:
    """Return how long to wait after one more failure than so many: doubling, and by chance half of that or more.

    Whoever failed at the same time then does not come back at the same time.
    """
    wait = min(longest, first * 2.0 ** min(failures, 30))
    return wait / 2 + wait / 2 * fraction()


class Response:
    """The head of an answer, whose body is still to be read: by lines, or by pieces."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self._response, self._has_ended = response, False
        self.status, self.reason, self.headers = response.status, response.reason, response.headers

    def piece(self, most_bytes: int = _CHUNK_BYTES) -> bytes:
        """Return what has come of the body; nothing at its end.

        Raises:
            BrokenAnswerError: it breaks off.
        """
        with _renamed():
            if piece := self._response.read1(most_bytes):
                return piece
        if self._response.length:  # the library says nothing where a connection ends early
            raise BrokenAnswerError(f"the response was cut off: {self._response.length} bytes are missing")
        self._has_ended = True
        self._response.close()
        return b""

    def line(self, most_bytes: int) -> bytes:
        """Return the next line of the body, or so much of it; without a line's end where it breaks off."""
        with _renamed():
            return self._response.readline(most_bytes)

    def close(self) -> None:
        """Read no more of it."""
        self._response.close()

    @property
    def is_reusable(self) -> bool:
        """Whether all of it was read, and its connection may carry another question."""
        return self._has_ended and not self._response.will_close


class Connection:
    """A connection to one server, opened with the first question, and kept until it is closed. Use it in one thread.

    That a kept one was closed over there shows only at the next question, which is then asked once more over another:
    let what is asked over one connection be what may be asked twice.
    """

    def __init__(
        self, url: str, timeout_seconds: float, *, authority: Path | None = None, tls: ssl.SSLContext | None = None,
        proxy: str = "",
    ) -> None:  # fmt: skip
        """Speak to the server of this address; `proxy` is one that a setting names, and https goes through it sealed.

        Raises:
            ValueError: an address is none.
            OSError: the file of the authority cannot be read, or holds no certificate.
        """
        parts = address(url)
        self._host, self._port = parts.hostname or "", parts.port or PORTS[parts.scheme]
        self.tls = (tls or trusting(authority)) if parts.scheme == "https" else None
        self._proxy = address(proxy) if proxy else None
        if self._proxy and not self.tls:
            raise ValueError("a proxy requires https://; it could read plain HTTP")
        self._timeout_seconds = timeout_seconds
        self._open: http.client.HTTPConnection | None = None
        self._answer: Response | None = None  # holds the socket itself where the server ends the connection

    def response(
        self, method: str, target: str, body: bytes | str | None = None, headers: Mapping[str, str] | None = None
    ) -> Response:
        """Ask, and return the answer's head; `target` is a path and its query.

        Raises:
            OSError: nobody answers, or not in time, or not in HTTP.
        """
        is_kept = self._open is not None
        try:
            return self._response(method, target, body, headers)
        except ConnectionError:
            if not is_kept:
                raise
        return self._response(method, target, body, headers)

    def reply(
        self,
        method: str,
        target: str,
        body: bytes | str | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        most_bytes: int,
        whole_seconds: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> Reply:
        """Ask, and return the answer with its body: so much of it, and within so long in all (None: as one wait).

        Raises:
            OSError: as response() does; BrokenAnswerError where the body breaks off, TooSlowError where it trickles.
        """
        whole_seconds = self._timeout_seconds if whole_seconds is None else whole_seconds
        until = clock() + whole_seconds
        response = self.response(method, target, body, headers)
        parts, size = [], 0
        try:
            while size <= most_bytes and (piece := response.piece(min(_CHUNK_BYTES, most_bytes + 1 - size))):
                parts.append(piece)
                size += len(piece)
                if clock() > until:
                    raise TooSlowError(f"it took longer than {whole_seconds:g} s")
        finally:
            if not response.is_reusable:
                self.close()
        content = b"".join(parts)
        return Reply(response.status, response.reason, response.headers, content[:most_bytes], size <= most_bytes)

    def close(self) -> None:
        """Close it, and what is not read of the answer; the next question opens another."""
        for each in (self._answer, self._open):
            if each is not None:
                each.close()
        self._answer = self._open = None

    def _response(
        self, method: str, target: str, body: bytes | str | None, headers: Mapping[str, str] | None
    ) -> Response:
        try:
            with _renamed():
                self._open = self._open or self._opened()
                self._open.request(method, target or "/", body, {"User-Agent": "gpuledger", **(headers or {})})
                self._answer = Response(self._open.getresponse())
                return self._answer
        except BaseException:
            self.close()
            raise

    def _opened(self) -> http.client.HTTPConnection:
        if self.tls is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout_seconds)
        if self._proxy is None:
            return http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout_seconds, context=self.tls)
        host, port = self._proxy.hostname or "", self._proxy.port or PORTS["http"]
        through = http.client.HTTPSConnection(host, port, timeout=self._timeout_seconds, context=self.tls)
        through.set_tunnel(self._host, self._port)
        return through


def ask(
    url: str,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    *,
    timeout_seconds: float,
    most_bytes: int,
    authority: Path | None = None,
    tls: ssl.SSLContext | None = None,
    proxy: str = "",
    whole_seconds: float | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Reply:
    """Return the answer to one GET, or to the POST of a body, over a connection of its own.

    Raises:
        ValueError, OSError: as Connection and its reply() do.
    """
    parts = address(url)
    connection = Connection(url, timeout_seconds, authority=authority, tls=tls, proxy=proxy)
    target = f"{parts.path}?{parts.query}" if parts.query else parts.path
    try:
        return connection.reply(
            "GET" if body is None else "POST", target, body, headers, most_bytes=most_bytes,
            whole_seconds=whole_seconds, clock=clock,
        )  # fmt: skip
    finally:
        connection.close()


def host_of(url: str) -> str:
    """Name a server without what its address may hold of a secret: user, path and query."""
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)


def is_loopback(host: str) -> bool:
    """Return whether a host is this one, as far as its name says: nothing is resolved."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def why(error: OSError) -> str:
    """Return the system's words for what went wrong; TLS speaks of versions where there is none."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason == "WRONG_VERSION_NUMBER":
        return "it does not speak TLS; is it http://?"
    return error.strerror or str(error) or type(error).__name__


@contextmanager
def _renamed() -> Iterator[None]:
    """Have what the library says of a broken answer be one kind of OSError, as is what the system says."""
    try:
        yield
    except http.client.HTTPException as error:
        if isinstance(error, OSError):  # it was closed before it answered
            raise
        raise BrokenAnswerError(str(error) or type(error).__name__) from error
