"""One POST of a batch over HTTP or HTTPS, and the collector's answer; nothing is decided here.

No redirect is followed, and no proxy of the environment is used: where the token and the readings go is said by the
settings alone, not by a variable that a unit or a shell happened to inherit.
"""

import http.client
import ssl
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import urlsplit

from agent.connection import connection, trusting
from agent.delivery.backoff import http_date
from agent.errors import ConfigError
from agent.wire.bounded import json_said
from agent.wire.envelope import CONTENT_TYPE, EPOCH_HEADER

TIMEOUT_SECONDS = 30.0
MAX_ANSWER_BYTES = 64 * 2**10
BATCHES = "/v1/batches"
BELIEVED = 2**62  # the largest number that is believed; microseconds and sequences are far below
# An idle connection that was closed over there shows only at the next request. A batch that comes twice counts once.
CLOSED = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError)


@dataclass(frozen=True, slots=True)
class Answer:
    """What was answered; what was not said is None. `server_time` is in microseconds, `date` that of the header.

    `reason` is the collector's word for a refusal: an answer without it is that of a proxy, or of something else.
    `put_aside` is how many rows of an accepted batch are not believed, and `disbelief` why the first is not.
    """

    status: int
    error: str = ""
    reason: str = ""
    sealed_through: int | None = None
    epoch: int | None = None
    server_time: int | None = None
    retry_after: str | None = None
    location: str | None = None
    date: datetime | None = None
    put_aside: int = 0
    disbelief: str = ""


class Link:
    """A connection to one collector, kept open while there is something to send.

    Raises:
        ConfigError: the address is none, or the certificate file cannot be read.
    """

    def __init__(self, url: str, token: str | None = None, ca_file: Path | None = None) -> None:
        scheme, self.host, self._port, path = _parts(url)
        if token and not (token.isascii() and token.isprintable()):
            raise ConfigError("the token for the collector has characters that no HTTP header may have")
        self.url = url.rstrip("/")
        self.secure = scheme == "https"
        self._path = path.rstrip("/") + BATCHES
        self._headers = {"Content-Type": CONTENT_TYPE} | ({"Authorization": f"Bearer {token}"} if token else {})
        self._token, self._ca_file = token, ca_file
        self._tls = _context(ca_file) if self.secure else None
        self._connection: http.client.HTTPConnection | None = None

    def post(self, body: bytes, epoch: int | None = None) -> Answer:
        """Send one batch, under the epoch of its stream where that has changed hands, and return the answer.

        Raises:
            OSError, http.client.HTTPException: no answer came; whether the batch arrived is not known.
        """
        reused = self._connection is not None
        try:
            return self._asked(body, epoch)
        except CLOSED:
            self.close()
            if not reused:
                raise
            return self._asked(body, epoch)

    def owner(self, location: str) -> "Link | None":
        """Return a link to another collector of the same fleet: same token, same certificates.

        None where the location is no address, or where the token would be readable on its way: without TLS it goes to
        the host of the settings alone, whatever somebody answers in its name.
        """
        try:
            other = Link(location.removesuffix(BATCHES), self._token, self._ca_file)
        except ConfigError:
            return None
        trusted = not self.secure and (not self._token or other.host == self.host)
        return other if other.secure or trusted else None

    def close(self) -> None:
        """Close the connection; the next post opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _asked(self, body: bytes, epoch: int | None) -> Answer:
        open_to = self._connection or self._connected()
        headers = self._headers | ({EPOCH_HEADER: str(epoch)} if epoch is not None else {})
        try:
            open_to.request("POST", self._path, body, headers)
            response = open_to.getresponse()
            content = response.read(MAX_ANSWER_BYTES)
            if response.will_close or not response.isclosed():
                self.close()
            return _answer(response, content)
        except BaseException:
            self.close()
            raise

    def _connected(self) -> http.client.HTTPConnection:
        self._connection = connection(self.host, self._port, TIMEOUT_SECONDS, self._tls)
        return self._connection


def _parts(url: str) -> tuple[str, str, int | None, str]:
    """Return scheme, host, port and path of a collector's address."""
    try:
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.hostname:
            return parts.scheme, parts.hostname, parts.port, parts.path
    except ValueError:  # a port that is none, a bracket that is not closed
        pass
    raise ConfigError(f"{url!r} is not a collector's address; write it as http://host:8470")


def _context(ca_file: Path | None) -> ssl.SSLContext:
    try:
        return trusting(ca_file)
    except OSError as error:
        raise ConfigError(f"cannot read the certificates in {ca_file}: {error}") from error


def _answer(response: http.client.HTTPResponse, content: bytes) -> Answer:
    try:
        said = json_said(content)
    except ValueError:
        said = None
    fields = said if isinstance(said, dict) else {}
    reasons = fields.get("reasons")
    return Answer(
        status=response.status,
        error=str(fields.get("error") or response.reason)[:300],
        reason=str(fields.get("reason") or "")[:300],
        sealed_through=_number(fields.get("sealed_through")),
        epoch=_number(fields.get("epoch")),
        server_time=_number(fields.get("server_time")),
        retry_after=response.getheader("Retry-After"),
        location=response.getheader("Location"),
        date=http_date(response.getheader("Date")),
        put_aside=max(0, _number(fields.get("quarantined")) or 0),
        disbelief=str(reasons[0])[:300] if isinstance(reasons, list) and reasons else "",
    )


def _number(value: object) -> int | None:
    return value if type(value) is int and abs(value) < BELIEVED else None
